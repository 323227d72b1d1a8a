"""Chebyshev series of elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import f64

from padc.passes.aten.element import Element

NEGLIGIBLE = 2.0**-28
"""Smaller coefficients than this, relative to the first, do not change a float32."""


@dataclass(frozen=True)
class Chebyshev:
    """The sum of `coefficients[k] * T_k(t)`: t is -1 at `low` and 1 at `high`."""

    low: float
    high: float
    coefficients: Sequence[float]

    def __call__(self, x: Element) -> Element:
        """
        The sum at `x`, by Clenshaw's recurrence.

        Source: C. W. Clenshaw, "A note on the summation of Chebyshev series" (MTAC 9,
        1955).
        """
        first, *others = self.coefficients[: self.terms(x)]
        span = self.high - self.low
        twice = x * (4 / span) - 2 * (self.low + self.high) / span
        before: Element | float = 0.0
        last: Element | float = others.pop()
        for coefficient in reversed(others):
            before, last = last, twice * last + (coefficient - before)
        return twice * 0.5 * last + (first - before)

    def terms(self, x: Element) -> int:
        """The number of terms that change a result of the type of `x`."""
        if x.type == f64:
            return len(self.coefficients)
        least = abs(self.coefficients[0]) * NEGLIGIBLE
        return 1 + max(k for k, c in enumerate(self.coefficients) if abs(c) > least)
