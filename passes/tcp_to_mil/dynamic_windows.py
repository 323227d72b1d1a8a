"""
Averages over windows whose length is known only at run time.

Area resampling and antialiasing, in ATen's ops; `padc.ir.resampling` has the same for
static sizes.
"""

from __future__ import annotations

import math

import numpy as np
from xdsl.dialects.builtin import TensorType, f32, i64
from xdsl.ir import Operation, SSAValue

from padc.ir import resampling
from padc.ir.arithmetic import maximum, minimum
from padc.ir.tcp import Coordinates, ResampleMode, Sampling, tensor_type
from padc.passes.aten.arithmetic import Arithmetic
from padc.passes.aten.builder import AtenBuilder, Integer
from padc.passes.aten.windows import Windows, area_windows
from padc.passes.tcp_to_mil.dynamic_resample import (
    cubic_piece,
    grid_of,
    is_moved,
    step_of,
)


def resample_windows(
    op: Operation, x: SSAValue, dim: int, new_size: Integer, sampling: Sampling
) -> SSAValue:
    """Resample one dimension of `x`, of float32."""
    build, points = AtenBuilder(op), grid_of(op)
    size = build.size(x, dim)
    if sampling.antialias:
        windows, weights = antialiased(points, size, new_size, sampling)
    else:
        windows, weights = areas(points, size, new_size)
    sums = Arithmetic(build, f32)
    counts = build.unsqueeze(is_counted(points, windows), 2)
    weights = build.unsqueeze(weights, 2)
    elements = windows.gather(build, x, dim)
    before, count, _, after = tensor_type(elements).get_shape()
    # An infinite element times a weight of 0 would be NaN.
    terms = sums.mul(sums.where(counts, elements, 0.0), weights)
    result = TensorType(f32, [before, count, after])
    total = build.call("sum.dim_IntList", result, self=terms, dim=[2])
    return windows.restore(build, total, x, dim)


def is_counted(points: Arithmetic, windows: Windows) -> SSAValue:
    """Whether each window has each element, `[windows, elements]`."""
    lengths = points.build.unsqueeze(windows.lengths, 1)
    return points.binary("gt.Tensor", lengths, windows.elements(points.build))


def areas(
    points: Arithmetic, size: Integer, new_size: Integer
) -> tuple[Windows, SSAValue]:
    """The windows of an adaptive pool, and the weight of the elements of each."""
    windows = area_windows(points.build, size, new_size)
    lengths = points.build.cast(windows.lengths, f32)
    return windows, points.build.unsqueeze(points.unary("reciprocal", lengths), 1)


def antialiased(
    points: Arithmetic, size: Integer, new_size: Integer, sampling: Sampling
) -> tuple[Windows, SSAValue]:
    """The windows of a filter as wide as the step, and their elements' weights."""
    build, of = points.build, Arithmetic(points.build, i64)
    step = step_of(points, size, new_size, sampling)
    step = step if isinstance(step, SSAValue) else points.constant(step)
    stretch = points.binary("maximum", step, [1.0])
    numbers = build.arange(0, new_size)
    centers = points.mul(points.add(build.cast(numbers, f32), 0.5), step)
    support = points.mul(stretch, float(reach_of(sampling)))
    starts, ends = (
        build.elementwise(
            "clamp", build.cast(points.add(side, 0.5), i64), min=0, max=size
        )
        for side in (points.sub(centers, support), points.add(centers, support))
    )
    # If the sizes are equal, each element is its own window.
    moved = of.integers([is_moved(build, size, new_size)])
    starts = of.add(of.mul(of.sub(starts, numbers), moved), numbers)
    after = of.add(numbers, 1)
    ends = of.add(of.mul(of.sub(ends, after), moved), after)
    longest = longest_window(build, size, new_size, sampling)
    longest = minimum(build.wrap(longest), build.wrap(size)).value
    windows = Windows(starts, of.sub(ends, starts), longest)
    places = of.add(build.unsqueeze(starts, 1), windows.elements(build))
    places = points.add(build.cast(places, f32), 0.5)
    distances = points.sub(places, build.unsqueeze(centers, 1))
    distances = points.binary("div.Tensor", points.unary("abs", distances), stretch)
    weights = filtered(points, distances, sampling.mode)
    weights = points.where(is_counted(points, windows), weights, 0.0)
    total = build.unsqueeze(points.reduced("sum", weights), 1)
    return windows, points.binary("div.Tensor", weights, total)


def reach_of(sampling: Sampling) -> int:
    reach, _ = resampling.FILTERS[sampling.mode]
    return reach


def longest_window(
    build: AtenBuilder, size: Integer, new_size: Integer, sampling: Sampling
) -> Integer:
    """An upper bound of the number of elements in a window of a filter."""
    reach = reach_of(sampling)
    if sampling.scale is not None:
        return 2 * math.ceil(reach * max(np.float32(1 / sampling.scale), 1)) + 1
    extent, windows = build.wrap(size), build.wrap(new_size)
    if sampling.coordinates is Coordinates.ALIGN_CORNERS:
        extent, windows = extent - 1, maximum(windows - 1, 1)
    side = (maximum(extent, windows) * reach + (windows - 1)) // windows
    return (side * 2 + 1).value


def filtered(points: Arithmetic, x: SSAValue, mode: ResampleMode) -> SSAValue:
    """The filter of `resampling.FILTERS` at these distances."""

    def up_to(bound: float, value: SSAValue, other: SSAValue | float) -> SSAValue:
        return points.where(points.binary("le.Tensor", x, bound), value, other)

    match mode:
        case ResampleMode.LINEAR:
            near = points.sub(points.mul(x, -1.0), -1.0)
            return points.build.elementwise("clamp", near, min=0.0)
        case ResampleMode.CUBIC:
            near, far = (cubic_piece(points, x, -0.5, near) for near in (True, False))
            return up_to(1.0, near, up_to(2.0, far, 0.0))
        case _:
            lobes = points.mul(sinc(points, x), sinc(points, points.mul(x, 1 / 3)))
            return up_to(3.0, lobes, 0.0)


def sinc(points: Arithmetic, x: SSAValue) -> SSAValue:
    """`sin(pi x) / (pi x)`, and 1 at 0."""
    angle = points.mul(x, math.pi)
    ratio = points.binary("div.Tensor", points.unary("sin", angle), angle)
    return points.where(points.binary("gt.Tensor", angle, 0.0), ratio, 1.0)
