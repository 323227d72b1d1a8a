"""
Grid sampling: what each point reads, once for all channels, then a sum for each.

With few channels, one op computes both, for several channels at a time. Otherwise a
first op stores what each point reads in tables.

Along each dimension a point has some taps: a position, and a weight. Positions are
clamped as floats before they become integers, so nothing outside is ever read; a tap
outside has position -1, and is left out of the sum, not multiplied by 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import prod

from xdsl.dialects import arith
from xdsl.dialects.builtin import i32
from xdsl.ir import Attribute, SSAValue
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
from padc.passes.to_linalg.build.taps import (
    Tap,
    TapTable,
    sum_of_taps,
    tap_of,
    taps_of_point,
)
from padc.passes.to_linalg.tcp.linalg_lowering import lowers

FEW = 4
"""So many channels are computed together, with no tables of positions and weights."""
FEW_CHANNELS = {2: 2, 3: 4, 4: 4}
"""For numbers of channels, how many there are in memory where they are the last."""


@lowers(tcp.GridSampleOp)
def lower_grid_sample(build: LinalgBuilder, op: tcp.GridSampleOp) -> SSAValue:
    x, grid, rank = op.input, op.grid, op.spatial_rank
    type = element_type(x)
    total = total_type(type) if op.mode.data is not ResampleMode.NEAREST else type
    batch, channels, *lengths = known_sizes(build, op)
    points = [build.size(grid, dim) for dim in range(1, rank + 1)]
    at = [AffineExpr.dimension(i) for i in range(rank + 2)]
    point = [at[0], *at[2:]]
    axes = None
    if isinstance(channels, int) and channels <= FEW:
        inputs = coordinates(op, point)
    else:
        axes = tables(build, op, [batch, *points])
        inputs = [(x, point) for taps in axes for tap in taps for x in tap.tensors]
    pixels = with_channels_last(build, op)

    def element(inner: LinalgBuilder, args: Sequence[SSAValue]) -> SSAValue:
        if axes is None:
            taps = taps_at(inner, op, args, lengths, total)
        else:
            taps = taps_of_point(inner, axes, args, total)
        batch, channel = inner.loop_index(0), inner.loop_index(1)

        def read(at: Sequence[SSAValue]) -> SSAValue:
            if pixels is None:
                return widened(inner, inner.extract(x, [batch, channel, *at]), total)
            return widened(inner, inner.extract(pixels, [batch, *at, channel]), total)

        return rounded(inner, sum_of_taps(inner, taps, read), type)

    return build.compute([batch, channels, *points], type, element, inputs)


def with_channels_last(build: LinalgBuilder, op: tcp.GridSampleOp) -> SSAValue | None:
    """
    The input as [N, *D, C], with 2 or 4 channels; None if this does not pay.

    All channels of an element are then in one cache line. The last of 3 channels is
    there twice.
    """
    sizes, x = known_sizes(build, op), op.input
    channels, points = sizes[1], op.grid_type.get_shape()[1:-1]
    known = [size for size in sizes if isinstance(size, int)]
    if len(known) < len(sizes) or -1 in points or channels not in FEW_CHANNELS:
        return None
    if op.mode.data is ResampleMode.NEAREST or prod(known[2:]) > 2 * prod(points):
        return None
    rank = op.spatial_rank

    def element(inner: LinalgBuilder, args: Sequence[SSAValue]) -> SSAValue:
        batch, *at, channel = (inner.loop_index(i) for i in range(rank + 2))
        last = inner.index(known[1] - 1)
        channel = inner.insert(arith.MinUIOp(channel, last))
        return inner.extract(x, [batch, channel, *at])

    shape = [sizes[0], *sizes[2:], FEW_CHANNELS[known[1]]]
    return build.compute(shape, element_type(x), element)


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
    lengths = known_sizes(build, op)[2:]
    at = [AffineExpr.dimension(i) for i in range(rank + 1)]

    def table(inner: LinalgBuilder, args: Sequence[SSAValue]) -> list[SSAValue]:
        found = positions(inner, op, args, lengths)
        parts = (part for taps in found for tap in taps for part in tap)
        return [part.value for part in parts if part is not None]

    inputs = coordinates(op, at)
    types = [i32, real] if weighted else [i32]
    outputs = [
        (build.empty(sizes, type), at) for _ in range(rank * count) for type in types
    ]
    results = iter(build.generic(inputs, outputs, [False] * len(at), table))

    def tap(number: int) -> TapTable:
        positions, weights = next(results), next(results) if weighted else None
        return TapTable(positions, weights, may_miss(op, number))

    return [[tap(number) for number in range(count)] for _ in range(rank)]


def coordinates(
    op: tcp.GridSampleOp, point: Sequence[AffineExpr]
) -> list[tuple[SSAValue, Sequence[AffineExpr]]]:
    """The coordinates of the point at `point`, in the order of the dimensions."""
    # A point's first number is its coordinate along the last dimension.
    last = op.spatial_rank - 1
    return [
        (op.grid, [*point, AffineExpr.constant(last - axis)])
        for axis in range(last + 1)
    ]


def taps_at(
    build: LinalgBuilder,
    op: tcp.GridSampleOp,
    args: Sequence[SSAValue],
    lengths: Sequence[Amount],
    total: Attribute,
) -> list[list[Tap]]:
    """For each dimension the taps of the point whose coordinates are `args`."""
    return [
        [
            tap_of(
                build, index.value, weight and weight.value, may_miss(op, number), total
            )
            for number, (index, weight) in enumerate(taps)
        ]
        for taps in positions(build, op, args, lengths)
    ]


def positions(
    build: LinalgBuilder,
    op: tcp.GridSampleOp,
    args: Sequence[SSAValue],
    lengths: Sequence[Amount],
) -> list[list[tuple[Number, Number | None]]]:
    """
    For each dimension the taps of a point: positions, -1 if outside, and weights.

    `args` are its coordinates, and `lengths` the sizes of the input.
    """
    rank, real = op.spatial_rank, real_type(op.grid_type.element_type)
    sizes = [build.wrap(length) for length in lengths]
    make, aligned = make_real(build, real), op.align_corners is not None
    found: list[list[tuple[Number, Number | None]]] = []
    for point, size in zip(args, sizes, strict=False):
        number = Number(build, widened(build, point, real), real)
        pixel = resampling.pixel(number, size, rank, aligned, make)
        found.append(axis_taps(op, pixel, size, make))
    if op.mode.data is ResampleMode.NEAREST or op.padding.data is not GridPadding.ZEROS:
        return found
    return with_unknown(found)


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
