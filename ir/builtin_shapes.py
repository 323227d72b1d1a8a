"""Checks of shapes in memref and tensor that MLIR makes and xDSL does not."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseArrayBase,
    ShapedType,
    UnrankedMemRefType,
    UnrankedTensorType,
)
from xdsl.ir import Attribute, Operation
from xdsl.utils.exceptions import VerifyException

LISTS = {
    "memref.subview": ("source", "offsets", "sizes", "strides"),
    "memref.reinterpret_cast": ("result", "sizes", "strides"),
    "memref.expand_shape": ("result", "output_shape"),
    "tensor.expand_shape": ("result", "output_shape"),
    "tensor.extract_slice": ("source", "offsets", "sizes", "strides"),
    "tensor.insert_slice": ("dest", "offsets", "sizes", "strides"),
    "tensor.pad": ("source", "low", "high"),
}
"""The value whose rank is the length of each list; the lists."""
RESHAPES = {
    "memref.expand_shape": ("src", "result"),
    "tensor.expand_shape": ("src", "result"),
    "memref.collapse_shape": ("result", "src"),
    "tensor.collapse_shape": ("result", "src"),
}
"""The value whose dimensions are groups of those of the other value."""


def verify_shapes(op: Operation) -> None:
    """Raise VerifyException unless `op` fits the dimensions of its operands."""
    verify_ranks(op)
    if op.name in LISTS:
        verify_lists(op)
    if op.name in RESHAPES:
        verify_groups(op)
    if op.name == "tensor.empty":
        verify_sizes(op)
    if op.name == "memref.cast":
        verify_cast(op)


def verify_ranks(op: Operation) -> None:
    """Raise VerifyException if a value of `op` has no rank: no pass takes those."""
    blocks = (block for region in op.regions for block in region.blocks)
    arguments = (arg for block in blocks for arg in block.args)
    for value in (*op.operands, *op.results, *arguments):
        if is_unranked(value.type):
            raise VerifyException(
                f"'{op.name}' has a value of type {value.type}; expected a known rank"
            )


def is_unranked(type: Attribute) -> bool:
    return isinstance(type, UnrankedTensorType | UnrankedMemRefType)


def verify_cast(op: Any) -> None:
    """Raise VerifyException unless only what is known of the sizes changes."""
    source, dest = op.source.type, op.dest.type
    sizes = source.get_shape(), dest.get_shape()
    if (
        source.element_type != dest.element_type
        or len(sizes[0]) != len(sizes[1])
        or any(a != b and DYNAMIC_INDEX not in (a, b) for a, b in zip(*sizes))
    ):
        raise VerifyException(
            f"'{op.name}' makes {dest} of {source}; expected one of the same sizes and "
            "elements"
        )


def verify_sizes(op: Any) -> None:
    """Raise VerifyException unless there is an operand for each dynamic size."""
    dynamic = op.tensor.type.get_shape().count(DYNAMIC_INDEX)
    if len(op.dynamic_sizes) != dynamic:
        raise VerifyException(
            f"'{op.name}' has {len(op.dynamic_sizes)} sizes; expected {dynamic}, one "
            "for each that is not static"
        )


def verify_groups(op: Any) -> None:
    """Raise VerifyException unless each dimension is in one group, in order."""
    grouped, split = (getattr(op, name).type for name in RESHAPES[op.name])
    groups = [[each.value.data for each in group] for group in op.reassociation]
    ranks = [
        type.get_num_dims() if isinstance(type, ShapedType) else None
        for type in (grouped, split)
    ]
    dims = [dim for group in groups for dim in group]
    if len(groups) != ranks[0] or dims != list(range(ranks[1] or 0)):
        raise VerifyException(
            f"'{op.name}' has the groups {groups}; expected {ranks[0]}, of {ranks[1]} "
            "dimensions"
        )


def verify_lists(op: Operation) -> None:
    """
    Raise VerifyException unless the lists of `op` have an amount for each dimension.

    A list has a marker in the place of each amount that is an operand.
    """
    of, *names = LISTS[op.name]
    type = getattr(op, of).type
    rank = len(type.get_shape()) if isinstance(type, ShapedType) else None
    for name in names:
        static = getattr(op, f"static_{name}")
        assert isinstance(static, DenseArrayBase)
        given = name if hasattr(op, name) else f"dynamic_{name}"
        amounts, operands = static.get_values(), getattr(op, given)
        if len(amounts) != rank:
            raise VerifyException(
                f"'{op.name}' has {len(amounts)} {name}; expected one for each of "
                f"{rank} dimensions"
            )
        if amounts.count(DYNAMIC_INDEX) != len(operands):
            raise VerifyException(
                f"'{op.name}' has {len(operands)} operands for its {name}; expected "
                f"{amounts.count(DYNAMIC_INDEX)}, one for each that is not static"
            )
