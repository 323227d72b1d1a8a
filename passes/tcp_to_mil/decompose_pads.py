"""
Rewrite pads that Core ML lacks, in ATen's ops.

With static amounts, the tensor is concatenated with its borders: blocks of the fill,
or slices of the tensor, as `padc.ir.tcp.Border` describes the mode. Negative amounts
are slices.

Dynamic amounts may have any sign, so there is no fixed set of parts to concatenate. A
gather reads the tensor where the pad's index map says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeAlias

import numpy as np
from xdsl.context import Context
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import DYNAMIC_INDEX, AnyFloat, ModuleOp, TensorType, f32, i1
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from padc.errors import Obstacle
from padc.ir import mil, tcp
from padc.ir.padding import Amounts, cropped_size, padded_size
from padc.ir.tcp import AnyTensor, tensor_type
from padc.ir.weights import numpy_dtype
from padc.passes.aten.builder import AtenBuilder, Integer, integer_of
from padc.passes.aten.symbolic_tensor import SymbolicTensor
from padc.passes.common.lowering import lower_all
from padc.passes.tcp_to_mil.cropping import crop, crop_dimension
from padc.passes.tcp_to_mil.legality import (
    can_pad_natively,
    fill_of,
    is_within,
)
from padc.passes.tcp_to_mil.policies import DEFAULT_PAD_POLICY, PadPolicy

Sides: TypeAlias = tuple[Integer, Integer]
"""The lower and the upper amount of one dimension."""

Expansion: TypeAlias = tuple[Integer, Integer, int]
"""The lower, the upper and the interior amount of one dimension."""

OTHER_POLICY = "choose the pad policy auto: other ops then do it"


@dataclass(frozen=True)
class DecomposePadsPass(ModulePass):
    """Rewrite pads that Core ML lacks as slices, concatenations and gathers."""

    name = "decompose-pads"

    policy: PadPolicy = DEFAULT_PAD_POLICY
    """
    Which pads stay, to become Core ML's `pad`. auto: those that it has. native: all.
    decompose: constant pads only.
    """

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        lower_all(
            op, tcp.ExpandOp, partial(decompose, policy=self.policy), cast=refined
        )


def refined(op: tcp.ExpandOp, new: SSAValue, old: SSAValue) -> SSAValue:
    """A tensor under the type of `old`, whose sizes may be more static."""
    return AtenBuilder(op).refined(new, tensor_type(old))


def decompose(op: tcp.ExpandOp, policy: PadPolicy) -> SSAValue | None:
    """
    Build what replaces the result of a pad; None if the pad stays.

    Pads that no ops of Core ML can express stay too: of tensors that it does not have,
    by amounts that no op of ATen computes, or with a dynamic fill.
    """
    sizes = (*op.input_type.get_shape(), *op.result.type.get_shape())
    if 0 in sizes or op.input_type.get_num_dims() > mil.MAX_RANK:
        return None
    if (amounts := amounts_of(op)) is None:
        return None
    is_constant = isinstance(op, tcp.PadOp)
    if is_constant and not isinstance(op.fill.owner, ConstantOp):
        return None
    build, static = AtenBuilder(op), op.static_amounts
    if static is not None and not any(map(adds, static)):
        return pad_by(build, op.input, static, 0)
    if op.input_type.element_type == i1 and (
        policy == "native"
        or static is None
        or (is_constant and is_better_as_floats(op.input_type, static))
    ):
        return pad_as_floats(build, op, policy)
    native = native_amounts(op) if policy == "native" else None
    if is_constant:
        return decompose_constant_pad(build, op, amounts)
    assert isinstance(op, tcp.BorderPadOp)
    if native is not None:
        return pad_through_transposes(build, op, native)
    return decompose_border_pad(build, op, amounts, policy)


def amounts_of(op: tcp.ExpandOp) -> list[Expansion] | None:
    """
    The amounts as integers of ATen; None if one is not an integer.

    Interior amounts are static.
    """
    amounts: list[Expansion] = []
    for lower, upper, interior in op.expansions:
        sides = integer_of(lower), integer_of(upper)
        if sides[0] is None or sides[1] is None or not isinstance(interior, int):
            return None
        amounts.append((sides[0], sides[1], interior))
    return amounts


def native_amounts(op: tcp.ExpandOp) -> list[Amounts]:
    """The amounts; `Obstacle` if Core ML lacks the pad for any order of dimensions."""
    if (amounts := op.static_amounts) is None:
        raise Obstacle("Core ML pads by constant amounts only", OTHER_POLICY)
    if not isinstance(op.input_type.element_type, AnyFloat):
        raise Obstacle("Core ML pads floats only", OTHER_POLICY)
    if not isinstance(op, tcp.BorderPadOp):
        return amounts
    if op.MIL_MODE is None:
        raise Obstacle(f"Core ML has no {op.mode} pad", OTHER_POLICY)
    for dim, amount in enumerate(amounts):
        if not is_within(op, dim, amount):
            raise Obstacle(
                "Core ML replicates a dimension by no more than its size, which must "
                f"be static; dimension {dim} by {amount.lower} and {amount.upper}",
                OTHER_POLICY,
            )
    return amounts


def is_better_as_floats(type: AnyTensor, amounts: Sequence[Amounts]) -> bool:
    """
    Whether a constant pad of booleans takes fewer ops as a pad of floats.

    A pad of floats takes three: two casts and the pad. With static sizes, blocks of the
    fill are constants, and each padded dimension takes one concatenation.
    """
    return (
        DYNAMIC_INDEX in type.get_shape()
        or any(amount.interior for amount in amounts)
        or sum(map(adds, amounts)) > 2
    )


def pad_as_floats(build: AtenBuilder, op: tcp.ExpandOp, policy: PadPolicy) -> SSAValue:
    """A pad of booleans as a pad of floats, which represent them exactly."""
    x = build.cast(op.input, f32)
    type = TensorType(f32, op.result.type.get_shape())
    lower, upper, interior = zip(*op.expansions, strict=True)
    if isinstance(op, tcp.PadOp):
        fill = build.insert(tcp.fill_constant(bool(fill_of(op)), f32))
        pad = tcp.PadOp(x, fill, lower, upper, interior, type)
    else:
        assert isinstance(op, tcp.BorderPadOp)
        pad = op.__class__(x, lower, upper, type)
    padded = build.insert(pad)
    decomposed = decompose(pad, policy)
    return build.cast(padded if decomposed is None else decomposed, i1)


# Constant pads.


def decompose_constant_pad(
    build: AtenBuilder, op: tcp.PadOp, amounts: Sequence[Expansion]
) -> SSAValue | None:
    """Concatenate integers with blocks of the fill; gather if amounts are dynamic."""
    x, fill = op.input, python_fill(op)
    if is_cropped_away(op.input_type.get_shape(), amounts):
        return build.full(padded_shape(build, x, amounts), fill, x)
    left: list[Amounts] = []
    for dim, (lower, upper, between) in enumerate(amounts):
        if between:
            x = insert_between(build, x, dim, between, fill)
        if isinstance(lower, int) and isinstance(upper, int):
            left.append(Amounts(lower, upper))
        else:
            x = gather_with_fill(build, x, dim, (lower, upper), fill)
            left.append(Amounts(0, 0))
    is_native = isinstance(op.input_type.element_type, AnyFloat)
    if is_native and x is op.input and not any(may_crop_all(x, left)):
        return None
    return pad_by(build, x, left, fill)


def python_fill(op: tcp.PadOp) -> float | int:
    """The fill of a pad as a value of the tensor's dtype, not as a bit pattern."""
    fill = fill_of(op)
    if isinstance(fill, float):
        return fill
    return np.array(fill).astype(numpy_dtype(op.input_type.element_type)).item()


def is_cropped_away(shape: Sequence[int], amounts: Sequence[Expansion]) -> bool:
    """Whether only the fill is left in some dimension."""
    return any(
        size != DYNAMIC_INDEX
        and isinstance(lower, int)
        and isinstance(upper, int)
        and cropped_size(padded_size(size, 0, 0, between), lower, upper) <= 0
        for size, (lower, upper, between) in zip(shape, amounts, strict=True)
    )


def padded_shape(
    build: AtenBuilder, x: SSAValue, amounts: Sequence[Expansion]
) -> list[Integer]:
    """The sizes of `x` after a constant pad."""
    shape: list[Integer] = []
    for dim, (lower, upper, between) in enumerate(amounts):
        size, low, high = map(build.wrap, (build.size(x, dim), lower, upper))
        shape.append(padded_size(size, low, high, between).value)
    return shape


def pad_by(
    build: AtenBuilder, x: SSAValue, amounts: Sequence[Amounts], fill: float | int
) -> SSAValue:
    """
    Crop, then pad with a constant: floats by a pad, others by concatenation.

    Where cropping may leave nothing to pad, which Core ML lacks, it comes last.
    """
    none = Amounts(0, 0)
    is_last = may_crop_all(x, amounts)
    first = [
        none if late else each for late, each in zip(is_last, amounts, strict=True)
    ]
    last = [each if late else none for late, each in zip(is_last, amounts, strict=True)]
    x = grow(build, crop(build, x, first), [each.added for each in amounts], fill)
    return crop(build, x, last)


def may_crop_all(x: SSAValue, amounts: Sequence[Amounts]) -> list[bool]:
    """Whether a pad may crop all elements of each dimension, and add others."""
    return [
        size == DYNAMIC_INDEX and min(amount.lower, amount.upper) < 0 and adds(amount)
        for size, amount in zip(tensor_type(x).get_shape(), amounts, strict=True)
    ]


def grow(
    build: AtenBuilder, x: SSAValue, amounts: Sequence[Amounts], fill: float | int
) -> SSAValue:
    """Pad with a constant by amounts that are not negative."""
    if isinstance(tensor_type(x).element_type, AnyFloat):
        return build.pad(x, amounts, fill)
    for dim, amount in enumerate(amounts):
        shape = build.sizes(x)
        lower, upper = (
            [build.full([*shape[:dim], size, *shape[dim + 1 :]], fill, x)]
            if size
            else []
            for size in (amount.lower, amount.upper)
        )
        x = build.cat([*lower, x, *upper], dim)
    return x


def adds(amount: Amounts) -> bool:
    """Whether a pad adds elements to a dimension."""
    return max(amount.lower, amount.upper, amount.interior) > 0


def insert_between(
    build: AtenBuilder, x: SSAValue, dim: int, count: int, fill: float | int
) -> SSAValue:
    """Insert `count` fills between neighbours: `[D] -> [D, 1] -> [D, 1 + count]`."""
    shape = build.sizes(x)
    before, size, after = shape[:dim], shape[dim], shape[dim + 1 :]
    none = Amounts(0, 0)
    y = build.reshape(
        x,
        [build.product(before), size, 1, build.product(after)],
    )
    y = grow(build, y, [none, none, Amounts(0, count), none], fill)
    y = build.reshape(y, [*before, build.mul(size, 1 + count), *after])
    return build.slice(y, dim, 0, -count)


def gather_with_fill(
    build: AtenBuilder, x: SSAValue, dim: int, amounts: Sides, fill: float | int
) -> SSAValue:
    """Read `x` between two fills: `[fill, *x, fill][clamp(j - lower + 1)]`."""
    lower, upper = amounts
    shape = build.sizes(x)
    last = build.wrap(shape[dim]) + 1
    border = build.full([*shape[:dim], 1, *shape[dim + 1 :]], fill, x)
    first, end = 1 - build.wrap(lower), last + build.wrap(upper)
    positions = build.arange(first.value, end.value)
    positions = build.elementwise("clamp", positions, min=0, max=last.value)
    return build.index_select(build.cat([border, x, border], dim), dim, positions)


# Other modes.


def decompose_border_pad(
    build: AtenBuilder,
    op: tcp.BorderPadOp,
    amounts: Sequence[Expansion],
    policy: PadPolicy,
) -> SSAValue | None:
    """Pad one dimension after another, then all that Core ML can pad in one pad."""
    x = op.input
    left: list[Amounts] = []
    for dim, (lower, upper, _) in enumerate(amounts):
        left.append(Amounts(0, 0))
        if not (isinstance(lower, int) and isinstance(upper, int)):
            x = gather_border(build, op, x, dim, (lower, upper))
        elif policy == "auto" and can_pad_natively(op, dim, Amounts(lower, upper)):
            left[dim] = Amounts(lower, upper)
        else:
            x = pad_by_slices(build, op, x, dim, Amounts(lower, upper))
    return None if x is op.input else pad_border(build, op, x, left)


def pad_border(
    build: AtenBuilder, op: tcp.BorderPadOp, x: SSAValue, amounts: Sequence[Amounts]
) -> SSAValue:
    """Pad `x` in the mode of `op`, or crop it if no amount is positive."""
    if not any(map(adds, amounts)):
        return pad_by(build, x, amounts, 0)
    lower = [amount.lower for amount in amounts]
    upper = [amount.upper for amount in amounts]
    return build.insert(op.__class__(x, lower, upper))


def pad_by_slices(
    build: AtenBuilder, op: tcp.BorderPadOp, x: SSAValue, dim: int, amount: Amounts
) -> SSAValue:
    """Concatenate `x` and slices of it."""
    if op.CROPS_FIRST:
        x = crop_dimension(build, x, dim, amount)
    parts = [x]
    if amount.lower > 0:
        parts.insert(0, border(build, op.BORDER, x, dim, amount.lower, "lower"))
    if amount.upper > 0:
        parts.append(border(build, op.BORDER, x, dim, amount.upper, "upper"))
    x = build.cat(parts, dim)
    return x if op.CROPS_FIRST else crop_dimension(build, x, dim, amount)


def border(
    build: AtenBuilder,
    shown: tcp.Border,
    x: SSAValue,
    dim: int,
    count: int,
    side: Literal["lower", "upper"],
) -> SSAValue:
    """The `count` elements on one side of `x`: a slice, repeated or flipped."""
    first, length = shown.first, count if shown.step else 1
    if (side == "lower") != shown.opposite:
        part = build.slice(x, dim, first, first + length)
    else:
        part = build.slice(x, dim, -first - length, -first or None)
    if not shown.step:
        return build.repeat(part, dim, count)
    # At the opposite edge, the elements are in order already.
    return part if shown.opposite else build.flip(part, [dim])


def gather_border(
    build: AtenBuilder, op: tcp.BorderPadOp, x: SSAValue, dim: int, amounts: Sides
) -> SSAValue:
    """Gather the elements of `x` at the positions of the op's index map."""
    size, lower, upper = map(build.wrap, (build.size(x, dim), *amounts))
    places = build.arange(0, padded_size(size, lower, upper).value)
    positions = op.source_index(SymbolicTensor(places, build), size, lower, upper)
    return build.index_select(x, dim, positions.value)


def pad_through_transposes(
    build: AtenBuilder, op: tcp.BorderPadOp, amounts: Sequence[Amounts]
) -> SSAValue | None:
    """Transpose two padded dimensions to the end, pad them, and take the next two."""
    rank = len(amounts)
    added = [amount.added for amount in amounts]
    others = [dim for dim in range(rank - 2) if adds(added[dim])]
    if not others:
        return None
    x, order = op.input, list(range(rank))
    for i in range(0, len(others), 2):
        pair = others[i : i + 2]
        first = [dim for dim in range(rank) if dim not in pair]
        new_order = [*first, *pair]
        x = build.permute(x, [order.index(dim) for dim in new_order])
        order = new_order
        in_order = [added[dim] if dim in pair else Amounts(0, 0) for dim in order]
        x = pad_border(build, op, x, in_order)
    x = build.permute(x, [order.index(dim) for dim in range(rank)])
    cropped = [amount.cropped for amount in amounts]
    left = [cropped[dim] if dim in others else amounts[dim] for dim in range(rank)]
    return pad_border(build, op, x, left)
