"""
Grid sampling: what each point reads, once for all channels, then a sum for each.

With few channels, one op computes both, for several channels at a time. Otherwise a
first op stores what each point reads in tables: see `grid_rows`, or for an input of
which little is read, those of each dimension.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import FixedBitwidthType, i32
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineExpr

from padc.ir import resampling, tcp
from padc.ir.arithmetic import ceil_div
from padc.ir.tcp import Amount, ResampleMode
from padc.passes.common.linalg_builder import (
    LinalgBuilder,
    element_type,
)
from padc.passes.to_linalg.build.grid_positions import (
    Taps,
    coordinates,
    is_reused,
    known_sizes,
    margins,
    may_miss,
    positions,
    tables_of,
)
from padc.passes.to_linalg.build.grid_rows import sample_rows
from padc.passes.to_linalg.build.numbers import Number
from padc.passes.to_linalg.build.scalars import (
    real_type,
    rounded,
    total_type,
    widened,
)
from padc.passes.to_linalg.build.slices import grow
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
CACHE_LINE = 64
"""In bytes."""
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
    elif is_reused(build, op):
        return sample_rows(build, op, total)
    else:
        axes = tables(build, op, [batch, *points])
        inputs = [(x, point) for taps in axes for tap in taps for x in tap.tensors]
    pixels = with_channels_last(build, op)
    before = spaces(op)[0] if pixels is not None else ()

    def element(inner: LinalgBuilder, args: Sequence[SSAValue]) -> SSAValue:
        if axes is None:
            taps = taps_at(inner, op, args, lengths, total, before)
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
    The input as [N, *D, C], with 2 or 4 channels and `spaces`.

    None if this does not pay.
    All channels of an element are then in one cache line. The last of 3 channels is
    there twice.
    """
    x, rank = op.input, op.spatial_rank
    batch, channels, *lengths = known_sizes(build, op)
    if not isinstance(channels, int) or channels not in FEW_CHANNELS:
        return None
    if not is_reused(build, op):
        return None

    def element(inner: LinalgBuilder, args: Sequence[SSAValue]) -> SSAValue:
        batch, *at, channel = (inner.loop_index(i) for i in range(rank + 2))
        last = inner.index(channels - 1)
        channel = inner.insert(arith.MinUIOp(channel, last))
        return inner.extract(x, [batch, channel, *at])

    shape = [batch, *lengths, FEW_CHANNELS[channels]]
    pixels = build.compute(shape, element_type(x), element)
    lower, upper = ([0, *amounts, 0] for amounts in spaces(op))
    zero = build.insert(tcp.fill_constant(0.0, element_type(x)))
    return grow(build, pixels, zero, lower, upper)


def spaces(op: tcp.GridSampleOp) -> tuple[list[int], list[int]]:
    """
    How many zeros are before and after the elements of each dimension of the input.

    They are the margins, or so many that the elements of a row, and the next row, begin
    with a cache line: stores to two lines at a time take twice as long.
    """
    (_, channels, *sizes), type = op.input_type.get_shape(), op.input_type.element_type
    assert isinstance(type, FixedBitwidthType)
    lower, upper = margins(op)
    pixels = max(1, CACHE_LINE // (FEW_CHANNELS[channels] * type.size))
    first = ceil_div(lower, pixels) * pixels
    last = ceil_div(first + sizes[-1] + upper, pixels) * pixels - first - sizes[-1]
    others = len(sizes) - 1
    return [*[lower] * others, first], [*[upper] * others, last]


def tables(
    build: LinalgBuilder, op: tcp.GridSampleOp, sizes: Sequence[Amount]
) -> list[list[TapTable]]:
    """For each dimension its taps: tensors [N, *O]."""
    rank, mode = op.spatial_rank, op.mode.data
    real = real_type(op.grid_type.element_type)
    count, weighted = len(resampling.OFFSETS[mode]), mode is not ResampleMode.NEAREST
    types = [i32, real] if weighted else [i32]

    def elements(inner: LinalgBuilder, found: Taps) -> list[Number | None]:
        return [part for taps in found for tap in taps for part in tap]

    results = iter(tables_of(build, op, sizes, types * (rank * count), elements))

    def tap(number: int) -> TapTable:
        positions, weights = next(results), next(results) if weighted else None
        return TapTable(positions, weights, may_miss(op, number))

    return [[tap(number) for number in range(count)] for _ in range(rank)]


def taps_at(
    build: LinalgBuilder,
    op: tcp.GridSampleOp,
    args: Sequence[SSAValue],
    lengths: Sequence[Amount],
    total: Attribute,
    before: Sequence[int],
) -> list[list[Tap]]:
    """For each dimension the taps of the point whose coordinates are `args`."""

    def tap(number: int, index: Number, weight: Number | None) -> Tap:
        may_be_outside = may_miss(op, number) and not before
        return tap_of(
            build, index.value, weight and weight.value, may_be_outside, total
        )

    return [
        [tap(number, *each) for number, each in enumerate(taps)]
        for taps in positions(build, op, args, lengths, before)
    ]
