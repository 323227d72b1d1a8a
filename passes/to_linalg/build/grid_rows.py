"""
Grid sampling of many channels, of inputs whose elements are read several times.

Tables have the places that each point reads, as numbers of elements of a channel: one
for each combination of taps of all dimensions. The channels of a place are made
contiguous, so that one load reads several of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import product
from math import gcd, prod

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, FixedBitwidthType, FloatAttr, i32
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineExpr

from padc.ir import resampling, tcp
from padc.ir.arithmetic import SymbolicInteger, ceil_div
from padc.ir.tcp import Amount, ResampleMode
from padc.passes.common.linalg_builder import LinalgBuilder, element_type
from padc.passes.common.tensor_shapes import collapse, expand
from padc.passes.to_linalg.build.grid_positions import (
    Taps,
    known_sizes,
    may_miss,
    tables_of,
)
from padc.passes.to_linalg.build.numbers import Number
from padc.passes.to_linalg.build.scalars import as_index, real_type, rounded, widened
from padc.passes.to_linalg.build.slices import grow
from padc.passes.to_linalg.build.taps import weighted_sum

ROW = 16
"""The least channels of a copy of the input: they fill a cache line."""
ROW_BYTES = 1 << 18
"""The bytes of a copy of channels, a part of the second cache."""
MOST_COPIES = 64
"""Each copy of channels is code of its own."""
TOGETHER = 4
"""So many channels are read together, if that divides their number."""
PLANE_BYTES = 1 << 15
"""The most bytes of a channel that stay in the first cache while it is sampled."""


def sample_rows(
    build: LinalgBuilder, op: tcp.GridSampleOp, total: Attribute
) -> SSAValue:
    """
    The sample of many channels, which are contiguous in a copy of the input.

    Its last row is zeros, which taps outside of the input read. There is a copy for
    each few channels: together they would not stay in the second cache.
    """
    rank, type = op.spatial_rank, element_type(op.input)
    batch, channels, *lengths = known_sizes(build, op)
    assert isinstance(channels, int)
    points = [build.size(op.grid, dim) for dim in range(1, rank + 1)]
    at = [AffineExpr.dimension(i) for i in range(rank + 2)]
    point = [at[0], *at[2:]]
    places, weights = place_tables(build, op, [batch, *points])
    inputs = [(x, point) for x in (*places, *(x for axis in weights for x in axis))]
    count = prod(size for size in lengths if isinstance(size, int))
    assert isinstance(type, FixedBitwidthType)
    bytes = count * type.size
    if not weights and bytes <= PLANE_BYTES:
        together = gcd(channels, TOGETHER)
        if together == 1:
            return sample_planes(build, op, places[0], count)
        step = max(1, ROW_BYTES // (bytes * together))
        step = max(step, ceil_div(channels // together, MOST_COPIES))
        return sample_groups(build, op, places[0], together, step)

    def sample(x: SSAValue) -> SSAValue:
        rows = rows_of_channels(build, x)

        def element(inner: LinalgBuilder, args: Sequence[SSAValue]) -> SSAValue:
            batch, channel = inner.loop_index(0), inner.loop_index(1)
            given = iter(args)
            indices = [as_index(inner, next(given)) for _ in places]
            elements = (
                widened(inner, inner.extract(rows, [batch, i, channel]), total)
                for i in indices
            )
            axes = [
                [widened(inner, next(given), total) for _ in axis] for axis in weights
            ]
            return rounded(inner, weighted_sum(inner, axes, elements), type)

        sizes = [batch, build.size(x, 1), *points]
        return build.compute(sizes, type, element, inputs)

    together = max(ROW, ROW_BYTES // bytes // ROW * ROW)
    together = max(together, ceil_div(channels, MOST_COPIES * ROW) * ROW)
    if channels <= together:
        return sample(op.input)
    result = build.empty([batch, channels, *points], type)
    for first in range(0, channels, together):
        count = min(together, channels - first)
        offsets, steps = [0, first, *[0] * rank], [1] * (rank + 2)
        x = build.slice(op.input, offsets, [batch, count, *lengths])
        part = sample(x)
        result = build.insert_slice(part, result, offsets, build.sizes(part), steps)
    return result


def sample_planes(
    build: LinalgBuilder, op: tcp.GridSampleOp, places: SSAValue, count: int
) -> SSAValue:
    """The elements of each channel at `places`, zeros from place `count` on."""
    rank, type = op.spatial_rank, element_type(op.input)
    batch, channels = known_sizes(build, op)[:2]
    points = [build.size(op.grid, dim) for dim in range(1, rank + 1)]
    at = [AffineExpr.dimension(i) for i in range(rank + 2)]
    planes = with_planes(build, op.input)

    def element(inner: LinalgBuilder, args: Sequence[SSAValue]) -> SSAValue:
        batch, channel = inner.loop_index(0), inner.loop_index(1)
        place = Number(inner, args[0], i32)
        index = as_index(inner, place.minimum(count - 1).value)
        found = Number(inner, inner.extract(planes, [batch, channel, index]), type)
        if not may_miss(op, 0):
            return found.value
        return (place < count).select(found, 0).value

    inputs = [(places, [at[0], *at[2:]])]
    return build.compute([batch, channels, *points], type, element, inputs)


def sample_groups(
    build: LinalgBuilder,
    op: tcp.GridSampleOp,
    places: SSAValue,
    together: int,
    step: int,
) -> SSAValue:
    """
    The same; the elements of `together` channels, a group, are read at a time.

    There is a copy for each `step` groups.
    """
    rank, type = op.spatial_rank, element_type(op.input)
    batch, channels = known_sizes(build, op)[:2]
    assert isinstance(channels, int)
    groups = channels // together
    points = [build.size(op.grid, dim) for dim in range(1, rank + 1)]
    planes = expand(build, with_planes(build, op.input), 1, [groups, together])
    at = [AffineExpr.dimension(i) for i in range(rank + 3)]
    inputs = [(places, [at[0], *at[3:]])]

    def sample(planes: SSAValue) -> SSAValue:
        batch, groups, together, count = build.sizes(planes)

        def pixel(inner: LinalgBuilder, args: Sequence[SSAValue]) -> SSAValue:
            batch, group, place, channel = (inner.loop_index(dim) for dim in range(4))
            return inner.extract(planes, [batch, group, channel, place])

        pixels = build.compute([batch, groups, count, together], type, pixel)
        pixels = with_zeros(build, pixels)

        def element(inner: LinalgBuilder, args: Sequence[SSAValue]) -> SSAValue:
            batch, group, channel = (inner.loop_index(dim) for dim in range(3))
            place = as_index(inner, args[0])
            return inner.extract(pixels, [batch, group, place, channel])

        sizes = [batch, groups, together, *points]
        return build.compute(sizes, type, element, inputs)

    result = build.empty([batch, groups, together, *points], type)
    for first in range(0, groups, step):
        sizes = build.sizes(planes)
        sizes[1] = min(step, groups - first)
        part = sample(build.slice(planes, [0, first, 0, 0], sizes))
        offsets, steps = [0, first, 0, *[0] * rank], [1] * (rank + 3)
        result = build.insert_slice(part, result, offsets, build.sizes(part), steps)
    return collapse(build, result, 1, 2)


def with_planes(build: LinalgBuilder, x: SSAValue) -> SSAValue:
    """`[N, C, *S] -> [N, C, prod(S)]`."""
    rank = len(build.sizes(x)) - 2
    return collapse(build, x, 2, rank) if rank > 1 else x


def rows_of_channels(build: LinalgBuilder, x: SSAValue) -> SSAValue:
    """`[N, C, *S] -> [N, prod(S) + 1, C]`; the last row of each image is zeros."""
    planes = with_planes(build, x)
    batch, channels, count = build.sizes(planes)
    n, place, channel = (AffineExpr.dimension(i) for i in range(3))
    type = element_type(x)
    moved = build.compute(
        [batch, count, channels],
        type,
        lambda _, args: args[0],
        [(planes, [n, channel, place])],
    )
    return with_zeros(build, moved)


def with_zeros(build: LinalgBuilder, rows: SSAValue) -> SSAValue:
    """`rows` and a row of zeros; a row is along the last dimension."""
    type, rank = element_type(rows), len(build.sizes(rows))
    assert isinstance(type, AnyFloat)
    zero = build.insert(arith.ConstantOp(FloatAttr(0.0, type)))
    return grow(build, rows, zero, [0] * rank, [*[0] * (rank - 2), 1, 0])


def place_tables(
    build: LinalgBuilder, op: tcp.GridSampleOp, sizes: Sequence[Amount]
) -> tuple[list[SSAValue], list[list[SSAValue]]]:
    """
    Tensors [N, *O]: the rows that each point reads, and its weights in each dimension.

    The rows are in the order of the sum: the taps of the last dimension are innermost.
    """
    rank, mode = op.spatial_rank, op.mode.data
    real = real_type(op.grid_type.element_type)
    count, is_weighted = len(resampling.OFFSETS[mode]), mode is not ResampleMode.NEAREST
    lengths = known_sizes(build, op)[2:]

    def elements(inner: LinalgBuilder, axes: Taps) -> list[Number | None]:
        sizes = [inner.wrap(length) for length in lengths]
        rows = [
            row_of(op, sizes, taps)
            for taps in product(*([*enumerate(axis)] for axis in axes))
        ]
        return [*rows, *(weight for axis in axes for _, weight in axis)]

    types = [i32] * count**rank + [real] * count * rank * is_weighted
    results = tables_of(build, op, sizes, types, elements)
    rows, weights = results[: count**rank], results[count**rank :]
    return rows, [weights[i : i + count] for i in range(0, len(weights), count)]


def row_of(
    op: tcp.GridSampleOp,
    sizes: Sequence[SymbolicInteger],
    taps: Sequence[tuple[int, tuple[Number, Number | None]]],
) -> Number:
    """The row of a tap in each dimension; the one after the last if one is outside."""
    row: Number | None = None
    exists: Number | None = None
    for size, (number, (position, _)) in zip(sizes, taps, strict=True):
        row = position if row is None else row * size + position
        if may_miss(op, number):
            inside = position >= 0
            exists = inside if exists is None else exists & inside
    assert row is not None
    end = reduce(lambda a, b: a * b, sizes)
    return row if exists is None else exists.select(row, end)
