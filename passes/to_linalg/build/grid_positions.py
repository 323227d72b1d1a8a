"""
Where the points of a grid sample are in its input.

Along each dimension a point has some taps: a position, and a weight. Positions are
clamped as floats before they become integers, so nothing outside is ever read; a tap
outside has position -1, and is left out of the sum, not multiplied by 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from math import prod
from typing import TypeAlias

from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineExpr

from padc.ir import resampling, tcp
from padc.ir.arithmetic import SymbolicInteger
from padc.ir.resampling import MakeReal
from padc.ir.tcp import Amount, GridPadding, ResampleMode
from padc.passes.common.linalg_builder import LinalgBuilder
from padc.passes.to_linalg.build.numbers import Number, make_real
from padc.passes.to_linalg.build.scalars import real_type, widened

MOST_ELEMENTS = 1 << 30
"""The number of an element of a channel is an i32, also the one after the last."""


def known_sizes(build: LinalgBuilder, op: tcp.GridSampleOp) -> list[Amount]:
    """The sizes of the input; its batch may be known from the grid."""
    sizes = build.sizes(op.input)
    static = op.grid_type.get_shape()[0]
    return [static, *sizes[1:]] if static >= 0 else sizes


def is_reused(build: LinalgBuilder, op: tcp.GridSampleOp) -> bool:
    """Whether there are so many points that it pays to rearrange the input."""
    lengths, points = known_sizes(build, op)[1:], op.grid_type.get_shape()[1:-1]
    known = [size for size in lengths if isinstance(size, int)]
    if len(known) < len(lengths) or -1 in points:
        return False
    elements = prod(known[1:])
    return elements <= 2 * prod(points) and elements < MOST_ELEMENTS


Taps: TypeAlias = "list[list[tuple[Number, Number | None]]]"
"""The taps of a point in each dimension, see `positions`."""


def tables_of(
    build: LinalgBuilder,
    op: tcp.GridSampleOp,
    sizes: Sequence[Amount],
    types: Sequence[Attribute],
    elements: Callable[[LinalgBuilder, Taps], Iterable[Number | None]],
) -> list[SSAValue]:
    """Tensors [N, *O] of `types`: what `elements` makes of the taps of each point."""
    lengths = known_sizes(build, op)[2:]
    at = [AffineExpr.dimension(i) for i in range(op.spatial_rank + 1)]

    def table(inner: LinalgBuilder, args: Sequence[SSAValue]) -> list[SSAValue]:
        found = elements(inner, positions(inner, op, args, lengths))
        return [x.value for x in found if x is not None]

    outputs = [(build.empty(sizes, type), at) for type in types]
    return build.generic(coordinates(op, at), outputs, [False] * len(at), table)


def may_miss(op: tcp.GridSampleOp, tap: int) -> bool:
    """Whether a tap may be outside of the input."""
    if op.padding.data is GridPadding.ZEROS:
        return True
    # The second tap may be after the last element. Its weight is 0 there, but the
    # product with an infinity would be NaN.
    return op.mode.data is ResampleMode.LINEAR and tap == 1


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


def positions(
    build: LinalgBuilder,
    op: tcp.GridSampleOp,
    args: Sequence[SSAValue],
    lengths: Sequence[Amount],
    before: Sequence[int] = (),
) -> Taps:
    """
    For each dimension the taps of a point: positions, -1 if outside, and weights.

    `args` are its coordinates, and `lengths` the sizes of the input. If that has
    `margins`, with `before` zeros before its elements, the positions are those in it,
    and none is outside.
    """
    rank, real = op.spatial_rank, real_type(op.grid_type.element_type)
    sizes = [build.wrap(length) for length in lengths]
    make, aligned = make_real(build, real), op.align_corners is not None
    found: Taps = []
    for axis, size in enumerate(sizes):
        number = Number(build, widened(build, args[axis], real), real)
        pixel = resampling.pixel(number, size, rank, aligned, make)
        margin = before[axis] if before else None
        found.append(axis_taps(op, pixel, size, make, margin))
    if (
        before
        or op.mode.data is ResampleMode.NEAREST
        or op.padding.data is not GridPadding.ZEROS
    ):
        return found
    return with_unknown(found)


def margins(op: tcp.GridSampleOp) -> tuple[int, int]:
    """
    How many zeros before and after its elements a dimension needs for all taps.

    A point that is far outside is moved to where all of its taps are zeros.
    """
    first, last = (resampling.OFFSETS[op.mode.data][i] for i in (0, -1))
    if op.padding.data is GridPadding.ZEROS:
        return last - first + 1, last - first + 1
    return (0, 1) if op.mode.data is ResampleMode.LINEAR else (0, 0)


def axis_taps(
    op: tcp.GridSampleOp,
    at: Number,
    size: SymbolicInteger,
    real: MakeReal,
    margin: int | None,
) -> list[tuple[Number, Number | None]]:
    """Position, -1 if outside, and weight of the elements that `at` combines."""
    mode, is_zeros = op.mode.data, op.padding.data is GridPadding.ZEROS
    is_cubic = mode is ResampleMode.CUBIC
    if not is_cubic:
        at = op.padded(at, size, real, reflected)
    low = at.apply("round") if mode is ResampleMode.NEAREST else at.floor()
    found = resampling.weights(mode, at - low)
    if margin is not None and (is_zeros or not is_cubic):
        if is_zeros:
            low = low.clamp(-1.0 - found[-1][0], real(size - found[0][0]))
        start = low.truncated() + margin
        return [(start + offset, weight) for offset, weight in found]
    taps: list[tuple[Number, Number | None]] = []
    for offset, weight in found:
        place = low + offset if offset else low
        if is_cubic:
            place = op.padded(place, size, real, reflected)
        taps.append((position(place, size, real), weight))
    return taps


def position(coordinate: Number, size: SymbolicInteger, real: MakeReal) -> Number:
    """A whole number as i32; -1 if it is outside of 0 to `size - 1`."""
    inside = (coordinate >= 0) & (coordinate < real(size))
    return inside.select(coordinate, -1.0).truncated()


def with_unknown(axes: Taps) -> Taps:
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
