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
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt
from xdsl.context import Context
from xdsl.dialects.builtin import DYNAMIC_INDEX, ModuleOp, f32, f64, i64
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from padc.errors import Obstacle
from padc.ir import resampling, tcp
from padc.ir.tcp import GridPadding, GridSampleOp, ResampleMode, tensor_type
from padc.passes.aten.builder import AtenBuilder, Integer
from padc.passes.aten.symbolic_tensor import (
    Operand,
    SymbolicTensor,
    integers,
    make_real,
)
from padc.passes.common.lowering import lower_all
from padc.passes.tcp_to_mil.legality import can_resample, is_exact
from padc.passes.tcp_to_mil.policies import DEFAULT_GRID_SAMPLE_POLICY, GridSamplePolicy

INDICES = 2**31
"""How many indices Core ML has, which are int32."""

Vector: TypeAlias = SymbolicTensor | npt.NDArray[np.int64]
"""An integer for each dimension, last first; an array if all are known."""


class GridPoints(SymbolicTensor):
    """Points of a grid, and coordinates computed from them."""

    def multiply_add(self, a: Operand, b: Operand, c: Operand) -> SymbolicTensor:
        """
        `a * b + c`, rounded once, where `a` is a point and `b` at most 2^12.

        The point is split in two, one part of which is a multiple of 1 / 1024: the
        first product is exact. Unlike the split of `SymbolicTensor`, this one has no
        differences that are 0 except for rounding, which a GPU might simplify.
        """
        assert isinstance(a, GridPoints)
        if a.type.element_type == f64:
            return a * b + c
        scaled = a.clamp(-(2.0**24), 2.0**24) * 1024.0
        whole = scaled.floor()
        scale: Operand = cast(Any, b) * (1 / 1024)
        return whole * scale + c + (scaled - whole) * scale


def decompose(op: GridSampleOp) -> SSAValue:
    """Build what computes the op's result."""
    build = AtenBuilder(op)
    rank, type = op.spatial_rank, op.input_type
    batch, channels, *sizes = (build.size(op.input, dim) for dim in range(rank + 2))
    shape = [build.size(op.grid, dim) for dim in range(1, rank + 1)]
    if not isinstance(batch, int):
        batch = build.size(op.grid, 0)
    count = build.product(shape)
    type_of_points = f64 if op.grid_type.element_type == f64 else f32
    grid = build.cast(op.grid, type_of_points)
    points = GridPoints(build.reshape(grid, [batch, count, 1, rank]), build)
    places, weights = taps(op, points, sizes)
    x = rows(build, op, [batch, channels, *sizes])
    index = positions(op, places, batch, sizes)
    y = build.index_select(x, 1, index)
    if weights is None:
        y = build.reshape(y, [channels, batch, count])
    else:
        number = weights.type.get_shape()[-1]
        y = build.reshape(y, [channels, batch, count, number])
        terms = SymbolicTensor(y, build).cast(type_of_points) * weights
        y = terms.reduced("sum").cast(type.element_type).value
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
    op: GridSampleOp, points: GridPoints, sizes: Sequence[Integer]
) -> tuple[SymbolicTensor, SymbolicTensor | None]:
    """
    The positions [N, P, T, D] of the taps of points [N, P, 1, D], as whole floats.

    Also their weights [N, P, T]; None for a single tap. The last dimension comes first.
    """
    mode, rank = op.mode.data, len(sizes)
    # A point's first number is its coordinate along the last dimension.
    vector = integers(points.build, sizes[::-1])
    real = make_real(points.build, points.type.element_type)
    outside = surround(op)
    low, high = -float(outside), real(vector + (outside - 1))
    at = resampling.pixel(points, vector, rank, op.align_corners is not None, real)
    if mode is not ResampleMode.CUBIC:
        at = op.padded(at, vector, real, resampling.reflected_by_remainder)
    if mode is ResampleMode.NEAREST:
        return at.unary("round").clamp(low, high), None
    offsets = np.array([*itertools.product(resampling.OFFSETS[mode], repeat=rank)])
    before = at.floor()
    weights = resampling.weights_at(mode, at - before, offsets)
    places = before + offsets
    if mode is ResampleMode.CUBIC:
        places = op.padded(places, vector, real, resampling.reflected_by_remainder)
    return places.clamp(low, high), weights.reduced("prod")


def surround(op: GridSampleOp) -> int:
    """The number of zeros on each side of the input."""
    return 1 if op.padding.data is GridPadding.ZEROS else 0


def plus(build: AtenBuilder, sizes: Sequence[Integer], number: int) -> list[Integer]:
    """Each of the sizes plus `number`."""
    return [(build.wrap(size) + number).value for size in sizes]


def rows(build: AtenBuilder, op: GridSampleOp, shape: Sequence[Integer]) -> SSAValue:
    """The input, of `shape`, with zeros around it, as one row for each channel."""
    x, (batch, channels, *sizes) = op.input, shape
    if outside := surround(op):
        zero = build.insert(tcp.fill_constant(0.0, op.input_type.element_type))
        amounts = [0, 0, *[outside] * len(sizes)]
        x = build.insert(tcp.PadOp(x, zero, amounts, amounts))
    columns = build.product([batch, *plus(build, sizes, 2 * outside)])
    if isinstance(columns, int) and columns > INDICES:
        raise Obstacle(
            f"an input of {columns} elements per channel, zeros around it included",
            f"Core ML's indices are below {INDICES}: give it smaller batches",
        )
    return build.reshape(swapped(build, x), [channels, columns])


def positions(
    op: GridSampleOp, places: SymbolicTensor, batch: Integer, sizes: Sequence[Integer]
) -> SSAValue:
    """The indices in a row of positions [N, P, T, D], as a vector."""
    build, outside = places.build, surround(op)
    sizes = plus(build, sizes, 2 * outside)
    strides = [build.product(sizes[i + 1 :]) for i in range(len(sizes))]
    # NaN must not become an index.
    places = places.equals(places).select(places, 0.0)
    index = (places.cast(i64) * integers(build, strides[::-1])).reduced("sum")
    plane = build.product(sizes)
    first = total(build, strides) if outside else 0
    if isinstance(batch, int) and isinstance(plane, int) and isinstance(first, int):
        begins = np.arange(batch).reshape(-1, 1, 1) * plane + first
        index = index + begins if begins.any() else index
    else:
        begins = build.reshape(build.arange(0, batch), [batch, 1, 1])
        index += SymbolicTensor(begins, build) * build.wrap(plane) + build.wrap(first)
    shape = index.type.get_shape()
    count = DYNAMIC_INDEX if DYNAMIC_INDEX in shape else math.prod(shape)
    return build.reshape(index.value, [count])


def total(build: AtenBuilder, sizes: Sequence[Integer]) -> Integer:
    """The sum of the sizes."""
    return sum(map(build.wrap, sizes), build.wrap(0)).value


@dataclass(frozen=True)
class DecomposeGridSamplePass(ModulePass):
    """Rewrite grid sampling as arithmetic, a gather and a weighted sum."""

    name = "decompose-grid-sample"

    policy: GridSamplePolicy = DEFAULT_GRID_SAMPLE_POLICY
    """
    Which grid samples stay, for Core ML's `resample`. auto: those that it computes as
    PyTorch does. native: all. decompose: none.
    """

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
