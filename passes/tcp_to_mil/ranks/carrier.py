"""
Tensors of more dimensions than Core ML has, as values of fewer.

A carrier is a value of at most `mil.MAX_RANK` dimensions that has the elements of a
tensor in the same order. In the IR the tensor is a view of its carrier.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import NoneAttr, TensorType
from xdsl.ir import Attribute, SSAValue

from padc.ir import mil
from padc.ir.tcp import tensor_type
from padc.ir.torch import (
    AtenOp,
    FromBuiltinTensorOp,
    ListConstructOp,
    ListType,
    ToBuiltinTensorOp,
    VTensorType,
)
from padc.passes.aten.aten_call import known
from padc.passes.aten.builder import Integer, sizes_in_type
from padc.passes.tcp_to_mil.ranks.grouping import Groups, Size

VIEWS = {"aten.view": "size", "aten._unsafe_view": "size", "aten.reshape": "shape"}
"""The argument of each op that holds the sizes."""


@dataclass(frozen=True)
class Carrier:
    """A value that carries a tensor of any rank."""

    value: SSAValue
    """A builtin tensor of at most `mil.MAX_RANK` dimensions."""
    sizes: Sequence[Integer]
    """The sizes of the tensor that is carried."""
    groups: Groups | None
    """The tensor's dimensions in each dimension of the value; None if not known."""

    @property
    def shape(self) -> list[int]:
        return sizes_in_type(self.sizes)

    @property
    def rank(self) -> int:
        return len(self.sizes)

    @property
    def is_single(self) -> bool:
        """Whether the tensor has one element."""
        return all(size == 1 for size in self.sizes)

    def aligned(self, rank: int) -> Carrier:
        """The same tensor with leading dimensions of size 1, as broadcasting has it."""
        more = rank - self.rank
        groups = self.groups
        if groups is not None:
            groups = tuple(tuple(dim + more for dim in group) for group in groups)
        return Carrier(self.value, [*[1] * more, *self.sizes], groups)


def is_high(value: SSAValue) -> bool:
    """Whether a value, or an element of a list, is a tensor that Core ML lacks."""
    if isinstance(value.type, ListType):
        owner = value.owner
        return isinstance(owner, ListConstructOp) and any(map(is_high, owner.elements))
    rank = rank_of(value.type)
    return rank is not None and rank > mil.MAX_RANK


def rank_of(type: Attribute) -> int | None:
    """The number of dimensions; None if it is unknown, or the value is not a tensor."""
    if isinstance(type, VTensorType):
        return None if isinstance(type.shape, NoneAttr) else len(type.get_shape())
    return type.get_num_dims() if isinstance(type, TensorType) else None


def stripped(x: SSAValue) -> SSAValue:
    """`x` before casts between the torch dialect and builtin tensors."""
    while isinstance(owner := x.owner, ToBuiltinTensorOp | FromBuiltinTensorOp):
        x = owner.operand
    return x


def viewed(x: SSAValue) -> AtenOp | None:
    """The view whose result `x` is, up to casts."""
    owner = stripped(x).owner
    if isinstance(owner, AtenOp) and owner.schema.name in VIEWS:
        return owner
    return None


def given_sizes(view: AtenOp) -> list[Integer] | None:
    """The sizes that a view is given, one of which may be -1."""
    sizes = view.arg(VIEWS[view.schema.name]).owner
    return [*map(known, sizes.elements)] if isinstance(sizes, ListConstructOp) else None


def symbol(size: Integer) -> Size:
    """A size as a product of sizes that only the running program knows."""
    if isinstance(size, int):
        return Size(size)
    owner = size.owner
    match owner:
        case AtenOp() if owner.schema.name == "aten.mul.int":
            a, b = (symbol(known(operand)) for operand in owner.operands)
            return a * b
        case AtenOp() if owner.schema.name == "aten.size.int":
            x, dim = owner.operands
            return Size(1, ((stripped(x), known(dim)),))
        case _:
            return Size(1, (size,))


def symbols(sizes: Sequence[Integer]) -> list[Size]:
    return [*map(symbol, sizes)]


def shape_of(x: SSAValue) -> list[int]:
    """The sizes of a builtin tensor, in its type."""
    return list(tensor_type(x).get_shape())
