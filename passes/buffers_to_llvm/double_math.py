"""
Functions of f64 as straight-line code, as `vector_math` has them for f32.

Over all floats, results are within 2 ulp (exp, exp2, and logarithms) or 4 ulp (the
rest) of the exact ones (test/backends/native/test_double_math.py). Other functions are
C's.

The logarithm is that of fdlibm: P. T. P. Tang, "Table-driven implementation of the
logarithm function in IEEE floating-point arithmetic" (1990), without tables. The error
function is a polynomial below 1, and 1 - exp(-x^2) erfcx(x) above it.
"""

from __future__ import annotations

import decimal
import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import count

from xdsl.dialects import math as math_dialect
from xdsl.ir import Operation

from padc.passes.buffers_to_llvm.vector_terms import (
    Function,
    Term,
    high_part,
    mantissa,
    with_limits,
)

DIGITS = 60
"""The digits of numbers that constants and coefficients are computed from."""
BITS = 32
"""The bits of constants whose products with exponents are exact."""


def parts_of(number: Decimal, bits: int = 53) -> tuple[float, float]:
    """A number as the sum of a float of so many bits and another float."""
    high = high_part(float(number), bits)
    with decimal.localcontext(prec=DIGITS):
        return high, float(number - Decimal(high))


def logarithm(x: int) -> Decimal:
    with decimal.localcontext(prec=DIGITS):
        return Decimal(x).ln()


LN2, LN10 = logarithm(2), logarithm(10)
HALF_LN2 = float(LN2) / 2


@functools.cache
def interpolated(
    function: Callable[[Decimal], Decimal], low: float, high: float, degree: int
) -> Sequence[float]:
    """
    The coefficients, from x^0 on, of a polynomial close to `function`.

    It has its values at Chebyshev's nodes, by Newton's divided differences.
    """
    angles = [math.pi * (i + 0.5) / (degree + 1) for i in range(degree + 1)]
    nodes = [
        Decimal((low + high) / 2 + (high - low) / 2 * math.cos(angle))
        for angle in angles
    ]
    with decimal.localcontext(prec=DIGITS):
        differences = [function(x) for x in nodes]
        for order in range(1, degree + 1):
            for i in range(degree, order - 1, -1):
                distance = nodes[i] - nodes[i - order]
                differences[i] = (differences[i] - differences[i - 1]) / distance
        found = [Decimal(0)] * (degree + 1)
        for node, difference in zip(nodes[::-1], differences[::-1], strict=True):
            moved = [difference, *found[:-1]]
            found = [a - node * b for a, b in zip(moved, found, strict=True)]
    return [float(x) for x in found]


def series(terms: Iterator[Decimal]) -> Decimal:
    """The sum of terms, the first of which is not 0, up to those that are too small."""
    total = next(terms)
    for term in terms:
        total += term
        if abs(term) < Decimal(10) ** -(DIGITS - 5):
            return total
    raise AssertionError("a series has no end")


def exp_rest(x: Decimal) -> Decimal:
    """(exp(x) - 1 - x) / x^2."""
    return series(x**k / math.factorial(k + 2) for k in count())


def atanh_rest(x: Decimal) -> Decimal:
    """(log((1 + s) / (1 - s)) - 2 s) / s^3 of x = s^2."""
    return series(2 * x**k / (2 * k + 3) for k in count())


def erf_ratio(x: Decimal) -> Decimal:
    """erf(s) / s of x = s^2."""
    terms = ((-x) ** k / (math.factorial(k) * (2 * k + 1)) for k in count())
    return series(terms) * 2 / SQRT_PI


SQRT_PI = Decimal("1.77245385090551602729816748334114518279754945612238712821381")
"""The square root of pi."""


def erfcx_at(x: Decimal) -> Decimal:
    """exp(s^2) (1 - erf(s)) of x = 1 / (s + ERFCX_SHIFT) - ERFCX_MIDDLE."""
    s = 1 / (x + Decimal(ERFCX_MIDDLE)) - ERFCX_SHIFT
    return (s * s).exp() * (1 - s * erf_ratio(s * s))


ERF_NEAR, ERF_END = 1.0, 6.0
"""Where the one polynomial ends, and from where on the result is 1."""
ERFCX_SHIFT = 3
"""With it, a polynomial of 1 / (s + ERFCX_SHIFT) needs the lowest degree."""
ERFCX_ENDS = 1 / (ERF_END + ERFCX_SHIFT), 1 / (ERF_NEAR + ERFCX_SHIFT)
ERFCX_MIDDLE, ERFCX_HALF = sum(ERFCX_ENDS) / 2, (ERFCX_ENDS[1] - ERFCX_ENDS[0]) / 2
"""From its middle on, the powers of a short interval are small."""

SCALE, SCALE_BIAS = 2.0**965, 1081
"""
2^n = SCALE * 2^(i - 1023) * 2^(j - 1023) where i + j = n + SCALE_BIAS.

i and j are half of that each, between 2 and 1053 for n from -1077 to 1025.
"""


def exp_coefficients() -> Sequence[float]:
    return interpolated(exp_rest, -HALF_LN2, HALF_LN2, 9)


def reduced(x: Term, whole: Term, period: Decimal) -> Term:
    """x - whole * period; the first product is exact."""
    high, low = parts_of(period, BITS)
    return whole.fma(-low, whole.fma(-high, x))


def reduced_exponent(x: Term, bias: int) -> tuple[Term, Term]:
    """`r` and n + bias with x = n log(2) + r, and abs(r) at most about log(2) / 2."""
    whole, number = x.nearest(1 / float(LN2), bias)
    return reduced(x, whole, LN2), number


def scaled_power(x: Term, number: Term) -> Term:
    """`x / SCALE` times 2^(number - SCALE_BIAS), rounded once if it underflows."""
    high = (number << 51) & -(1 << 52)
    low = (number << 52) - high
    return x * high.float() * low.float()


def exp(x: Term) -> Term:
    r, number = reduced_exponent(x.at_most(710.0).at_least(-746.0), SCALE_BIAS)
    power = r.polynomial([SCALE * c for c in (1.0, 1.0, *exp_coefficients())])
    return scaled_power(power, number)


def exp2(x: Term) -> Term:
    x = x.at_most(1025.0).at_least(-1076.0)
    whole, number = x.nearest(bias=SCALE_BIAS)
    high, low = parts_of(LN2)
    part = x - whole
    r = part.fma(high, part * low)
    power = r.polynomial([SCALE * c for c in (1.0, 1.0, *exp_coefficients())])
    return scaled_power(power, number)


def expm1(x: Term) -> Term:
    """2^n (exp(r) - 1) + (2^n - 1), halved so that 2^n does not overflow."""
    r, number = reduced_exponent(x.at_most(710.0).at_least(-50.0), 1022)
    rest = (r * r).fma(r.paired_polynomial(exp_coefficients()), r)
    half = number.biased_power()
    result = half.fma(rest, half - 0.5) * 2.0
    # Halving would lose the last bit of a denormal number.
    return number.equals(1022).select(rest, result).copysign(x)


def log_parts(f: Term) -> tuple[Term, Term]:
    """f^2 / 2, and the rest of log(1 + f) after f - f^2 / 2."""
    s = f / (f + 2.0)
    z, half = s * s, f * f * 0.5
    end = (math.sqrt(2) - 1) / (math.sqrt(2) + 1)
    coefficients = interpolated(atanh_rest, 0.0, end**2, 6)
    return half, s * z.fma(z.paired_polynomial(coefficients), half)


def log_of_product(f: Term, number: Term) -> Term:
    """The logarithm of 2^number (1 + f)."""
    high, low = parts_of(LN2, BITS)
    half, rest = log_parts(f)
    return number.fma(high, f - (half - number.fma(low, rest)))


def log(x: Term) -> Term:
    m, exponent = mantissa(x)
    return with_limits(x, log_of_product(m - 1.0, exponent.small_float()))


def log_to_base(base: int) -> Function:
    """The logarithm to another base, whose factor is applied in two parts."""
    with decimal.localcontext(prec=DIGITS):
        factor, of_2 = 1 / logarithm(base), LN2 / logarithm(base)

    def function(x: Term) -> Term:
        m, exponent = mantissa(x)
        f, number = m - 1.0, exponent.small_float()
        half, rest = log_parts(f)
        high, low = parts_of(factor)
        # f - half = sum + error, and its product with the factor is product + lost.
        sum = f - half
        error = (f - sum) - half
        product = sum * high
        lost = sum.fma(high, 0.0 - product)
        small = sum.fma(low, (error + rest).fma(high, lost))
        # The same for the sum of this and the exponent.
        of_2_high, of_2_low = parts_of(of_2, BITS)
        whole = number * of_2_high
        total = whole + product
        small = small + ((whole - total) + product)
        return with_limits(x, total + number.fma(of_2_low, small))

    return function


def log1p(x: Term) -> Term:
    """The logarithm of u = 1 + x, whose rounding error is added to its mantissa."""
    u = x + 1.0
    added = u - 1.0
    error = (x - added) + (1.0 - (u - added))
    m, exponent = mantissa(u)
    # The error is negligible if the exponent is large.
    scale = (0 - (exponent > 60).select(60, exponent)).power()
    f = error.fma(scale, m - 1.0)
    result = log_of_product(f, exponent.small_float())
    return with_limits(u, result).copysign(x)


def tanh(x: Term) -> Term:
    """t / (t + 1), for 2t = exp(2x) - 1."""
    size = abs(x).at_most(20.0)
    whole, number = size.nearest(2 / float(LN2), 1023)
    r, power = reduced(size, whole, LN2 / 2), number.biased_power()
    coefficients = [2.0 ** (k + 1) * c for k, c in enumerate(exp_coefficients())]
    rest = (r * r).fma(r.paired_polynomial(coefficients), r)
    t = power.fma(rest, power.fma(0.5, -0.5))
    return (t / (t + 1.0)).copysign(x)


def erf(x: Term) -> Term:
    size = abs(x).at_most(ERF_END)
    square = size * size
    near = size * square.paired_polynomial(interpolated(erf_ratio, 0.0, ERF_NEAR, 11))
    r, number = reduced_exponent(0.0 - square, 1023)
    power = r.paired_polynomial([1.0, 1.0, *exp_coefficients()])
    coefficients = interpolated(erfcx_at, -ERFCX_HALF, ERFCX_HALF, 14)
    at = 1.0 / (size + float(ERFCX_SHIFT)) - ERFCX_MIDDLE
    far = 1.0 - power * number.biased_power() * at.paired_polynomial(coefficients)
    return (size < ERF_NEAR).select(near, far).copysign(x)


FUNCTIONS: Mapping[type[Operation], Function] = {
    math_dialect.ErfOp: erf,
    math_dialect.ExpOp: exp,
    math_dialect.Exp2Op: exp2,
    math_dialect.ExpM1Op: expm1,
    math_dialect.LogOp: log,
    math_dialect.Log10Op: log_to_base(10),
    math_dialect.Log1pOp: log1p,
    math_dialect.Log2Op: log_to_base(2),
    math_dialect.TanhOp: tanh,
}
"""The functions of f64, by op."""
