"""The phases of transposed convolutions, proved by z3."""

import itertools
from typing import Any

import pytest
import z3
from proofs import holds, ints, proves, symbolic

from padc.ir.phases import conv_transpose_phase, phase_size

q, t, size = ints("q t size")


def reached(taps: Any, tap: int) -> Any:
    """Whether the convolution of a phase multiplies element t by `tap`, for result q."""
    if taps is None:
        return z3.BoolVal(False)
    return z3.Or(
        *(
            t == q + taps.start + j * taps.dilation
            for j in range(taps.number)
            if tap == taps.first + taps.step * (taps.number - 1 - j)
        )
    )


@proves("split-conv-transpose: the taps of a phase")
@pytest.mark.parametrize("stride", range(1, 6))
def test_a_phase_has_the_products_of_the_transposed_convolution(stride: int):
    """For all elements and positions; a phase without taps has no product."""
    for dilation, kernel in itertools.product(range(1, 6), range(1, 7)):
        claims: list[Any] = []
        for residue in range(stride):
            taps = conv_transpose_phase(kernel, stride, dilation, residue)
            place = stride * q + residue
            claims += [
                (stride * t + dilation * tap == place) == reached(taps, tap)
                for tap in range(kernel)
            ]
        assert holds(z3.And(*claims))


@pytest.mark.parametrize("stride", range(1, 6))
def test_the_size_of_a_phase(stride: int):
    for phase in range(stride):
        with symbolic():
            number = phase_size(size, stride, phase)
        inside = z3.And(q >= 0, phase + stride * q < size)
        assert holds(inside == z3.And(q >= 0, q < number), size >= 0)
