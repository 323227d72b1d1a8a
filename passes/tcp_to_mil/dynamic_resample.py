"""
Resampling from and to dynamic sizes, in ATen's ops.

One dimension at a time: the coordinates of the new elements are computed as in
`padc.ir.resampling`; then each tap takes a gather and a weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TypeAlias

import numpy as np
from xdsl.dialects.builtin import f32, i64
from xdsl.ir import Operation, SSAValue

from padc.errors import origin
from padc.ir import resampling
from padc.ir.arithmetic import maximum, minimum
from padc.ir.tcp import Coordinates, ResampleMode, Sampling, tensor_type
from padc.passes.aten.arithmetic import Arithmetic, Vector
from padc.passes.aten.builder import AtenBuilder, Integer

Taps: TypeAlias = Sequence[tuple[SSAValue, SSAValue | None]]


def resample_dynamic(
    op: Operation, x: SSAValue, dim: int, new_size: Integer, sampling: Sampling
) -> SSAValue:
    """Resample one dimension of `x`, of float32 unless the mode is nearest."""
    build, points = AtenBuilder(op), grid_of(op)
    size = build.size(x, dim)
    if isinstance(size, int) and isinstance(new_size, int):
        taps = static_taps(points, size, new_size, sampling)
    else:
        taps = dynamic_taps(points, size, new_size, sampling)
    sums = Arithmetic(build, f32)
    trailing = [1] * (tensor_type(x).get_num_dims() - dim - 1)
    terms: list[SSAValue] = []
    for places, weights in taps:
        terms.append(build.index_select(x, dim, places))
        if weights is not None:
            column = build.reshape(
                weights, [*tensor_type(weights).get_shape(), *trailing]
            )
            terms[-1] = sums.mul(terms[-1], column)
    return reduce(sums.add, terms)


def grid_of(op: Operation) -> Arithmetic:
    """
    Arithmetic on the coordinates that `op` samples.

    They need float32, as those of a grid do: ops with this name are not converted to
    float16.
    """
    return Arithmetic(AtenBuilder(op, f"the grid of {origin(op)}"), f32)


def static_taps(
    points: Arithmetic, size: int, new_size: int, sampling: Sampling
) -> Taps:
    return [
        (points.constant(places), None if weights is None else points.constant(weights))
        for places, weights in resampling.taps(size, new_size, sampling)
    ]


def dynamic_taps(
    points: Arithmetic, size: Integer, new_size: Integer, sampling: Sampling
) -> Taps:
    """`resampling.taps` with a dynamic size."""
    at = coordinates(points, size, new_size, sampling)
    if sampling.mode is ResampleMode.LINEAR:
        at = points.build.elementwise("clamp", at, min=0.0)
    low = points.unary("floor", at)
    if sampling.mode is ResampleMode.NEAREST:
        return [(place(points, low, 0, size), None)]
    rest = points.sub(at, low)
    if sampling.mode is ResampleMode.LINEAR:
        weights = [points.sub(points.mul(rest, -1.0), -1.0), rest]
        offsets = [0, is_moved(points.build, size, new_size)]
    else:
        offsets = [-1, 0, 1, 2]
        weights = [cubic_weight(points, rest, offset) for offset in (-1, 0, 1, 2)]
    places = [place(points, low, offset, size) for offset in offsets]
    return list(zip(places, weights, strict=True))


def is_moved(build: AtenBuilder, size: Integer, new_size: Integer) -> Integer:
    """0 if the two are equal, otherwise 1."""
    return minimum(abs(build.wrap(new_size) - build.wrap(size)), 1).value


def place(
    points: Arithmetic, low: SSAValue, offset: Integer, size: Integer
) -> SSAValue:
    """The positions `offset` after `low`, clamped to the border."""
    build = points.build
    index = build.cast(low, i64)
    if offset != 0:
        index = build.elementwise("add.Scalar", index, other=offset)
    last = (build.wrap(size) - 1).value
    return build.elementwise("clamp", index, min=0, max=last)


def cubic_weight(points: Arithmetic, rest: SSAValue, offset: int) -> SSAValue:
    """R. Keys' cubic convolution kernel with a = -0.75, at a distance from `offset`."""
    distance = points.unary("abs", points.sub(rest, float(offset)))
    return cubic_piece(points, distance, -0.75, offset in (0, 1))


def cubic_piece(
    points: Arithmetic, distance: SSAValue, a: float, is_near: bool
) -> SSAValue:
    """The kernel's polynomial for distances up to 1, or from 1 to 2."""
    coefficients = (
        (a + 2, -(a + 3), 0.0, 1.0) if is_near else (a, -5 * a, 8 * a, -4 * a)
    )
    first, *others = coefficients
    weight = points.add(points.mul(distance, first), others[0])
    for coefficient in others[1:]:
        weight = points.mul(weight, distance)
        weight = points.add(weight, coefficient) if coefficient else weight
    return weight


def coordinates(
    points: Arithmetic, size: Integer, new_size: Integer, sampling: Sampling
) -> SSAValue:
    """The coordinate of each new element; for nearest, of the element's start."""
    build = points.build
    j = build.cast(build.arange(0, new_size), f32)
    step = step_of(points, size, new_size, sampling)
    if sampling.coordinates is not Coordinates.HALF_PIXEL:
        return points.mul(j, step)
    j = points.add(j, 0.5)
    if sampling.mode is ResampleMode.NEAREST:
        return points.mul(j, step)
    # PyTorch's kernels fuse multiplication and subtraction, and round once. With a step
    # split in two, the first product is exact; up to 2048 elements the second is too.
    upper, lower = halves(points, step)
    return points.add(points.sub(points.mul(j, upper), 0.5), points.mul(j, lower))


def step_of(
    points: Arithmetic, size: Integer, new_size: Integer, sampling: Sampling
) -> Vector:
    """The distance between two new elements: one number of float32."""
    build = points.build
    if sampling.coordinates is Coordinates.ALIGN_CORNERS:
        last, steps = build.wrap(size) - 1, build.wrap(new_size) - 1
        # A single new element is at the first old one.
        size = (last * minimum(steps, 1)).value
        new_size = maximum(steps, 1).value
    elif sampling.scale is not None:
        step = np.array([1 / sampling.scale], np.float32)
        if not sampling.keeps_equal:
            return step
        moved = points.reals([is_moved(build, size, new_size)])
        if not isinstance(moved, SSAValue):
            return step if moved else np.ones(1, np.float32)
        step = points.constant(step)
        return points.where(points.binary("gt.Tensor", moved, [0.5]), step, [1.0])
    numerator, divisor = points.reals([size]), points.reals([new_size])
    if not isinstance(numerator, SSAValue):
        numerator = points.constant(numerator)
    elif not isinstance(divisor, SSAValue):
        # coremltools rewrites `x / 7` as `x * (1 / 7)`, which is rounded twice.
        divisor = points.add(points.mul(numerator, 0.0), divisor)
    return points.binary("div.Tensor", numerator, divisor)


def halves(points: Arithmetic, step: Vector) -> tuple[Vector, Vector]:
    """
    Two numbers of at most 12 bits whose sum is one of float32.

    Source: T. J. Dekker, "A floating-point technique for extending the available
    precision" (Numerische Mathematik 18, 1971), 5.
    """
    if not isinstance(step, SSAValue):
        wide = step * np.float32(2**12 + 1)
        upper = wide - (wide - step)
        return upper, step - upper
    wide = points.mul(step, 2.0**12 + 1)
    upper = points.sub(wide, points.sub(wide, step))
    return upper, points.sub(step, upper)
