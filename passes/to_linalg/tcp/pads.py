"""Pads: by a fill, as tensor.pad; and by what an index map reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from xdsl.builder import Builder
from xdsl.dialects import tensor
from xdsl.dialects.builtin import DYNAMIC_INDEX, IndexType
from xdsl.dialects.utils.dynamic_index_list import split_dynamic_index_list
from xdsl.ir import Block, Region, SSAValue
from xdsl.rewriter import InsertPoint

from padc.ir import tcp
from padc.ir.tcp import Amount, tensor_type
from padc.passes.size_builder import never_crops
from padc.passes.to_linalg.build.linalg_builder import (
    LinalgBuilder,
    element_type,
    type_of,
)
from padc.passes.to_linalg.tcp.table import lowers


@lowers(tcp.PadOp)
def lower_pad(build: LinalgBuilder, op: tcp.PadOp) -> SSAValue:
    """
    Slices crop, tensor.pad adds, strided insertion spreads.

    Never a tensor.pad of less than nothing: upstream's canonicalizer takes the pad of
    a slice for the tensor that was sliced.
    """
    x = build.signless(op.input)
    lower, upper = op.lower_expansion, op.upper_expansion
    interior = op.interior_expansion
    if any(amount != 0 for amount in interior):
        # Crop last: amounts may crop what was inserted.
        below, above = build.added(lower), build.added(upper)
        x = spread(build, x, op.fill, below, above, interior)
        return crop(build, x, lower, upper)
    x = crop(build, x, lower, upper)
    return grow(build, x, op.fill, build.added(lower), build.added(upper))


def crop(
    build: LinalgBuilder, x: SSAValue, lower: Sequence[Amount], upper: Sequence[Amount]
) -> SSAValue:
    """`x` without what negative amounts remove; it has at least as much."""
    if never_crops(*lower, *upper):
        return x
    offsets, sizes = build.cropped(lower, build.sizes(x), upper)
    if 0 in sizes:
        # Upstream takes no slice that starts at the end.
        return build.empty(sizes, element_type(x))
    return build.slice(x, offsets, sizes)


def grow(
    build: LinalgBuilder,
    x: SSAValue,
    fill: SSAValue,
    lower: Sequence[Amount],
    upper: Sequence[Amount],
) -> SSAValue:
    """`x` and the fill around it."""
    if all(amount == 0 for amount in (*lower, *upper)):
        return x
    sizes = build.padded(lower, build.sizes(x), upper)
    if 0 in tensor_type(x).get_shape():
        return build.filled(sizes, fill)
    block = Block(arg_types=[IndexType()] * len(lower))
    Builder(InsertPoint.at_end(block)).insert(tensor.YieldOp(fill))
    static_lower, dynamic_lower = split_dynamic_index_list(lower, DYNAMIC_INDEX)
    static_upper, dynamic_upper = split_dynamic_index_list(upper, DYNAMIC_INDEX)
    return build.insert(
        tensor.PadOp(
            x,
            dynamic_lower,
            dynamic_upper,
            Region(block),
            static_lower,
            static_upper,
            type_of(sizes, element_type(x)),
        )
    )


def spread(
    build: LinalgBuilder,
    x: SSAValue,
    fill: SSAValue,
    lower: Sequence[Amount],
    upper: Sequence[Amount],
    interior: Sequence[Amount],
) -> SSAValue:
    """`x` and the fill around and between its elements."""
    sizes = build.sizes(x)
    steps = [build.add(amount, 1) for amount in interior]
    padded = build.padded(lower, build.spread(sizes, interior), upper)
    filled = build.filled(padded, fill)
    if 0 in tensor_type(x).get_shape():
        return filled
    return build.insert_slice(x, filled, lower, sizes, steps)


@lowers(tcp.ReplicationPadOp)
def lower_replication_pad(build: LinalgBuilder, op: tcp.ReplicationPadOp) -> SSAValue:
    def source(inner: LinalgBuilder, i: Amount, size: Amount) -> Amount:
        return inner.minimum(inner.maximum(i, 0), inner.sub(size, 1))

    return gathered(
        build, build.signless(op.input), op.lower_expansion, op.upper_expansion, source
    )


@lowers(tcp.ReflectionPadOp)
def lower_reflection_pad(build: LinalgBuilder, op: tcp.ReflectionPadOp) -> SSAValue:
    def source(inner: LinalgBuilder, i: Amount, size: Amount) -> Amount:
        last = inner.sub(size, 1)
        from_last = inner.sub(last, absolute(inner, i))
        return inner.sub(last, absolute(inner, from_last))

    return gathered(
        build, build.signless(op.input), op.lower_expansion, op.upper_expansion, source
    )


@lowers(tcp.CircularPadOp)
def lower_circular_pad(build: LinalgBuilder, op: tcp.CircularPadOp) -> SSAValue:
    """Negative amounts crop before what is left wraps around."""

    def source(inner: LinalgBuilder, i: Amount, size: Amount) -> Amount:
        # Each amount is at most the size: once around is enough.
        below = inner.minimum(inner.floordiv(i, size), 1)
        return inner.sub(i, inner.mul(below, size))

    lower, upper = op.lower_expansion, op.upper_expansion
    x = crop(build, build.signless(op.input), lower, upper)
    return gathered(build, x, build.added(lower), build.added(upper), source)


def absolute(build: LinalgBuilder, i: Amount) -> Amount:
    return build.maximum(i, build.sub(0, i))


Source: TypeAlias = Callable[[LinalgBuilder, Amount, Amount], Amount]
"""From a place relative to the input's first, and its size, to where that reads."""


def gathered(
    build: LinalgBuilder,
    x: SSAValue,
    lower: Sequence[Amount],
    upper: Sequence[Amount],
    source: Source,
) -> SSAValue:
    """For each element of the padded tensor, that of `x` where `source` says."""
    sizes = build.sizes(x)
    padded = build.padded(lower, sizes, upper)

    def element(inner: LinalgBuilder, _: Sequence[SSAValue]) -> SSAValue:
        indices: list[Amount] = []
        for dim, (low, size, high) in enumerate(zip(lower, sizes, upper, strict=True)):
            place: Amount = inner.place(dim)
            if low != 0 or high != 0:
                place = source(inner, inner.sub(place, low), size)
            indices.append(place)
        return inner.extract(x, indices)

    return build.compute(padded, element_type(x), element)
