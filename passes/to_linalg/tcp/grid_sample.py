"""
Grid sampling: what each point reads, once for all channels, then a sum for each.

Along each dimension a point has some taps: a position, and a weight. Positions are
clamped as floats before they become integers, so nothing outside is ever read; a tap
outside has position -1, and is left out of the sum, not multiplied by 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr

from padc.ir import tcp
from padc.ir.tcp import Amount, GridPadding, ResampleMode
from padc.passes.to_linalg.build.linalg_builder import LinalgBuilder, element_type
from padc.passes.to_linalg.build.scalars import (
    Real,
    Reals,
    as_index,
    is_nan,
    real_type,
    rounded,
    total_type,
    widened,
)
from padc.passes.to_linalg.tcp.table import lowers

COUNTS = {ResampleMode.NEAREST: 1, ResampleMode.LINEAR: 2, ResampleMode.CUBIC: 4}
"""How many taps a mode has along a dimension."""


@dataclass(frozen=True)
class Tap:
    """A position in one dimension, -1 if outside; its weight; None: 1."""

    position: SSAValue
    weight: SSAValue | None


@lowers(tcp.GridSampleOp)
def lower_grid_sample(build: LinalgBuilder, op: tcp.GridSampleOp) -> SSAValue:
    x, grid, rank = op.input, op.grid, op.spatial_rank
    type = element_type(x)
    total = total_type(type) if op.mode.data is not ResampleMode.NEAREST else type
    batch, channels, *_ = known_sizes(build, op)
    points = [build.size(grid, dim) for dim in range(1, rank + 1)]
    axes = tables(build, op, [batch, *points])
    at = [AffineExpr.dimension(i) for i in range(rank + 2)]
    point = [at[0], *at[2:]]
    inputs = [
        (table, point)
        for taps in axes
        for tap in taps
        for table in (tap.position, tap.weight)
        if table is not None
    ]

    def element(inner: LinalgBuilder, args: Sequence[SSAValue]) -> SSAValue:
        given = iter(args)
        read = [
            [Tap(next(given), next(given) if tap.weight else None) for tap in taps]
            for taps in axes
        ]
        found = sum_of(inner, x, read, [inner.place(0), inner.place(1)])
        return rounded(inner, found, type)

    def sum_of(
        inner: LinalgBuilder,
        x: SSAValue,
        axes: Sequence[Sequence[Tap]],
        places: Sequence[SSAValue],
    ) -> SSAValue:
        if not axes:
            return widened(inner, inner.extract(x, places), total)
        zero = inner.constant(0, total)
        none = inner.constant(0, i32)
        sum: SSAValue | None = None
        for number, tap in enumerate(axes[0]):
            position = tap.position
            if may_miss(op, number):
                position = inner.insert(arith.MaxSIOp(position, none))
            part = sum_of(inner, x, axes[1:], [*places, as_index(inner, position)])
            if tap.weight is not None:
                weight = widened(inner, tap.weight, total)
                part = inner.insert(arith.MulfOp(weight, part))
            if may_miss(op, number):
                inside = inner.insert(arith.CmpiOp(tap.position, none, "sge"))
                part = inner.insert(arith.SelectOp(inside, part, zero))
            sum = part if sum is None else inner.insert(arith.AddfOp(sum, part))
        assert sum is not None
        return sum

    return build.compute([batch, channels, *points], type, element, inputs)


def known_sizes(build: LinalgBuilder, op: tcp.GridSampleOp) -> list[Amount]:
    """The sizes of the input; its batch may be known from the grid."""
    sizes = build.sizes(op.input)
    static = op.grid_type.get_shape()[0]
    return [static, *sizes[1:]] if static >= 0 else sizes


def may_miss(op: tcp.GridSampleOp, tap: int) -> bool:
    """Whether a tap may be outside of the input."""
    if op.padding.data is GridPadding.ZEROS:
        return True
    # The second of two, behind the last element, has weight 0, but may not be read:
    # an infinity would become something else.
    return op.mode.data is ResampleMode.LINEAR and tap == 1


def tables(
    build: LinalgBuilder, op: tcp.GridSampleOp, sizes: Sequence[Amount]
) -> list[list[Tap]]:
    """For each dimension its taps: tensors [N, *O]."""
    rank, mode = op.spatial_rank, op.mode.data
    real = real_type(op.grid_type.element_type)
    count, weighted = COUNTS[mode], mode is not ResampleMode.NEAREST
    lengths = known_sizes(build, op)[2:]
    at = [AffineExpr.dimension(i) for i in range(rank + 1)]

    def table(inner: LinalgBuilder, args: Sequence[SSAValue]) -> list[SSAValue]:
        reals = Reals(inner, real)
        points = [widened(inner, point, real) for point in args[:rank]]
        pixels = [
            pixel(reals, point, size, rank, op.align_corners is not None)
            for point, size in zip(points, lengths, strict=True)
        ]
        found = [
            axis_taps(reals, op, pixel, size)
            for pixel, size in zip(pixels, lengths, strict=True)
        ]
        if weighted and op.padding.data is GridPadding.ZEROS:
            found = with_unknown(reals, found)
        return [part for taps in found for tap in taps for part in tap]

    # A point's first number is its place along the last dimension.
    inputs = [
        (op.grid, [*at, AffineExpr.constant(rank - 1 - axis)]) for axis in range(rank)
    ]
    types = [i32, real] if weighted else [i32]
    outputs = [
        (build.empty(sizes, type), at) for _ in range(rank * count) for type in types
    ]
    results = iter(build.generic(inputs, outputs, [False] * len(at), table))
    return [
        [Tap(next(results), next(results) if weighted else None) for _ in range(count)]
        for _ in range(rank)
    ]


def pixel(
    reals: Reals, point: SSAValue, size: Amount, rank: int, align_corners: bool
) -> SSAValue:
    """Where a point from -1 to 1 is, as an element; of images rounded once."""
    point = reals.add(point, 1.0)
    length = reals.of(size)
    if align_corners:
        last = reals.of(reals.build.sub(size, 1))
        return reals.value(reals.mul(reals.mul(point, 0.5), last))
    if rank == 2:
        return reals.multiply_add(point, reals.mul(length, 0.5), -0.5)
    return reals.value(reals.mul(reals.sub(reals.mul(point, length), 1.0), 0.5))


def axis_taps(
    reals: Reals, op: tcp.GridSampleOp, at: SSAValue, size: Amount
) -> list[list[SSAValue]]:
    """Position, -1 if outside, and weight of what a coordinate combines."""
    mode = op.mode.data
    if mode is ResampleMode.CUBIC:
        low = reals.floor(at)
        weights = reals.cubic(reals.sub(at, low))
        places = [
            padded(reals, op, reals.add(low, offset) if offset else low, size)
            for offset in (-1.0, 0.0, 1.0, 2.0)
        ]
    else:
        at = padded(reals, op, at, size)
        if mode is ResampleMode.NEAREST:
            even = reals.build.insert(math.RoundEvenOp(at))
            return [[position(reals, even, size)]]
        low = reals.floor(at)
        fraction = reals.sub(at, low)
        places = [low, reals.add(low, 1.0)]
        weights = [reals.sub(1.0, fraction), fraction]
    return [
        [position(reals, place, size), weight]
        for place, weight in zip(places, weights, strict=True)
    ]


def position(reals: Reals, place: SSAValue, size: Amount) -> SSAValue:
    """A whole number as i32; -1 where it is not from 0 to `size - 1`."""
    build = reals.build
    below = reals.compare(place, "olt", reals.of(size))
    inside = build.insert(arith.AndIOp(reals.compare(place, "oge", 0.0), below))
    return build.insert(arith.FPToSIOp(reals.select(inside, place, -1.0), i32))


def with_unknown(
    reals: Reals, axes: Sequence[Sequence[Sequence[SSAValue]]]
) -> list[list[list[SSAValue]]]:
    """
    Of a point that is not a number in some dimension, all taps at the first element.

    Weights are then not numbers, and the sum is none: it would be 0 were they left out.
    """
    build = reals.build
    unknown: SSAValue | None = None
    for taps in axes:
        here = is_nan(build, taps[0][1])
        unknown = here if unknown is None else build.insert(arith.OrIOp(unknown, here))
    assert unknown is not None
    first = build.constant(0, i32)
    return [
        [
            [build.insert(arith.SelectOp(unknown, first, place)), weight]
            for place, weight in taps
        ]
        for taps in axes
    ]


def padded(reals: Reals, op: tcp.GridSampleOp, at: SSAValue, size: Amount) -> SSAValue:
    """Where `at` is inside of the input; as it is where that is surrounded by zeros."""
    padding = op.padding.data
    if padding is GridPadding.ZEROS:
        return at
    last = reals.of(reals.build.sub(size, 1))
    if padding is GridPadding.REFLECTION:
        at = reflected(reals, at, size, op.align_corners is not None)
    return reals.clamp(at, 0.0, last)


def reflected(reals: Reals, at: SSAValue, size: Amount, aligned: bool) -> SSAValue:
    """`at` reflected until it is between the input's ends, as PyTorch rounds."""
    build = reals.build
    first = 0.0 if aligned else -0.5
    length = build.sub(size, 1) if aligned else size
    if length == 0:
        return reals.value(0.0)
    span: Real = reals.of(length)
    away = reals.absolute(reals.sub(at, first) if first else at)
    times = reals.floor(reals.div(away, span))
    # The remainder is exact, and negative where the quotient was rounded up.
    rest: Real = reals.multiply_add(reals.mul(times, -1.0), span, away)
    rest = reals.select(reals.compare(rest, "olt", 0.0), reals.add(rest, span), rest)
    pairs = reals.floor(reals.mul(times, 0.5))
    forth = reals.compare(reals.mul(pairs, 2.0), "oeq", times)
    back = reals.sub(span, rest)
    if first:
        rest, back = reals.add(rest, first), reals.add(back, first)
    inside = reals.select(forth, rest, back)
    if isinstance(length, int):
        return inside
    single = build.insert(arith.CmpiOp(length, build.index(0), "eq"))
    return reals.select(single, 0.0, inside)
