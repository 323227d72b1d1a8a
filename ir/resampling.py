"""
The formulas of resampling: coordinates, and the weights of the elements around them.

Each holds for one dimension. Sizes and positions are integers of any kind, coordinates
and weights real numbers of any kind (`padc.ir.arithmetic`). A parameter `real` makes an
integer a real number of the precision that is computed in: PyTorch's is float32, except
for float64 tensors.

Source: `area_pixel_compute_source_index`, `nearest_neighbor_compute_source_index` and
`get_cubic_upsample_coefficients` of PyTorch's aten/src/ATen/native/UpSample.h;
`HelperInterpBase` of its aten/src/ATen/native/cpu/UpSampleKernel.cpp for antialiasing;
`start_index` and `end_index` of its aten/src/ATen/native/AdaptivePooling.h for area;
aten/src/ATen/native/cpu/GridSamplerKernel.cpp for grid sampling.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import auto
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from xdsl.utils.str_enum import StrEnum

from padc.ir.arithmetic import (
    Real,
    Whole,
    ceil_div,
    clamp,
    floor,
    is_zero,
    maximum,
    minimum,
    multiply_add,
    select,
    sine,
    whole,
)

MakeReal: TypeAlias = Callable[[Whole], Real]


class ResampleMode(StrEnum):
    """How `tcp.resample` combines the elements around a coordinate."""

    NEAREST = auto()
    LINEAR = auto()
    CUBIC = auto()
    LANCZOS = auto()
    AREA = auto()


class Coordinates(StrEnum):
    """
    The coordinate in the input, of D elements, of element j of a resampled dimension.

    With `s` input elements for each of the result's: `ASYMMETRIC` at `j * s`,
    `HALF_PIXEL` at `(j + 1/2) * s - 1/2`, `ALIGN_CORNERS` at
    `j * (D - 1) / (result's size - 1)`.
    """

    ASYMMETRIC = auto()
    HALF_PIXEL = auto()
    ALIGN_CORNERS = auto()


@dataclass(frozen=True)
class Sampling:
    """How one dimension is resampled: see `tcp.resample`."""

    mode: ResampleMode
    coordinates: Coordinates
    scale: float | None = None
    antialias: bool = False

    @property
    def keeps_equal(self) -> bool:
        """Whether resampling to the same size keeps all elements, for any scale."""
        return self.antialias or self.mode is ResampleMode.LINEAR


# R. Keys' cubic convolution kernel, a polynomial of the distance up to 1 and another
# one from there to 2. PyTorch interpolates with a = -0.75, and antialiases with -0.5.


def cubic_near(a: float) -> tuple[float, ...]:
    """The coefficients up to a distance of 1, highest power first."""
    return a + 2, -(a + 3), 0, 1


def cubic_far(a: float) -> tuple[float, ...]:
    """The coefficients for distances from 1 to 2, highest power first."""
    return a, -5 * a, 8 * a, -4 * a


CUBIC_TAPS = tuple(
    zip(
        (-1, 0, 1, 2),
        (cubic_far(-0.75), cubic_near(-0.75), cubic_near(-0.75), cubic_far(-0.75)),
        strict=True,
    )
)
"""
The elements that cubic interpolation combines, from the one before a coordinate.

The weight of each is a polynomial of its distance, whose coefficients follow it.
Polynomials of a single distance would be equal, but PyTorch's weights are rounded as
these are.
"""
OFFSETS = {
    ResampleMode.NEAREST: (0,),
    ResampleMode.LINEAR: (0, 1),
    ResampleMode.CUBIC: tuple(offset for offset, _ in CUBIC_TAPS),
}
"""The elements that an interpolation combines, from the one before a coordinate."""


def polynomial(x: Real, coefficients: Sequence[Real]) -> Real:
    """A polynomial by Horner's rule, of coefficients with the highest power first."""
    value, *others = coefficients
    for coefficient in others:
        value = x * value
        value = value if is_zero(coefficient) else value + coefficient
    return value


def weights(mode: ResampleMode, fraction: Real) -> list[tuple[int, Real | None]]:
    """
    Offsets and weights of elements, for a coordinate `fraction` after an element.

    A weight of None is 1.
    """
    match mode:
        case ResampleMode.NEAREST:
            return [(0, None)]
        case ResampleMode.LINEAR:
            return [(0, 1 - fraction), (1, fraction)]
        case ResampleMode.CUBIC:
            return [
                (o, polynomial(abs(fraction - o if o else fraction), powers))
                for o, powers in CUBIC_TAPS
            ]
        case _:
            raise ValueError(f"{mode.value} combines whole windows")


def weights_at(
    mode: ResampleMode, fraction: Real, offsets: npt.NDArray[np.int64]
) -> Real:
    """The `weights` at many offsets, by operations on arrays."""
    if mode is ResampleMode.LINEAR:
        return abs(fraction - (1 - offsets))
    powers = np.array([powers for _, powers in CUBIC_TAPS])
    coefficients = np.moveaxis(powers[offsets + 1], -1, 0)
    return polynomial(abs(fraction - offsets), list(coefficients))


# Interpolation between a few elements around a coordinate.


def step(size: Whole, new_size: Whole, sampling: Sampling, real: MakeReal) -> Real:
    """The distance between two new elements."""
    if sampling.coordinates is Coordinates.ALIGN_CORNERS:
        last, steps = size - 1, new_size - 1
        # A single new element is at the first one.
        return real(last * minimum(steps, 1)) / real(maximum(steps, 1))
    if sampling.scale is None:
        return real(size) / real(new_size)
    if not sampling.keeps_equal:
        return real(1 / sampling.scale)
    moved = real(is_moved(size, new_size)) > 0
    return select(moved, real(1 / sampling.scale), real(1))


def coordinate(j: Real, step: Real, sampling: Sampling) -> Real:
    """The coordinate of new element `j`; for nearest, of that element's start."""
    if sampling.coordinates is not Coordinates.HALF_PIXEL:
        return j * step
    if sampling.mode is ResampleMode.NEAREST:
        return (j + 0.5) * step
    # PyTorch's kernels multiply and subtract at once, and round then; those of its
    # builds with CUDA round twice.
    return multiply_add(step, j + 0.5, -0.5)


def interpolation(
    j: Whole, size: Whole, new_size: Whole, sampling: Sampling, real: MakeReal
) -> list[tuple[Whole, Real | None]]:
    """
    The position and weight of each element that new element `j` combines.

    Positions are from 0 to `size - 1`; a weight of None is 1.
    """
    at = coordinate(real(j), step(size, new_size, sampling, real), sampling)
    if sampling.mode is ResampleMode.LINEAR:
        at = maximum(at, 0)
    low = floor(at)
    first, result = whole(low), list[tuple[Whole, Real | None]]()
    for offset, weight in weights(sampling.mode, at - low):
        if offset and sampling.mode is ResampleMode.LINEAR:
            # Where nothing moves, both are the element itself: it may be infinite.
            offset = is_moved(size, new_size)
        position = first if is_zero(offset) else first + offset
        result.append((clamp(position, 0, size - 1), weight))
    return result


def is_moved(size: Whole, new_size: Whole) -> Whole:
    """1 where the sizes differ, 0 where they are equal."""
    return minimum(abs(new_size - size), 1)


# Windows of several elements, of different lengths.


def area_window(j: Whole, size: Whole, new_size: Whole) -> tuple[Whole, Whole]:
    """The first element of window `j` of an adaptive pool, and the one after."""
    first = j * size
    # Rounded up: one more than the one less rounded down.
    return first // new_size, (first + (size - 1)) // new_size + 1


def longest_area(size: Whole, new_size: Whole) -> Whole:
    """The number of elements that no window of an adaptive pool exceeds."""
    # Less than one element is cut at either side. Without windows, none divides by 0.
    return minimum(ceil_div(size, maximum(new_size, 1)) + 1, size)


def area_windows(size: int, new_size: int) -> list[range]:
    """The elements of each of an adaptive pool's `new_size` windows."""
    return [range(*area_window(j, size, new_size)) for j in range(new_size)]


REACHES = {ResampleMode.LINEAR: 1, ResampleMode.CUBIC: 2, ResampleMode.LANCZOS: 3}
"""The reach of each antialiasing filter, in elements that are not stretched."""


def antialiased_weight(
    mode: ResampleMode, position: Real, center: Real, stretch: Real
) -> Real:
    """
    The weight of an element, before those of a window are made to sum to 1.

    It is a function of the distance of its middle from the window's center.
    """
    # In the order of PyTorch, whose tables of float64 this computes bit for bit.
    x = abs(position - center + 0.5) / stretch
    match mode:
        case ResampleMode.LINEAR:
            return maximum(1 - x, 0)
        case ResampleMode.CUBIC:
            near, far = (polynomial(x, part(-0.5)) for part in (cubic_near, cubic_far))
            return select(x <= 1, near, select(x <= 2, far, 0.0))
        case ResampleMode.LANCZOS:
            return select(x < 3, sinc(x) * sinc(x / 3), 0.0)
        case _:
            raise ValueError(f"{mode.value} has no antialiasing filter")


def sinc(x: Real) -> Real:
    """`sin(pi x) / (pi x)`, 1 at 0, of a number that is not negative."""
    angle = select(x > 0, x, 1e-20) * math.pi
    return sine(angle) / angle


def stretch(step: Real) -> Real:
    """The factor by which antialiasing filters are stretched."""
    return maximum(step, 1)


def antialiased_window(
    j: Whole, size: Whole, new_size: Whole, sampling: Sampling, real: MakeReal
) -> tuple[Whole, Whole, Real]:
    """The window's first element, the one after its last, and its center."""
    distance = step(size, new_size, sampling, real)
    center = (real(j) + 0.5) * distance
    support = stretch(distance) * REACHES[sampling.mode]
    # Truncated as PyTorch does, before what is below 0 becomes 0.
    start = clamp(whole(center - support + 0.5), 0, size)
    end = clamp(whole(center + support + 0.5), 0, size)
    moved = is_moved(size, new_size)
    if isinstance(moved, int) and moved:
        return start, end, center
    # With as many elements as before, each is its own window.
    return (start - j) * moved + j, (end - (j + 1)) * moved + (j + 1), center


def longest_antialiased(size: Whole, new_size: Whole, sampling: Sampling) -> Whole:
    """The number of elements that no window of an antialiasing filter exceeds."""
    reach = REACHES[sampling.mode]
    if sampling.scale is not None:
        factor = min(max(float(np.float32(1 / sampling.scale)), 1.0), 2.0**30)
        return minimum(size, 2 * math.ceil(reach * factor) + 1)
    if sampling.coordinates is Coordinates.ALIGN_CORNERS:
        return minimum(size, _longest(size - 1, maximum(new_size - 1, 1), reach))
    return minimum(size, _longest(size, new_size, reach))


def _longest(size: Whole, new_size: Whole, reach: int) -> Whole:
    return ceil_div(maximum(size, new_size) * reach, maximum(new_size, 1)) * 2 + 1


# Grid sampling.


def pixel(
    point: Real, size: Whole, rank: int, align_corners: bool, real: MakeReal
) -> Real:
    """The coordinate of a point from -1 to 1; of images it is rounded once."""
    from_first = point + 1
    if align_corners:
        return from_first * (real(size - 1) * 0.5)
    if rank == 2:
        return multiply_add(from_first, real(size) * 0.5, -0.5)
    return (from_first * real(size) - 1) * 0.5


def reflected(at: Real, size: Whole, align_corners: bool, real: MakeReal) -> Real:
    """
    A coordinate reflected until it is between the input's ends, as PyTorch rounds.

    With `align_corners` the ends are the first and the last element, which must not be
    the same one; otherwise they are half an element further out.
    """
    span = real(size - 1 if align_corners else size)
    away = abs(at if align_corners else at + 0.5)
    times = floor(away / span)
    # The remainder is exact, and negative where the quotient was rounded up.
    rest = multiply_add(times * -1, span, away)
    rest = select(rest < 0, rest + span, rest)
    is_even = floor(times * 0.5) * 2 >= times
    inside = select(is_even, rest, span - rest)
    return inside if align_corners else inside - 0.5


def reflected_by_remainder(
    at: Real, size: Whole, align_corners: bool, real: MakeReal
) -> Real:
    """
    `reflected`, but rounded otherwise, and defined if the ends are one element.

    For targets without an op that fuses a product and a sum.
    """
    # The period is the input and its mirror image.
    period = real(maximum(size - 1, 1) if align_corners else size) * 2.0
    at = abs(at if align_corners else at + 0.5) % period
    # From the nearer end: subtracting from both would round small distances.
    at = minimum(at, period - at)
    return at if align_corners else at - 0.5


# Tables of constants, for sizes that are known.

Reals: TypeAlias = npt.NDArray[np.floating[Any]]
Indices: TypeAlias = npt.NDArray[np.int64]
Taps: TypeAlias = list[tuple[Indices, Reals | None]]


def taps(
    size: int,
    new_size: int,
    sampling: Sampling,
    precision: type[np.floating[Any]] = np.float32,
) -> Taps:
    """
    The positions and weights of the elements that are summed, for all new elements.

    Positions are from 0 to `size - 1`; weights of None are 1.
    """

    def real(x: Whole) -> Real:
        return np.asarray(x, precision)[()]

    j = np.arange(new_size)
    if sampling.mode is ResampleMode.AREA:
        starts, ends = area_window(j, size, new_size)
        lengths = ends - starts
        return _banded(starts, lengths, 1 / real(lengths)[None])
    if not sampling.antialias:
        return interpolation(j, size, new_size, sampling, real)
    if size == new_size:
        return [(j, None)]
    starts, ends, center = antialiased_window(j, size, new_size, sampling, real)
    wide = stretch(step(size, new_size, sampling, real))
    lengths = ends - starts
    k = np.arange(int(lengths.max()))[:, None]
    weights = antialiased_weight(sampling.mode, starts + k, center, wide)
    weights = np.where(k < lengths, weights, 0)
    return _banded(starts, lengths, real(weights / weights.sum(0)))


def _banded(starts: Indices, lengths: Indices, weights: Reals) -> Taps:
    """
    Taps of windows, whose elements `k` have the weights `weights[k]`.

    One row of weights serves all elements. A window that is shorter than the longest
    repeats its last element, with equal shares of its weight: a weight of 0 would make
    NaN of an infinity.
    """
    longest = int(lengths.max())
    k = np.arange(longest)[:, None]
    inside = np.minimum(k, lengths - 1)
    weights = np.broadcast_to(weights, inside.shape)
    repeats = np.where(k < lengths - 1, 1, longest - lengths + 1)
    taken = np.take_along_axis(weights, inside, 0) / repeats.astype(weights.dtype)
    return list(zip(starts + inside, taken, strict=True))
