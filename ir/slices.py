"""Verifying lists of static and dynamic amounts, which xDSL's verifiers leave out."""

from __future__ import annotations

from xdsl.dialects.builtin import DYNAMIC_INDEX, DenseArrayBase, ShapedType
from xdsl.ir import Operation
from xdsl.utils.exceptions import VerifyException

LISTS = {
    "memref.subview": ("source", "offsets", "sizes", "strides"),
    "memref.reinterpret_cast": ("result", "sizes", "strides"),
    "tensor.extract_slice": ("source", "offsets", "sizes", "strides"),
    "tensor.insert_slice": ("dest", "offsets", "sizes", "strides"),
    "tensor.pad": ("source", "low", "high"),
}
"""The value whose rank is the length of each list; the lists."""


def verify_lists(op: Operation) -> None:
    """
    Raise VerifyException unless the lists of `op` have an amount for each dimension.

    A list has a marker in the place of each amount that is an operand.
    """
    if op.name not in LISTS:
        return
    of, *names = LISTS[op.name]
    type = getattr(op, of).type
    rank = len(type.get_shape()) if isinstance(type, ShapedType) else None
    for name in names:
        static = getattr(op, f"static_{name}")
        assert isinstance(static, DenseArrayBase)
        amounts, operands = static.get_values(), getattr(op, name)
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
