"""
Winograd's convolutions: tiles of the result from few products.

A tile of m x m results `y` of a 3x3 filter `g` comes from (m + 2) x (m + 2) inputs `d`:

    y = A^T [(G g G^T) * (B^T d B)] A

where `*` multiplies element by element. That is (m + 2)^2 products instead of 9 m^2.
These are the filter, input and output transforms of upstream MLIR's
`linalg.winograd_filter_transform` and the like; see Lavin and Gray, "Fast Algorithms
for Convolutional Neural Networks", 2016.

The matrices are those of Cook and Toom: polynomials are evaluated at m + 1 points and
at infinity, multiplied, and interpolated. The points decide the error: for m = 4, the
usual 0, +-1 and +-2 have four times the error of 0, +-3/4 and +-3/2. With both, all
numbers in A and B are exact in float32.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import prod
from typing import TypeAlias

import numpy as np

from padc.ir.weights import Array

Matrix: TypeAlias = "Sequence[Sequence[Fraction]]"

TAPS = 3
"""The size of a filter."""
COLUMNS = 1 << 14
"""The filters that are transformed at once: their float64 stays in the caches."""
POINTS = {
    2: [Fraction(0), Fraction(1), Fraction(-1)],
    4: [Fraction(0), Fraction(3, 4), -Fraction(3, 4), Fraction(3, 2), -Fraction(3, 2)],
}
"""The points for each size of a tile: after the first, pairs of opposite ones."""


@dataclass(frozen=True)
class Winograd:
    """The transforms of tiles of `outputs` x `outputs` results."""

    outputs: int
    output: Matrix
    """A^T."""
    filter: Matrix
    """G."""
    input: Matrix
    """B^T."""

    @property
    def inputs(self) -> int:
        """The inputs along a side of a tile."""
        return self.outputs + TAPS - 1

    @property
    def pairs(self) -> Sequence[tuple[int, int]]:
        """The numbers of opposite points."""
        return [(i, i + 1) for i in range(1, self.outputs, 2)]

    def transformed(self, filters: Array) -> Array:
        """The filter transform of an array `[3, 3, ...]`, in its dtype."""
        matrix = np.array(self.filter, dtype=np.float64)
        both = np.kron(matrix, matrix)
        flat = filters.reshape(TAPS**2, -1)
        result = np.empty((len(both), flat.shape[1]), filters.dtype)
        for first in range(0, flat.shape[1], COLUMNS):
            part = slice(first, first + COLUMNS)
            result[:, part] = both @ flat[:, part]
        return result.reshape(self.inputs, self.inputs, *filters.shape[2:])


@functools.cache
def winograd(outputs: int) -> Winograd:
    """The transforms for tiles of `outputs` x `outputs` results: 2 or 4."""
    points, inputs = POINTS[outputs], outputs + TAPS - 1
    return Winograd(
        outputs,
        [
            [*(point**i for point in points), Fraction(i == outputs - 1)]
            for i in range(outputs)
        ],
        [
            *(
                [
                    point**i / prod(point - x for x in points if x != point)
                    for i in range(TAPS)
                ]
                for point in points
            ),
            [Fraction(i == TAPS - 1) for i in range(TAPS)],
        ],
        [
            *(
                [*polynomial([x for x in points if x != point]), Fraction(0)]
                for point in points
            ),
            polynomial(points)[:inputs],
        ],
    )


def polynomial(roots: Sequence[Fraction]) -> list[Fraction]:
    """The coefficients of the polynomial with these roots, the constant one first."""
    result = [Fraction(1)]
    for root in roots:
        shifted = [Fraction(0), *result]
        result = [a - root * b for a, b in zip(shifted, [*result, 0], strict=True)]
    return result
