"""
Decompose grid sampling into arithmetic, one gather, and a weighted sum.

One tensor [N, P, taps, dimensions] holds the coordinates of all points and of all
elements that each point combines ("taps"), for all channels. Padding with zeros is a
pad by one element; every tap outside is clamped to it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import DYNAMIC_INDEX, ModuleOp, f32, f64, i64
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from padc.errors import Obstacle
from padc.ir import tcp
from padc.ir.tcp import GridPadding, GridSampleOp, ResampleMode, tensor_type
from padc.passes.aten.arithmetic import Arithmetic
from padc.passes.aten.builder import AtenBuilder, Integer
from padc.passes.lowering import lower_all
from padc.passes.tcp_to_mil.legality import can_resample, is_exact
from padc.passes.tcp_to_mil.policies import DEFAULT_GRID_SAMPLE_POLICY, GridSamplePolicy

OFFSETS = {
    ResampleMode.NEAREST: (0,),
    ResampleMode.LINEAR: (0, 1),
    ResampleMode.CUBIC: (-1, 0, 1, 2),
}
"""The taps of a point along a dimension, relative to the element before it."""

NEAR, FAR = (1.25, -2.25, 0.0, 1.0), (-0.75, 3.75, -6.0, 3.0)
CUBIC = np.array([FAR, NEAR, NEAR, FAR])
"""The weights of the four taps: polynomials of the distance from each tap, highest
power first. R. Keys' cubic convolution kernel with a = -0.75. Polynomials of a single
distance would be equal, but PyTorch's weights are rounded as these are."""


def decompose(op: GridSampleOp) -> SSAValue:
    """Build what computes the op's result."""
    build = AtenBuilder(op)
    rank, type = op.spatial_rank, op.input_type
    batch, channels, *sizes = (build.size(op.input, dim) for dim in range(rank + 2))
    shape = [build.size(op.grid, dim) for dim in range(1, rank + 1)]
    if not isinstance(batch, int):
        batch = build.size(op.grid, 0)
    count = product(build, shape)
    is_double = op.grid_type.element_type == f64
    points = Arithmetic(build, f64 if is_double else f32)
    grid = build.cast(op.grid, points.element_type)
    grid = build.reshape(grid, [batch, count, 1, rank])
    places, weights = taps(points, op, grid, sizes)
    index = positions(points, op, places, batch, sizes)
    x = rows(build, op, [batch, channels, *sizes])
    y = build.index_select(x, 1, index)
    if weights is None:
        y = build.reshape(y, [channels, batch, count])
    else:
        number = tensor_type(weights).get_shape()[-1]
        y = build.reshape(y, [channels, batch, count, number])
        y = points.mul(build.cast(y, points.element_type), weights)
        y = build.cast(points.reduced("sum", y), type.element_type)
    y = build.reshape(swapped(build, y), [batch, channels, *shape])
    return build.refined(y, op.result.type)


def swapped(build: AtenBuilder, x: SSAValue) -> SSAValue:
    """
    `x` with its first two dimensions swapped, for a reshape that follows.

    If one of them is 1, the order of the elements is the same, and `x` is returned.
    """
    if 1 in tensor_type(x).get_shape()[:2]:
        return x
    return build.permute(x, [1, 0, *range(2, tensor_type(x).get_num_dims())])


def taps(
    points: Arithmetic, op: GridSampleOp, grid: SSAValue, sizes: Sequence[Integer]
) -> tuple[SSAValue, SSAValue | None]:
    """
    The positions [N, P, T, D] of the taps of points [N, P, 1, D], as whole floats.

    Also their weights [N, P, T]; None for a single tap. The last dimension comes first.
    """
    mode = op.mode.data
    # A point's first number is its coordinate along the last dimension.
    sizes = sizes[::-1]
    outside = surround(op)
    low, high = -float(outside), points.reals(plus(points.build, sizes, outside - 1))
    at = pixels(points, grid, sizes, op.align_corners is not None)
    if mode is not ResampleMode.CUBIC:
        at = padded(points, op, at, sizes)
    if mode is ResampleMode.NEAREST:
        return points.clamp(points.unary("round", at), low, high), None
    offsets = [*itertools.product(OFFSETS[mode], repeat=len(sizes))]
    before = points.unary("floor", at)
    rest = points.sub(at, before)
    if mode is ResampleMode.LINEAR:
        weights = points.unary("abs", points.sub(rest, 1.0 - np.array(offsets)))
    else:
        away = points.sub(rest, np.array(offsets, dtype=np.float64))
        away = points.unary("abs", away)
        cubes, squares, lines, ones = np.moveaxis(CUBIC[np.array(offsets) + 1], -1, 0)
        weights = points.add(points.mul(away, cubes), squares)
        weights = points.add(points.mul(weights, away), lines)
        weights = points.add(points.mul(weights, away), ones)
    places = points.add(before, np.array(offsets, dtype=np.float64))
    if mode is ResampleMode.CUBIC:
        places = padded(points, op, places, sizes)
    weights = points.reduced("prod", weights)
    return points.clamp(places, low, high), weights


def surround(op: GridSampleOp) -> int:
    """The number of zeros on each side of the input."""
    return 1 if op.padding.data is GridPadding.ZEROS else 0


def plus(build: AtenBuilder, sizes: Sequence[Integer], number: int) -> list[Integer]:
    """Each of the sizes plus `number`."""
    return [(build.wrap(size) + number).value for size in sizes]


def pixels(
    points: Arithmetic, grid: SSAValue, sizes: Sequence[Integer], align_corners: bool
) -> SSAValue:
    """The coordinates of points in elements, rounded as in PyTorch's CPU kernels."""
    at = points.add(grid, 1.0)
    if align_corners:
        return points.mul(at, points.reals(plus(points.build, sizes, -1), 1 / 2))
    if len(sizes) != 2 or points.element_type == f64:
        return points.mul(points.sub(points.mul(at, points.reals(sizes)), 1.0), 0.5)
    # PyTorch fuses the multiplication and the subtraction, and rounds once. With a
    # factor split in two, the first product is exact.
    at = points.clamp(at, -(2.0**24), np.array([2.0**24]))
    at = points.mul(at, 1024.0)
    whole = points.unary("floor", at)
    rest = points.sub(at, whole)
    scale = points.reals(sizes, 1 / 2048)
    at = points.sub(points.mul(whole, scale), 0.5)
    return points.add(at, points.mul(rest, scale))


def padded(
    points: Arithmetic, op: GridSampleOp, at: SSAValue, sizes: Sequence[Integer]
) -> SSAValue:
    """Positions that padding has moved inside; unchanged with zeros."""
    if op.padding.data is GridPadding.ZEROS:
        return at
    build = points.build
    last = plus(build, sizes, -1)
    if op.padding.data is GridPadding.REFLECTION:
        # The period is the input and its mirror image.
        aligned = op.align_corners is not None
        first = 0.0 if aligned else -0.5
        spans = sizes
        if aligned:
            spans = [build.wrap(span).maximum(1).value for span in last]
        period = points.reals(spans, 2.0)
        if not isinstance(period, SSAValue):
            period = points.constant(period)
        if first:
            at = points.sub(at, first)
        at = points.binary("remainder.Tensor", points.unary("abs", at), period)
        # From the nearer end: subtracting from both would round small distances.
        at = points.binary("minimum", at, points.sub(period, at))
        if first:
            at = points.add(at, first)
    return points.clamp(at, 0.0, points.reals(last))


def rows(build: AtenBuilder, op: GridSampleOp, shape: Sequence[Integer]) -> SSAValue:
    """The input, of `shape`, with zeros around it, as one row for each channel."""
    x, (batch, channels, *sizes) = op.input, shape
    if outside := surround(op):
        zero = build.insert(tcp.fill_constant(0.0, op.input_type.element_type))
        amounts = [0, 0, *[outside] * len(sizes)]
        x = build.insert(tcp.PadOp(x, zero, amounts, amounts))
    columns = product(build, [batch, *plus(build, sizes, 2 * outside)])
    return build.reshape(swapped(build, x), [channels, columns])


def positions(
    points: Arithmetic,
    op: GridSampleOp,
    places: SSAValue,
    batch: Integer,
    sizes: Sequence[Integer],
) -> SSAValue:
    """The indices in a row of positions [N, P, T, D], as a vector."""
    build, outside = points.build, surround(op)
    sizes = plus(build, sizes, 2 * outside)
    strides = [product(build, sizes[i + 1 :]) for i in range(len(sizes))]
    # NaN must not become an index.
    is_number = points.binary("eq.Tensor", places, places)
    zeros = points.constant(0.0)
    places = build.call(
        "where.self", tensor_type(places), condition=is_number, self=places, other=zeros
    )
    index = points.mul(build.cast(places, i64), points.integers(strides[::-1]))
    index = points.reduced("sum", index)
    plane = product(build, sizes)
    first = total(build, strides) if outside else 0
    if isinstance(batch, int) and isinstance(plane, int) and isinstance(first, int):
        begins = np.arange(batch).reshape(-1, 1, 1) * plane + first
        index = points.add(index, begins) if begins.any() else index
    else:
        begins = build.reshape(build.arange(0, batch), [batch, 1, 1])
        begins = build.elementwise("mul.Scalar", begins, other=plane)
        begins = build.elementwise("add.Scalar", begins, other=first)
        index = points.add(index, begins)
    shape = tensor_type(index).get_shape()
    count = DYNAMIC_INDEX if DYNAMIC_INDEX in shape else math.prod(shape)
    return build.reshape(index, [count])


def product(build: AtenBuilder, sizes: Sequence[Integer]) -> Integer:
    """The number of elements."""
    return reduce(build.multiply, sizes, 1)


def total(build: AtenBuilder, sizes: Sequence[Integer]) -> Integer:
    """The sum of the sizes."""
    return sum(map(build.wrap, sizes), build.wrap(0)).value


@dataclass(frozen=True)
class DecomposeGridSamplePass(ModulePass):
    """Rewrite grid sampling as arithmetic, a gather and a weighted sum."""

    name = "decompose-grid-sample"

    policy: GridSamplePolicy = DEFAULT_GRID_SAMPLE_POLICY
    """Which grid samples stay, for Core ML's `resample`. See `GridSamplePolicy`."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        lower_all(op, GridSampleOp, self.lower)

    def lower(self, op: GridSampleOp) -> SSAValue | None:
        """Build what replaces the result of `op`; None if Core ML's `resample` does."""
        if can_resample(op) and (
            self.policy == "native" or (self.policy == "auto" and is_exact(op))
        ):
            return None
        if self.policy == "native":
            raise Obstacle(
                "Core ML resamples images only, of floats, bilinearly or to "
                "the nearest pixel",
                "choose the grid sample policy auto: other ops then do it",
            )
        return decompose(op)
