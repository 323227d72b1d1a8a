"""
The elements that resampling combines along one dimension, and their weights.

These are not the formulas of `padc.ir.resampling`: independent on purpose.
Source: `area_pixel_compute_source_index`, `nearest_neighbor_compute_source_index` and
`get_cubic_upsample_coefficients` of PyTorch's aten/src/ATen/native/UpSample.h;
`HelperInterpBase` of its aten/src/ATen/native/cpu/UpSampleKernel.cpp for antialiasing;
`start_index` and `end_index` of its aten/src/ATen/native/AdaptivePooling.h for area.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from padc.ir.tcp import Coordinates, ResampleMode, Sampling

Reals: TypeAlias = npt.NDArray[np.floating[Any]]
Indices: TypeAlias = npt.NDArray[np.int64]
Taps: TypeAlias = list[tuple[Indices, Reals | None]]


def taps(
    size: int,
    new_size: int,
    sampling: Sampling,
    real: type[np.floating[Any]] = np.float32,
) -> Taps:
    """
    For each element that is summed: its position, and its weight, for `new_size` ones.

    Positions are from 0 to `size - 1`; a weight of None is 1. `real` is the precision
    of coordinates and weights: PyTorch's is float32, except for float64 tensors.
    """
    if sampling.mode is ResampleMode.AREA:
        return _area(size, new_size, real)
    if size == new_size and sampling.keeps_equal:
        return _kept(size, sampling, real)
    if sampling.antialias:
        return _antialiased(size, new_size, sampling, real)
    at = _coordinates(size, new_size, sampling, real)
    low = np.floor(at)
    match sampling.mode:
        case ResampleMode.LINEAR:
            at = np.maximum(at, 0)
            low = np.floor(at)
            fraction = at - low
            return [
                (_clamped(low, size), 1 - fraction),
                (_clamped(low + 1, size), fraction),
            ]
        case ResampleMode.CUBIC:
            return [
                (_clamped(low + offset, size), _cubic(np.abs(at - low - offset), -0.75))
                for offset in (-1, 0, 1, 2)
            ]
        case ResampleMode.NEAREST:
            return [(_clamped(low, size), None)]
        case _:
            raise ValueError(f"{sampling.mode.value} combines whole windows")


def _kept(size: int, sampling: Sampling, real: type[np.floating[Any]]) -> Taps:
    """Each element itself: PyTorch adds 0 times the same where it interpolates."""
    here = np.arange(size)
    if sampling.antialias:
        return [(here, None)]
    return [(here, np.ones(size, real)), (here, np.zeros(size, real))]


def _coordinates(
    size: int, new_size: int, sampling: Sampling, real: type[np.floating[Any]]
) -> Reals:
    """Where each new element lies; for the nearest, from that element's own start."""
    j = np.arange(new_size, dtype=real)
    step = _step(size, new_size, sampling, real)
    if sampling.coordinates is not Coordinates.HALF_PIXEL:
        return j * step
    if sampling.mode is ResampleMode.NEAREST:
        return (j + real(0.5)) * step
    # PyTorch's kernels multiply and subtract at once, and round then: in float64 the
    # product of float32 numbers is exact.
    return ((j + 0.5).astype(np.float64) * np.float64(step) - 0.5).astype(real)


def _step(
    size: int, new_size: int, sampling: Sampling, real: type[np.floating[Any]]
) -> np.floating[Any]:
    """How far apart two new elements are."""
    if sampling.coordinates is Coordinates.ALIGN_CORNERS:
        return real((size - 1) / (new_size - 1) if new_size > 1 else 0)
    return real(size / new_size if sampling.scale is None else 1 / sampling.scale)


def _clamped(position: Reals, size: int) -> Indices:
    return np.clip(position.astype(np.int64), 0, size - 1)


def _cubic(x: Reals, a: float) -> Reals:
    """R. Keys' cubic convolution kernel, of distances that are not negative."""
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0))


# Windows of several elements, of different lengths.


def area_windows(size: int, new_size: int) -> list[range]:
    """The elements of each of an adaptive pool's `new_size` windows."""
    return [
        range(j * size // new_size, -(-(j + 1) * size // new_size))
        for j in range(new_size)
    ]


def _area(size: int, new_size: int, real: type[np.floating[Any]]) -> Taps:
    windows = area_windows(size, new_size)
    starts = np.array([window.start for window in windows])
    lengths = np.array([len(window) for window in windows])
    return _banded(starts, lengths, 1 / lengths.astype(real)[None])


FILTERS: dict[ResampleMode, tuple[int, Callable[[Reals], Reals]]] = {
    ResampleMode.LINEAR: (1, lambda x: np.maximum(1 - x, 0)),
    ResampleMode.CUBIC: (2, lambda x: _cubic(x, -0.5)),
    ResampleMode.LANCZOS: (3, lambda x: np.sinc(x) * np.sinc(x / 3) * (x < 3)),
}
"""For each antialiased mode, the reach of its filter, and its value by distance."""


def _antialiased(
    size: int, new_size: int, sampling: Sampling, real: type[np.floating[Any]]
) -> Taps:
    reach, kernel = FILTERS[sampling.mode]
    step = _step(size, new_size, sampling, real)
    stretch = max(step, real(1))
    center = (step * (np.arange(new_size) + 0.5)).astype(real)
    # Truncated as PyTorch does, before what is below 0 becomes 0.
    starts = np.maximum((center - reach * stretch + 0.5).astype(np.int64), 0)
    ends = np.minimum((center + reach * stretch + 0.5).astype(np.int64), size)
    lengths = ends - starts
    k = np.arange(int(lengths.max()))[:, None]
    weights = kernel(np.abs((starts + k - center + 0.5) / stretch)) * (k < lengths)
    return _banded(starts, lengths, (weights / weights.sum(0)).astype(real))


def _banded(starts: Indices, lengths: Indices, weights: Reals) -> Taps:
    """
    Taps of windows, element `k` of which has `weights[k]`; one row serves all.

    A window that is shorter than the longest repeats its last element, by equal shares
    of its weight: a weight of 0 would make NaN of an infinity.
    """
    longest, count = int(lengths.max()), len(starts)
    weights = np.broadcast_to(weights, (longest, count))
    positions = np.empty((longest, count), np.int64)
    shares = np.empty((longest, count), weights.dtype)
    for j, (start, length) in enumerate(zip(starts, lengths, strict=True)):
        last = int(length) - 1
        positions[:last, j] = range(start, start + last)
        positions[last:, j] = start + last
        shares[:last, j] = weights[:last, j]
        shares[last:, j] = weights[last, j] / (longest - last)
    return list(zip(positions, shares, strict=True))
