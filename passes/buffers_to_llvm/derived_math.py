"""
Functions of floats that are made of others: inverse and hyperbolic ones.

They are straight-line code as those of `vector_math`. Over all floats, results are
within 4 ulp of the exact ones (test/backends/native/test_vector_math.py).

Angles come from polynomials of the arc tangent up to 1 and of the arc sine up to 1/2,
as in W. J. Cody and W. Waite, "Software Manual for the Elementary Functions" (1980).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects import math as math_dialect
from xdsl.ir import Operation

from padc.passes.buffers_to_llvm.vector_terms import Function, Term, log1p_by

LARGE = 2.0**60
"""Beyond this, x^2 + 1 may overflow, and 1 is negligible."""


@dataclass(frozen=True)
class DerivedMath:
    """The functions for floats of one type."""

    reduced_exponent: Callable[[Term, int], tuple[Term, Term]]
    """`r` and n + bias with x = n log(2) + r, of x and bias."""
    log_of_product: Callable[[Term, Term], Term]
    """The logarithm of 2^k (1 + f), of f and an integer k."""
    end: float
    """exp(end) / 2 is infinite, and exp(end) / 4 is not."""
    half_pi: tuple[float, float]
    """pi / 2 as a sum."""
    exp_rest: Callable[[], Sequence[float]]
    """The coefficients of (exp(x) - 1 - x) / x^2, for x up to log(2) / 2."""
    atan_rest: Callable[[], Sequence[float]]
    """Those of (atan(s) / s - 1) / s^2 of s^2, for s up to 1."""
    asin_rest: Callable[[], Sequence[float]]
    """Those of (asin(s) / s - 1) / s^2 of s^2, for s up to 1/2."""

    @property
    def functions(self) -> Mapping[type[Operation], Function]:
        """The functions by op."""
        return {
            math_dialect.AcosOp: self.acos,
            math_dialect.AcoshOp: self.acosh,
            math_dialect.AsinOp: self.asin,
            math_dialect.AsinhOp: self.asinh,
            math_dialect.AtanOp: self.atan,
            math_dialect.Atan2Op: self.atan2,
            math_dialect.AtanhOp: self.atanh,
            math_dialect.CoshOp: self.cosh,
            math_dialect.SinhOp: self.sinh,
        }

    def reduced_size(self, x: Term) -> tuple[Term, Term]:
        """`r` and 2^n / 4 with abs(x) = n log(2) + r."""
        size = abs(x).at_most(self.end)
        r, number = self.reduced_exponent(size, x.bias - 2)
        return r, number.biased_power()

    def cosh(self, x: Term) -> Term:
        """q 2 + 1 / (q 8) of q = exp(x) / 4, which does not overflow."""
        r, quarter = self.reduced_size(x)
        q = r.paired_polynomial([1.0, 1.0, *self.exp_rest()]) * quarter
        return q.fma(2.0, 0.125 / q)

    def sinh(self, x: Term) -> Term:
        """(e + e / (e + 1)) / 2 of e = exp(x) - 1 = scale u."""
        r, quarter = self.reduced_size(x)
        rest = (r * r).fma(r.paired_polynomial(self.exp_rest()), r)
        # A quarter of a small number would lose bits.
        is_near = quarter.equals(0.25)
        u = is_near.select(rest, quarter.fma(rest, quarter - 0.25))
        scale = is_near.select(x.constant(1.0), x.constant(4.0))
        sum = u + u / u.fma(scale, 1.0)
        return (sum * (scale * 0.5)).copysign(x)

    def log1p(self, x: Term, is_large: Term) -> Term:
        """log(1 + x), or log(2 x) of large numbers."""

        def log(f: Term, k: Term) -> Term:
            return self.log_of_product(f, is_large.select(k + 1, k))

        return log1p_by(x, log)

    def asinh(self, x: Term) -> Term:
        """log(1 + s + s^2 / (1 + sqrt(s^2 + 1))) of s = abs(x)."""
        size = abs(x)
        is_large, square = size > LARGE, size * size
        root = (square + 1.0).intrinsic("sqrt")
        sum = size + square / (root + 1.0)
        return self.log1p(is_large.select(size, sum), is_large).copysign(x)

    def acosh(self, x: Term) -> Term:
        """log(1 + t + sqrt(t (t + 2))) of t = x - 1."""
        is_large, t = x > LARGE, x - 1.0
        sum = t + (t * (t + 2.0)).intrinsic("sqrt")
        result = self.log1p(is_large.select(x, sum), is_large)
        return (x < 1.0).select(math.nan, result)

    def atanh(self, x: Term) -> Term:
        """log(1 + 2 s / (1 - s)) / 2 of s = abs(x)."""
        size = abs(x)
        ratio = (size + size) / (1.0 - size)
        result = log1p_by(ratio, self.log_of_product)
        return (result * 0.5).copysign(x)

    def atan(self, x: Term) -> Term:
        return self.angle(abs(x), x.constant(1.0)).copysign(x)

    def atan2(self, y: Term, x: Term) -> Term:
        angle, (high, low) = self.angle(abs(y), abs(x)), self.half_pi
        result = (x.bits() < 0).select(2 * high - (angle - 2 * low), angle)
        return result.copysign(y)

    def angle(self, y: Term, x: Term) -> Term:
        """The arc tangent of y / x, neither of which is negative; 0 for 0 and 0."""
        is_steep, (high, low) = y > x, self.half_pi
        least, most = is_steep.select(x, y), is_steep.select(y, x)
        # Also of two infinities, and of two zeros.
        same = (most > 0.0).select(x.constant(1.0), most)
        t = least.equals(most).select(same, least / most)
        square = t * t
        rest = square.paired_polynomial(self.atan_rest())
        angle = t.fma(square * rest, t)
        return is_steep.select(high - (angle - low), angle)

    def asin(self, x: Term) -> Term:
        is_far, angle = self.asin_parts(abs(x))
        high, low = self.half_pi
        far = high - (angle + angle - low)
        return is_far.select(far, angle).copysign(x)

    def acos(self, x: Term) -> Term:
        is_far, angle = self.asin_parts(abs(x))
        high, low = self.half_pi
        twice = angle + angle
        far = (x < 0.0).select(2 * high - (twice - 2 * low), twice)
        return is_far.select(far, high - (angle.copysign(x) - low))

    def asin_parts(self, size: Term) -> tuple[Term, Term]:
        """
        Whether a number is above 1/2, and asin(s).

        s is the number, or sqrt((1 - x) / 2), of which the arc cosine is twice asin(s).
        """
        is_far = size > 0.5
        square = is_far.select((1.0 - size) * 0.5, size * size)
        s = is_far.select(square.intrinsic("sqrt"), size)
        rest = square.paired_polynomial(self.asin_rest())
        return is_far, s.fma(square * rest, s)
