"""
Grid sampling: what each point reads, once for all channels, then a sum for each.

Along each dimension a point has some taps: a position, and a weight. Positions are
clamped as floats before they become integers, so nothing outside is ever read; a tap
outside has position -1, and is left out of the sum, not multiplied by 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr

from padc.ir import resampling, tcp
from padc.ir.arithmetic import SymbolicInteger
from padc.ir.resampling import MakeReal
from padc.ir.tcp import Amount, GridPadding, ResampleMode
from padc.passes.common.linalg_builder import (
    LinalgBuilder,
    element_type,
)
from padc.passes.to_linalg.build.numbers import Number, make_real
from padc.passes.to_linalg.build.scalars import (
    real_type,
    rounded,
    total_type,
    widened,
)
from padc.passes.to_linalg.build.taps import TapTable, sum_of_taps, taps_of_point
from padc.passes.to_linalg.tcp.linalg_lowering import lowers


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
    inputs = [(each, point) for taps in axes for tap in taps for each in tap.tensors]

    def element(inner: LinalgBuilder, args: Sequence[SSAValue]) -> SSAValue:
        taps = taps_of_point(inner, axes, args, total)
        batch, channel = inner.loop_index(0), inner.loop_index(1)

        def read(at: Sequence[SSAValue]) -> SSAValue:
            return widened(inner, inner.extract(x, [batch, channel, *at]), total)

        return rounded(inner, sum_of_taps(inner, taps, read), type)

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
    # The second tap may be after the last element. Its weight is 0 there, but the
    # product with an infinity would be NaN.
    return op.mode.data is ResampleMode.LINEAR and tap == 1


def tables(
    build: LinalgBuilder, op: tcp.GridSampleOp, sizes: Sequence[Amount]
) -> list[list[TapTable]]:
    """For each dimension its taps: tensors [N, *O]."""
    rank, mode = op.spatial_rank, op.mode.data
    real = real_type(op.grid_type.element_type)
    count, weighted = len(resampling.OFFSETS[mode]), mode is not ResampleMode.NEAREST
    lengths = [build.wrap(size) for size in known_sizes(build, op)[2:]]
    at = [AffineExpr.dimension(i) for i in range(rank + 1)]

    def table(inner: LinalgBuilder, args: Sequence[SSAValue]) -> list[SSAValue]:
        points = [
            Number(inner, widened(inner, point, real), real) for point in args[:rank]
        ]
        make, aligned = make_real(inner, real), op.align_corners is not None
        pixels = [
            resampling.pixel(point, size, rank, aligned, make)
            for point, size in zip(points, lengths, strict=True)
        ]
        found = [
            axis_taps(op, pixel, size, make)
            for pixel, size in zip(pixels, lengths, strict=True)
        ]
        if weighted and op.padding.data is GridPadding.ZEROS:
            found = with_unknown(found)
        parts = (part for taps in found for tap in taps for part in tap)
        return [part.value for part in parts if part is not None]

    # A point's first number is its coordinate along the last dimension.
    inputs = [
        (op.grid, [*at, AffineExpr.constant(rank - 1 - axis)]) for axis in range(rank)
    ]
    types = [i32, real] if weighted else [i32]
    outputs = [
        (build.empty(sizes, type), at) for _ in range(rank * count) for type in types
    ]
    results = iter(build.generic(inputs, outputs, [False] * len(at), table))

    def tap(number: int) -> TapTable:
        positions, weights = next(results), next(results) if weighted else None
        return TapTable(positions, weights, may_miss(op, number))

    return [[tap(number) for number in range(count)] for _ in range(rank)]


def axis_taps(
    op: tcp.GridSampleOp, at: Number, size: SymbolicInteger, real: MakeReal
) -> list[tuple[Number, Number | None]]:
    """Position, -1 if outside, and weight of the elements that `at` combines."""
    mode = op.mode.data
    is_cubic = mode is ResampleMode.CUBIC
    if not is_cubic:
        at = op.padded(at, size, real, reflected)
    if mode is ResampleMode.NEAREST:
        return [(position(at.apply("round"), size, real), None)]
    low, taps = at.floor(), list[tuple[Number, Number | None]]()
    for offset, weight in resampling.weights(mode, at - low):
        place = low + offset if offset else low
        if is_cubic:
            place = op.padded(place, size, real, reflected)
        taps.append((position(place, size, real), weight))
    return taps


def position(coordinate: Number, size: SymbolicInteger, real: MakeReal) -> Number:
    """A whole number as i32; -1 if it is outside of 0 to `size - 1`."""
    inside = (coordinate >= 0) & (coordinate < real(size))
    return inside.select(coordinate, -1.0).truncated()


def with_unknown(
    axes: Sequence[Sequence[tuple[Number, Number | None]]],
) -> list[list[tuple[Number, Number | None]]]:
    """
    Move all taps of a point with a NaN coordinate to element 0.

    The weights are NaN, so the sum is NaN too. Taps outside of the input are left out
    of the sum, which would be 0 without them.
    """
    firsts = [weight for (_, weight), *_ in axes if weight is not None]
    unknown = reduce(lambda a, b: a | b, (weight.is_nan() for weight in firsts))
    return [
        [(unknown.select(0, index), weight) for index, weight in taps] for taps in axes
    ]


def reflected(
    at: Number, size: SymbolicInteger, aligned: bool, real: MakeReal
) -> Number:
    """`resampling.reflected`, and 0 if the input has one element."""
    if aligned and size.value == 1:
        return at.constant(0.0)
    inside = resampling.reflected(at, size, aligned, real)
    if not aligned or isinstance(size.value, int):
        return inside
    return (real(size - 1) > 0).select(inside, 0.0)
