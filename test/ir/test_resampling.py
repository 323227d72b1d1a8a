"""The formulas of resampling against those that the reference has of its own."""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from padc.backends.reference.tcp import taps as oracle
from padc.ir import resampling
from padc.ir.tcp import Coordinates, ResampleMode, Sampling

SIZES = (1, 2, 3, 5, 7, 33, 64)
NEW_SIZES = (1, 2, 3, 4, 7, 11, 64, 100)


def samplings() -> Iterator[Sampling]:
    for mode in (ResampleMode.NEAREST, ResampleMode.LINEAR, ResampleMode.CUBIC):
        for coordinates, scale in itertools.product(Coordinates, (None, 1.5, 0.37)):
            yield Sampling(mode, coordinates, scale)
    for mode in resampling.REACHES:
        yield Sampling(mode, Coordinates.HALF_PIXEL, antialias=True)
        yield Sampling(mode, Coordinates.ALIGN_CORNERS, antialias=True)
    yield Sampling(ResampleMode.AREA, Coordinates.HALF_PIXEL)


@pytest.mark.parametrize("real", [np.float32, np.float64])
@pytest.mark.parametrize("sampling", list(samplings()))
def test_tables_are_the_oracles_bit_for_bit(sampling: Sampling, real: Any):
    for size, new_size in itertools.product(SIZES, NEW_SIZES):
        actual = resampling.taps(size, new_size, sampling, real)
        expected = oracle.taps(size, new_size, sampling, real)

        for (position, weight), (place, factor) in zip(actual, expected, strict=True):
            assert np.array_equal(position, place)
            if weight is None or factor is None:
                assert weight is factor
            else:
                assert weight.dtype == factor.dtype == real
                assert np.array_equal(weight, factor)


def test_area_windows_cover_all_elements_and_are_no_longer_than_their_bound():
    for size, new_size in itertools.product(range(1, 40), range(1, 40)):
        windows = resampling.area_windows(size, new_size)

        assert windows == oracle.area_windows(size, new_size)
        assert set().union(*windows) == set(range(size))
        longest = max(map(len, windows))
        assert 1 <= longest <= resampling.longest_area(size, new_size)


@pytest.mark.parametrize("mode", resampling.REACHES)
@pytest.mark.parametrize("coordinates", ["half_pixel", "align_corners"])
def test_no_antialiased_window_is_longer_than_its_bound(
    mode: ResampleMode, coordinates: str
):
    sampling = Sampling(mode, Coordinates(coordinates), antialias=True)
    for size, new_size in itertools.product(range(1, 60), range(1, 60)):
        j = np.arange(new_size)
        starts, ends, _ = resampling.antialiased_window(
            j, size, new_size, sampling, np.float32
        )
        longest = resampling.longest_antialiased(size, new_size, sampling)

        assert (ends - starts).max() <= longest
        if size != new_size:
            assert (ends > starts).all()


@pytest.mark.parametrize("mode", [ResampleMode.LINEAR, ResampleMode.CUBIC])
def test_weights_of_many_taps_are_those_of_each(mode: ResampleMode):
    fraction = np.random.default_rng(0).random((50, 1))
    offsets, weights = zip(*resampling.weights(mode, fraction), strict=True)

    at_once = resampling.weights_at(mode, fraction, np.array(offsets))

    assert offsets == resampling.OFFSETS[mode]
    assert np.array_equal(at_once, np.hstack(weights))
