"""
Functions of f64 as straight-line code, as `vector_math` has them for f32.

Over all floats, results are within 2 ulp (exp, exp2, and logarithms) or 4 ulp (the
rest) of the exact ones (test/backends/native/test_double_math.py). Sines, cosines and
tangents are C's in blocks with an angle above 2^40, remainders in those with a quotient
above 2^50.

The logarithm adds up its parts as that of fdlibm (e_log.c) does. The error function is
a polynomial below 1, and 1 - exp(-x^2) erfcx(x) above it.
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

from padc.ir.arith import RemFOp
from padc.passes.buffers_to_llvm.derived_math import DerivedMath
from padc.passes.buffers_to_llvm.vector_terms import (
    Function,
    PartialFunction,
    Term,
    expm1_of_parts,
    high_part,
    is_small,
    log1p_by,
    mantissa,
    of_twice,
    scaled_power,
    signed_power,
    small_cos,
    small_fmod,
    small_sin,
    small_tan,
    tanh_of_parts,
    with_limits,
)

DIGITS = 60
"""The digits of numbers that constants and coefficients are computed from."""
CONTEXT = decimal.Context(DIGITS, decimal.ROUND_HALF_EVEN)
"""For all arithmetic on them: the precision of the caller's context is its own."""
BITS = 32
"""The bits of constants whose products with exponents are exact."""


def split(number: Decimal, bits: int = 53) -> tuple[float, float]:
    """A number as the sum of a float of so many bits and another float."""
    high = high_part(float(number), bits)
    return high, float(CONTEXT.subtract(number, Decimal(high)))


LN2 = CONTEXT.ln(2)
HALF_LN2 = CONTEXT.divide(LN2, 2)
PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781")


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
    with decimal.localcontext(CONTEXT):
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
    raise AssertionError("the terms do not end")


def exp_rest(x: Decimal) -> Decimal:
    """(exp(x) - 1 - x) / x^2."""
    return series(x**k / math.factorial(k + 2) for k in count())


def log_ratio_rest(x: Decimal) -> Decimal:
    """(log((1 + s) / (1 - s)) - 2 s) / s^3 of x = s^2."""
    return series(2 * x**k / (2 * k + 3) for k in count())


def erf_ratio(x: Decimal) -> Decimal:
    """erf(s) / s of x = s^2."""
    terms = ((-x) ** k / (math.factorial(k) * (2 * k + 1)) for k in count())
    return series(terms) * 2 / PI.sqrt()


def sin_rest(x: Decimal) -> Decimal:
    """(sin(r) / r - 1) / r^2 of x = r^2."""
    return -series((-x) ** k / math.factorial(2 * k + 3) for k in count())


def cos_rest(x: Decimal) -> Decimal:
    """(cos(r) - 1 + r^2 / 2) / r^4 of x = r^2."""
    return series((-x) ** k / math.factorial(2 * k + 4) for k in count())


def atan(x: Decimal) -> Decimal:
    """The arc tangent, which is twice that of a smaller number."""
    if x > Decimal("0.1"):
        return 2 * atan(x / (1 + (1 + x * x).sqrt()))
    return x * series((-x * x) ** k / (2 * k + 1) for k in count())


def atan_rest(x: Decimal) -> Decimal:
    """(atan(s) / s - 1) / s^2 of x = s^2."""
    s = x.sqrt()
    return (atan(s) / s - 1) / x


def asin_rest(x: Decimal) -> Decimal:
    """(asin(s) / s - 1) / s^2 of x = s^2."""
    s = x.sqrt()
    return (atan(s / (1 - x).sqrt()) / s - 1) / x


def sine_ratio(x: Decimal) -> Decimal:
    """sin(r) / r of x = r^2."""
    return series((-x) ** k / math.factorial(2 * k + 1) for k in count())


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
"""Powers of the distance to the middle are small, so that few digits cancel."""

SCALE, SCALE_BIAS = 2.0**965, 1081
"""
2^n = SCALE * 2^(i - 1023) * 2^(j - 1023) where i + j = n + SCALE_BIAS.

i and j are half of that each, between 2 and 1053 for n from -1077 to 1025.
"""


def exp_coefficients() -> Sequence[float]:
    end = float(HALF_LN2)
    return interpolated(exp_rest, -end, end, 9)


def reduced(x: Term, whole: Term, period: Decimal) -> Term:
    """x - whole * period; the first product is exact."""
    high, low = split(period, BITS)
    return whole.fma(-low, whole.fma(-high, x))


def reduced_exponent(x: Term, bias: int) -> tuple[Term, Term]:
    """`r` and n + bias with x = n log(2) + r, and abs(r) at most about log(2) / 2."""
    whole, number = x.nearest(1 / float(LN2), bias)
    return reduced(x, whole, LN2), number


def exp(x: Term) -> Term:
    r, number = reduced_exponent(x.at_most(710.0).at_least(-746.0), SCALE_BIAS)
    power = r.polynomial([SCALE * c for c in (1.0, 1.0, *exp_coefficients())])
    return scaled_power(power, number)


def exp2(x: Term) -> Term:
    x = x.at_most(1025.0).at_least(-1076.0)
    whole, number = x.nearest(bias=SCALE_BIAS)
    return power_of_2(x - whole, number)


def power_of_2(x: Term, number: Term) -> Term:
    """2^(x + n) for abs(x) at most about 1/2, and `number` = n + `SCALE_BIAS`."""
    high, low = split(LN2)
    r = x.fma(high, x * low)
    power = r.polynomial([SCALE * c for c in (1.0, 1.0, *exp_coefficients())])
    return scaled_power(power, number)


def expm1(x: Term) -> Term:
    parts = reduced_exponent(x.at_most(710.0).at_least(-50.0), x.bias - 1)
    return expm1_of_parts(x, *parts, exp_coefficients())


def log_parts(f: Term) -> tuple[Term, Term]:
    """f^2 / 2, and the rest of log(1 + f) after f - f^2 / 2."""
    s = f / (f + 2.0)
    z, half = s * s, f * f * 0.5
    end = (math.sqrt(2) - 1) / (math.sqrt(2) + 1)
    coefficients = interpolated(log_ratio_rest, 0.0, end**2, 6)
    return half, s * z.fma(z.paired_polynomial(coefficients), half)


def log_of_product(f: Term, number: Term) -> Term:
    """The logarithm of 2^number (1 + f)."""
    high, low = split(LN2, BITS)
    half, rest = log_parts(f)
    return number.fma(high, f - (half - number.fma(low, rest)))


def log(x: Term) -> Term:
    m, exponent = mantissa(x)
    return with_limits(x, log_of_product(m - 1.0, exponent.small_float()))


def log_to_base(base: int) -> Function:
    """The logarithm to another base, whose factor is applied in two parts."""
    factor, of_2 = (CONTEXT.divide(x, CONTEXT.ln(base)) for x in (Decimal(1), LN2))

    def function(x: Term) -> Term:
        m, exponent = mantissa(x)
        f, number = m - 1.0, exponent.small_float()
        half, rest = log_parts(f)
        high, low = split(factor)
        # f - half = sum + error, and its product with the factor is product + lost.
        sum = f - half
        error = (f - sum) - half
        product = sum * high
        lost = sum.fma(high, 0.0 - product)
        small = sum.fma(low, (error + rest).fma(high, lost))
        # The same for the sum of this and the exponent.
        of_2_high, of_2_low = split(of_2, BITS)
        whole = number * of_2_high
        total = whole + product
        small = small + ((whole - total) + product)
        return with_limits(x, total + number.fma(of_2_low, small))

    return function


def log2_in_parts(x: Term) -> tuple[Term, Term]:
    """
    log2 of a positive number to about 63 bits, as a sum.

    It is log2(e) log((1 + s) / (1 - s)) = log2(e) (2 s + s^3 p(s^2)), for s = f / (2 +
    f). Each value named `low` is what the one before it lacks.
    """
    m, exponent = mantissa(x)
    f, number = m - 1.0, exponent.small_float()
    sum = f + 2.0
    sum_low = f - (sum - 2.0)
    s = f / sum
    s_low = (s.fma(0.0 - sum, f) - s * sum_low) / sum
    square, square_low = product(s, s)
    square_low = (s + s).fma(s_low, square_low)
    cube, cube_low = product(s, square)
    cube_low = s.fma(square_low, s_low.fma(square, cube_low))
    end = (math.sqrt(2) - 1) / (math.sqrt(2) + 1)
    _, *rest = interpolated(log_ratio_rest, 0.0, end**2, 7)
    first, first_low = split(CONTEXT.divide(2, 3))
    rest = square * square.paired_polynomial(rest)
    p = rest + first
    p_low = (first - p) + rest + first_low
    tail, tail_low = product(cube, p)
    tail_low = cube.fma(p_low, cube_low.fma(p, tail_low))
    log = s + s + tail
    log_low = ((s + s) - log) + tail + (s_low + s_low + tail_low)
    factor, factor_low = split(CONTEXT.divide(1, LN2))
    part, part_low = product(log, x.constant(factor))
    part_low = log.fma(factor_low, log_low.fma(factor, part_low))
    total = number + part
    return total, (number - total) + part + part_low


def product(x: Term, y: Term) -> tuple[Term, Term]:
    """A product, and what it lacks."""
    high = x * y
    return high, x.fma(y, 0.0 - high)


def pow(x: Term, y: Term) -> Term:
    """2^(y log2(x)), and C's special cases."""
    size = abs(x)
    log2, log2_low = log2_in_parts(size)
    log2 = with_limits(size, log2)
    exponent, low = product(y, log2)
    low = (abs(exponent) < 1100.0).select(y.fma(log2_low, low), 0.0)
    exponent = exponent.at_most(1025.0).at_least(-1076.0)
    whole, number = exponent.nearest(bias=SCALE_BIAS)
    result = power_of_2((exponent - whole) + low, number)
    return signed_power(x, y, result)


def log1p(x: Term) -> Term:
    return log1p_by(x, lambda f, k: log_of_product(f, k.small_float()))


def tanh(x: Term) -> Term:
    size = abs(x).at_most(20.0)
    whole, number = size.nearest(2 / float(LN2), x.bias)
    r = reduced(size, whole, HALF_LN2)
    result = tanh_of_parts(r, number, of_twice(exp_coefficients()))
    # x - tanh(x) keeps its sign for these, whose cubes are negligible.
    return (size < 2.0**-28).select(size, result).copysign(x)


HALF_PI = math.pi / 2
PARTS_OF_HALF_PI = 3
SMALL = 2.0**40
"""
The largest of the angles that are reduced by products with three parts of pi.

The first of them is exact, as is its difference to the angle.
"""


@functools.cache
def half_pi() -> Sequence[float]:
    """pi / 2 as a sum of floats."""
    rest, parts = CONTEXT.divide(PI, 2), list[float]()
    for _ in range(PARTS_OF_HALF_PI):
        parts.append(float(rest))
        rest = CONTEXT.subtract(rest, Decimal(parts[-1]))
    return parts


def sine_coefficients() -> Sequence[float]:
    return interpolated(sine_ratio, 0.0, HALF_PI**2, 9)


def sin(x: Term) -> Term | None:
    if not is_small(x, SMALL):
        return None
    return small_sin(x, half_pi(), sine_coefficients())


def cos(x: Term) -> Term | None:
    if not is_small(x, SMALL):
        return None
    return small_cos(x, half_pi(), sine_coefficients())


def tan(x: Term) -> Term | None:
    if not is_small(x, SMALL):
        return None
    end = (HALF_PI / 2) ** 2
    sin, cos = (interpolated(rest, 0.0, end, 6) for rest in (sin_rest, cos_rest))
    return small_tan(x, half_pi(), sin, cos)


def erf(x: Term) -> Term:
    size = abs(x).at_most(ERF_END)
    square = size * size
    near = size * square.paired_polynomial(interpolated(erf_ratio, 0.0, ERF_NEAR, 11))
    r, number = reduced_exponent(0.0 - square, x.bias)
    power = r.paired_polynomial([1.0, 1.0, *exp_coefficients()])
    coefficients = interpolated(erfcx_at, -ERFCX_HALF, ERFCX_HALF, 14)
    at = 1.0 / (size + float(ERFCX_SHIFT)) - ERFCX_MIDDLE
    far = 1.0 - power * number.biased_power() * at.paired_polynomial(coefficients)
    return (size < ERF_NEAR).select(near, far).copysign(x)


DERIVED = DerivedMath(
    reduced_exponent,
    lambda f, k: log_of_product(f, k.small_float()),
    end=710.5,
    half_pi=split(CONTEXT.divide(PI, 2)),
    exp_rest=exp_coefficients,
    atan_rest=lambda: interpolated(atan_rest, 0.0, 1.0, 19),
    asin_rest=lambda: interpolated(asin_rest, 0.0, 1 / 4, 12),
)

FUNCTIONS: Mapping[type[Operation], PartialFunction] = {
    math_dialect.CosOp: cos,
    math_dialect.ErfOp: erf,
    math_dialect.ExpOp: exp,
    math_dialect.Exp2Op: exp2,
    math_dialect.ExpM1Op: expm1,
    math_dialect.LogOp: log,
    math_dialect.Log10Op: log_to_base(10),
    math_dialect.Log1pOp: log1p,
    math_dialect.Log2Op: log_to_base(2),
    math_dialect.PowFOp: pow,
    RemFOp: small_fmod,
    math_dialect.SinOp: sin,
    math_dialect.TanOp: tan,
    math_dialect.TanhOp: tanh,
    **DERIVED.functions,
}
"""The functions of f64, by op; those of `OF_SMALL` have no code for large arguments."""
