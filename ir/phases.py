"""
Phases: the positions of a dimension that are equal modulo a stride.

Each phase of a transposed convolution's result is a VALID convolution of stride 1,
whose kernel has some of the taps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from padc.ir.arithmetic import Whole, ceil_div


@dataclass(frozen=True)
class PhaseTaps:
    """
    The taps of a transposed convolution that reach one phase of its result.

    With stride s, position `s * q + residue` of the VALID result is, for each q, the
    sum over j from 0 to `number` of element `q + start + j * dilation` of the input
    times tap `first + step * (number - 1 - j)` of the kernel.
    """

    first: int
    step: int
    number: int
    start: int
    dilation: int


def conv_transpose_phase(
    kernel: int, stride: int, dilation: int, residue: int
) -> PhaseTaps | None:
    """
    The taps for the positions that are `residue` modulo `stride`; None without taps.

    Element t of the input and tap k add to position `stride * t + dilation * k`. So the
    taps are those with `dilation * k` equal to `residue` modulo `stride`: every
    `stride / gcd(stride, dilation)`-th one, if any.
    """
    divisor = math.gcd(stride, dilation)
    step, moved = stride // divisor, dilation // divisor
    for first in range(min(step, kernel)):
        distance = residue - dilation * first
        if distance % stride == 0:
            number = ceil_div(kernel - first, step)
            start = distance // stride - (number - 1) * moved
            return PhaseTaps(first, step, number, start, moved)
    return None


def phase_size(size: Whole, stride: int, phase: int) -> Whole:
    """How many of the positions from 0 to `size` are `phase` modulo `stride`."""
    return ceil_div(size - phase, stride)
