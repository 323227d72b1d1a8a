"""
Functions of f32 as straight-line code, which LLVM vectorizes in loops.

There are no branches, and no calls that do not become an instruction (`vector_calls`):
a select chooses between the cases. Functions of angles have code for small ones, too,
and remainders for small quotients only: see `LoopNest.of_small`. Over all floats, f32
results are within 2 ulp (exp, exp2 and logarithms) or 4 ulp (the rest) of the exact
ones (test/backends/native/test_vector_math.py); remainders are exact.

The methods are the classical ones: W. J. Cody and W. Waite, "Software Manual for the
Elementary Functions" (1980), and J.-M. Muller, "Elementary Functions" (3rd edition,
2016). An argument is reduced exactly to a short interval, where a polynomial is
evaluated. `interpolated` derives the polynomials: they interpolate a series of the
function at Chebyshev's nodes, which comes close to the best polynomial.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

import numpy as np
from numpy.polynomial import chebyshev
from xdsl.dialects import arith
from xdsl.dialects import math as math_dialect
from xdsl.dialects.builtin import f32, f64
from xdsl.ir import Operation, OpResult, SSAValue

from padc.ir.arith import NOT_POSITIVE, RemFOp
from padc.passes.buffers_to_llvm import double_math
from padc.passes.buffers_to_llvm.derived_math import DerivedMath
from padc.passes.buffers_to_llvm.llvm_builder import LlvmBuilder
from padc.passes.buffers_to_llvm.vector_calls import (
    ERF,
    ERF_PARTS,
    EXPONENT,
    LANES,
    MANTISSA,
    ROOT,
    ROOTS,
    SCALED,
)
from padc.passes.buffers_to_llvm.vector_terms import (
    ROOT_HALF,
    Constant,
    Function,
    PartialFunction,
    Term,
    cos_of_rest,
    expm1_of_parts,
    high_part,
    int_bits,
    is_small,
    log1p_by,
    mantissa,
    of_twice,
    scaled_power,
    signed_power,
    sin_of_rest,
    small_cos,
    small_fmod,
    small_sin,
    small_tan,
    tangent,
    tanh_of_parts,
    with_limits,
)

LN2 = math.log(2)


@functools.cache
def interpolated(
    function: Callable[[float], float], low: float, high: float, degree: int
) -> Sequence[float]:
    """The coefficients, from x^0 on, of a polynomial close to `function`."""
    middle, half = (low + high) / 2, (high - low) / 2
    nodes = chebyshev.chebpts1(degree + 1)
    values = [function(middle + half * float(x)) for x in nodes]
    series = chebyshev.Chebyshev.fit(
        middle + half * nodes, values, degree, domain=[low, high]
    )
    return [float(c) for c in series.convert(kind=np.polynomial.Polynomial).coef]


def fitted(
    function: Callable[[float], float],
    weight: Callable[[float], float],
    low: float,
    high: float,
    degree: int,
) -> Sequence[float]:
    """The coefficients, from x^0 on, with the least sum of squared weighted errors."""
    xs = (low + high) / 2 + (high - low) / 2 * chebyshev.chebpts1(200)
    values, weights = ([f(float(x)) for x in xs] for f in (function, weight))
    series = chebyshev.Chebyshev.fit(
        xs, values, degree, domain=[low, high], w=np.array(weights)
    )
    return [float(c) for c in series.convert(kind=np.polynomial.Polynomial).coef]


def exp_rest(x: float) -> float:
    """(exp(x) - 1 - x) / x^2, by its series."""
    return math.fsum(x**k / math.factorial(k + 2) for k in range(20))


def log_rest(x: float) -> float:
    """(log(1 + x) - x) / x^2, by its series."""
    return -math.fsum((-x) ** k / (k + 2) for k in range(80))


def exp2_rest(x: float) -> float:
    """(2^x - 1) / x, by its series."""
    return math.fsum(LN2 ** (k + 1) * x**k / math.factorial(k + 1) for k in range(25))


def atanh_rest(x: float) -> float:
    """log2((1 + s) / (1 - s)) / s of x = s^2, by its series."""
    return math.fsum(2 / LN2 * x**k / (2 * k + 1) for k in range(40))


def erf_exponent(x: float) -> float:
    """-log2(1 - erf(x)) / x."""
    # Each of the two is accurate where it is used.
    rest = math.log1p(-math.erf(x)) if x < 1 else math.log(math.erfc(x))
    return -rest / LN2 / x


def erf_ratio(x: float) -> float:
    """erf(x) / x."""
    return math.erf(x) / x if x else 2 / math.sqrt(math.pi)


def sin_rest(x: float) -> float:
    """(sin(r) / r - 1) / r^2 of x = r^2, by its series."""
    return -math.fsum((-x) ** k / math.factorial(2 * k + 3) for k in range(12))


def cos_rest(x: float) -> float:
    """(cos(r) - 1 + r^2 / 2) / r^4 of x = r^2, by its series."""
    return math.fsum((-x) ** k / math.factorial(2 * k + 4) for k in range(12))


def atan_rest(x: float) -> float:
    """(atan(s) / s - 1) / s^2 of x = s^2."""
    s = math.sqrt(x)
    return (math.atan(s) / s - 1) / x


def asin_rest(x: float) -> float:
    """(asin(s) / s - 1) / s^2 of x = s^2."""
    s = math.sqrt(x)
    return (math.asin(s) / s - 1) / x


def sine_ratio(x: float) -> float:
    """sin(r) / r of x = r^2, by its series."""
    return math.fsum((-x) ** k / math.factorial(2 * k + 1) for k in range(12))


def inverse_tangent(divisor: int, scale: int) -> int:
    """`scale` times the arc tangent of 1 / `divisor`, by its series, rounded down."""
    total, power, k = 0, scale // divisor, 0
    while power:
        total += (-1) ** k * (power // (2 * k + 1))
        power, k = power // divisor**2, k + 1
    return total


def fixed_pi(bits: int) -> int:
    """2^bits times pi, by Machin's formula, rounded."""
    scale = 2 ** (bits + 32)
    pi = 16 * inverse_tangent(5, scale) - 4 * inverse_tangent(239, scale)
    return (pi + 2**31) >> 32


def parts_of(number: int, bits: int, count: int) -> Sequence[float]:
    """`count` f32 whose sum is close to `number` / 2^bits."""
    parts: list[float] = []
    for _ in range(count):
        parts.append(float(np.float32(number / 2**bits)))
        number -= int(Fraction(parts[-1]) * 2**bits)
    return parts


EXP = interpolated(exp_rest, -LN2 / 2, LN2 / 2, 4)
EXP2 = interpolated(exp2_rest, -0.5, 0.5, 5)
EXP_SHORT = interpolated(exp_rest, -LN2 / 2 / ROOTS, LN2 / 2 / ROOTS, 1)
EXP2_SHORT = interpolated(exp2_rest, -0.5 / ROOTS, 0.5 / ROOTS, 2)
# The rest is multiplied by x^2, and the logarithm is about x.
LOG = fitted(log_rest, abs, ROOT_HALF - 1, 2 * ROOT_HALF - 1, 8)
LOG_OF_MANTISSA = fitted(log_rest, abs, -1 / 4, 1 / 2, 8)
LN2_HIGH = high_part(LN2, 12)
"""Multiples of this by small integers are exact in f32."""

SCALE, SCALE_BIAS = 2.0**101, 153
"""
2^n = SCALE * 2^(i - 127) * 2^(j - 127) where i + j = n + SCALE_BIAS.

i and j are half of that each, between 1 and 141 for n from -151 to 129.
"""


def reduced_exponent(x: Term, bias: int) -> tuple[Term, Term]:
    """`r` and n + bias with x = n log(2) + r, and abs(r) at most about log(2) / 2."""
    whole, number = x.nearest(1 / LN2, bias)
    return reduced(x, whole), number


def reduced(x: Term, whole: Term, period: float = LN2) -> Term:
    """x - whole * period; the first product is exact."""
    high = high_part(period, 12)
    return whole.fma(high - period, whole.fma(-high, x))


def exp(x: Term) -> Term:
    x = x.at_most(89.0).at_least(-104.0)
    if x.has_instructions:
        return exp_by_root(x)
    r, number = reduced_exponent(x, SCALE_BIAS)
    power = r.polynomial([SCALE * c for c in (1.0, 1.0, *EXP)])
    return scaled_power(power, number)


DECAY_SCALE = 2.0**24
"""2^n / DECAY_SCALE is normal for the largest n for which exp(x) underflows to 0."""


def decay(x: Term) -> Term:
    """exp(x) for x at most 0: one factor has all of its exponents."""
    x = x.at_least(-104.0)
    if x.has_instructions:
        return exp_by_root(x)
    r, number = reduced_exponent(x, 127 + 24)
    power = r.polynomial([c / DECAY_SCALE for c in (1.0, 1.0, *EXP)])
    return power * number.biased_power()


def exp2(x: Term) -> Term:
    x = x.at_most(129.0).at_least(-151.0)
    if x.has_instructions:
        whole, shifted = x.nearest_part(ROOTS)
        return power_by_root(x - whole, whole, shifted, EXP2_SHORT)
    whole, number = x.nearest(bias=SCALE_BIAS)
    power = (x - whole).polynomial([SCALE * c for c in (1.0, *EXP2)])
    return scaled_power(power, number)


def exp_by_root(x: Term) -> Term:
    whole, shifted = x.nearest_part(ROOTS, 1 / LN2)
    return power_by_root(reduced(x, whole), whole, shifted, [1.0, *EXP_SHORT])


def power_by_root(
    r: Term, whole: Term, shifted: Term, coefficients: Sequence[float]
) -> Term:
    """2^whole (1 + r p(r)), for the results of `nearest_part` and a polynomial p."""
    root = shifted.call(ROOT)
    power = (root * r).fma(r.polynomial(coefficients), root)
    return power.call(SCALED, whole)


def expm1(x: Term) -> Term:
    parts = reduced_exponent(x.at_most(89.0).at_least(-50.0), x.bias - 1)
    return expm1_of_parts(x, *parts, EXP)


def with_limits_of_log(x: Term, result: Term) -> Term:
    """`with_limits`, for a result of `parts_for_log`."""
    return result if x.has_instructions else with_limits(x, result)


def log_of_product(f: Term, number: Term, rest: Sequence[float] = LOG) -> Term:
    """The logarithm of 2^number (1 + f); `rest` are the coefficients of `log_rest`."""
    low = number.fma(LN2 - LN2_HIGH, (f * f) * f.paired_polynomial(rest))
    return number.fma(LN2_HIGH, low + f)


def parts_for_log(x: Term) -> tuple[Term, Term, Sequence[float]]:
    """
    `f` and `k`, a float, with x = 2^k (1 + f), and the coefficients of `log_rest`.

    If the CPU has instructions for them, k is -inf for 0, inf for inf, and f is NaN for
    NaN and below 0.
    """
    if x.has_instructions:
        f, exponent = x.call(MANTISSA) - 1.0, x.call(EXPONENT)
        return f, (f < 0.0).select(exponent + 1.0, exponent), LOG_OF_MANTISSA
    m, exponent = mantissa(x)
    return m - 1.0, exponent.to_float(), LOG


def log(x: Term) -> Term:
    return with_limits_of_log(x, log_of_product(*parts_for_log(x)))


def log_to_base(base: float) -> Function:
    """The logarithm to another base, whose factor is applied in two parts."""
    factor, of_2 = 1 / math.log(base), LN2 / math.log(base)
    high = high_part(of_2, 12)
    factor_high = float(np.float32(factor))

    def function(x: Term) -> Term:
        f, number, coefficients = parts_for_log(x)
        rest = (f * f) * f.paired_polynomial(coefficients)
        product = f * factor_high
        low = f.fma(factor_high, 0.0 - product)
        low = f.fma(factor - factor_high, low)
        low = rest.fma(factor, low)
        if of_2 != high:
            low = number.fma(of_2 - high, low)
        return with_limits_of_log(x, number.fma(high, low + product))

    return function


def log1p(x: Term) -> Term:
    return log1p_by(x, lambda f, k: log_of_product(f, k.to_float()))


TANH = of_twice(EXP)


def tanh(x: Term) -> Term:
    size = abs(x).at_most(10.0)
    whole, number = size.nearest(2 / LN2, 127)
    r = reduced(size, whole, LN2 / 2)
    return tanh_of_parts(r, number, TANH).copysign(x)


ERF_END = 4.0
# 1 - 2^-y depends on y the less, the larger y is.
ERF_EXPONENT = fitted(erf_exponent, math.erfc, 0, ERF_END, 7)


def erf(x: Term) -> Term:
    """1 - 2^-y = (1 - 2^n) + 2^n (1 - 2^r), for y = -log2(1 - erf(x))."""
    if x.has_instructions:
        return erf_by_parts(x)
    size = abs(x).at_most(ERF_END)
    y = size * size.paired_polynomial([-c for c in ERF_EXPONENT])
    whole, number = y.nearest(bias=127)
    r, power = y - whole, number.biased_power()
    rest = r * r.paired_polynomial([-c for c in EXP2])
    return power.fma(rest, 1.0 - power).copysign(x)


NEAR_1 = (LANES - 0.55) / ERF_PARTS
"""In the last of the parts of `ERF`; beyond it the result is 1."""


def erf_by_parts(x: Term) -> Term:
    """x p(t), for the multiple of 1 / `ERF_PARTS` that is nearest, and the rest t."""
    size = abs(x).at_most(NEAR_1)
    whole, shifted = size.nearest_part(ERF_PARTS)
    t, coefficients = size - whole, [shifted.call(name) for name in ERF]
    return (size * t.paired_polynomial(coefficients)).at_most(1.0).copysign(x)


def erf_tables() -> Sequence[Sequence[float]]:
    """For each of `ERF`, the coefficient near each multiple of 1 / `ERF_PARTS`."""
    half, power = 0.5 / ERF_PARTS, len(ERF) - 1

    def near(at: float) -> Sequence[float]:
        def ratio(t: float) -> float:
            return erf_ratio(at + t)

        return interpolated(ratio, -half, half, power)

    return [*zip(*(near(i / ERF_PARTS) for i in range(LANES)), strict=True)]


ATANH = interpolated(atanh_rest, 0, ((1 - ROOT_HALF) / (1 + ROOT_HALF)) ** 2, 7)
EXP2_DOUBLE = interpolated(exp2_rest, -0.5, 0.5, 10)


def log2_double(x: Term) -> Term:
    """log2 of a positive f64 to about 40 bits: k + log2((1 + s) / (1 - s))."""
    above = x.bits() - int_bits(ROOT_HALF, f64)
    exponent = above >> 52
    m = ((above & (2**52 - 1)) + int_bits(ROOT_HALF, f64)).float()
    s = (m - 1.0) / (m + 1.0)
    return s.fma((s * s).paired_polynomial(ATANH), exponent.small_float())


def pow(x: Term, y: Term) -> Term:
    """2^(y log2(x)), in f64, and C's special cases."""
    size = abs(x)
    log2 = with_limits(size, log2_double(size.extended()))
    product = (y.extended() * log2).at_most(200.0).at_least(-200.0)
    whole, number = product.nearest()
    r = product - whole
    result = r.fma(r.paired_polynomial(EXP2_DOUBLE), 1.0) * number.power()
    return signed_power(x, y, result.truncated())


PI_BITS = 300
HALF_PI = math.pi / 2
HALF_PI_LOW = (fixed_pi(PI_BITS) - int(math.pi * 2**PI_BITS)) / 2 ** (PI_BITS + 1)
"""The part of pi / 2 that the f64 `HALF_PI` lacks."""
WORDS = tuple(
    (2 ** (PI_BITS + 225) // fixed_pi(PI_BITS)) >> (224 - 32 * i) & (2**32 - 1)
    for i in range(1, 8)
)
"""The bits of 2 / pi after the point, 32 in each."""
HUGE = 2.0**45
SIN = interpolated(sin_rest, 0, (HALF_PI / 2) ** 2, 3)
COS = interpolated(cos_rest, 0, (HALF_PI / 2) ** 2, 3)


def quadrant(x: Term) -> tuple[Term, Term]:
    """`r` and `n`, an i64, with x = n pi / 2 + r, up to multiples of 2 pi."""
    wide = x.extended()
    whole, number = (wide * (1 / HALF_PI)).nearest()
    r = whole.fma(-HALF_PI_LOW, whole.fma(-HALF_PI, wide))
    huge_r, huge_number = quadrant_of_huge(x)
    is_huge = abs(x) > HUGE
    return is_huge.select(huge_r, r).truncated(), is_huge.select(huge_number, number)


def quadrant_of_huge(x: Term) -> tuple[Term, Term]:
    """
    The same for x = m 2^e with abs(x) at least `HUGE`, in integers.

    Bits of 2 / pi whose product with x is a multiple of 4 are left out: the result has
    the 64 bits after them. Source: M. Payne and R. Hanek, "Radian reduction for
    trigonometric functions" (SIGNUM Newsletter 18, 1983).
    """
    bits = x.bits()
    exponent = ((bits >> 23) & 0xFF).extended_integer()
    m = ((bits & 0x7FFFFF) | 0x800000).extended_integer()
    first = exponent - 152
    word, shift = first >> 5, first & 31
    words: list[Term] = []
    for i in range(4):
        chosen: Constant = WORDS[i + 3]
        for j in reversed(range(3)):
            chosen = word.equals(j).select(first.constant(WORDS[i + j]), chosen)
        assert isinstance(chosen, Term)
        words.append(chosen)
    high, middle, low = (
        (((a << 32) | b) << shift).logical_shift(32)
        for a, b in itertools.pairwise(words)
    )
    product = ((m * high) << 32) + m * middle + (m * low).logical_shift(32)
    number = (product + 2**61).logical_shift(62)
    rest = product - (number << 62)
    r = rest.to_float() * (HALF_PI / 2**62)
    is_below = bits < 0
    return is_below.select(0.0 - r, r), is_below.select(0 - number, number)


SMALL = 2.0**20
"""The largest of the angles that are reduced in f32."""
SINE = interpolated(sine_ratio, 0, HALF_PI**2, 4)
HALF_PI_PARTS = parts_of(fixed_pi(PI_BITS), PI_BITS + 1, 3)
"""pi / 2 as a sum of f32."""


def sine(x: Term, quarters: int) -> Term:
    """sin(x + quarters pi / 2)."""
    r, number = quadrant(x)
    number = number + quarters
    sin = sin_of_rest(r, SIN)
    cos = cos_of_rest(r, COS)
    is_odd = (number & 1).equals(1)
    result = is_odd.select(cos, sin)
    result = (number & 2).equals(2).select(0.0 - result, result)
    return (abs(x) < math.inf).select(result, math.nan)


def any_sin(x: Term) -> Term:
    # -0 keeps its sign.
    return x.equals(0.0).select(x, sine(x, 0))


def any_cos(x: Term) -> Term:
    return sine(x, 1)


def tan(x: Term) -> Term:
    if is_small(x, SMALL):
        return small_tan(x, HALF_PI_PARTS, SIN, COS)
    r, number = quadrant(x)
    result = tangent(x, r, number, SIN, COS)
    return (abs(x) < math.inf).select(result, math.nan)


def sin(x: Term) -> Term:
    if is_small(x, SMALL):
        return small_sin(x, HALF_PI_PARTS, SINE)
    return any_sin(x)


def cos(x: Term) -> Term:
    if is_small(x, SMALL):
        return small_cos(x, HALF_PI_PARTS, SINE)
    return any_cos(x)


OF_SMALL = (math_dialect.CosOp, math_dialect.SinOp, math_dialect.TanOp, RemFOp)
"""The functions that have code for small arguments: see `is_small`."""

TABLES: Mapping[str, Sequence[float]] = {
    ROOT: [2.0 ** (i / ROOTS) for i in range(ROOTS)],
    **dict(zip(ERF, erf_tables(), strict=True)),
}
"""What the functions of `vector_calls` return that have tables."""

ATAN = interpolated(atan_rest, 0, 1, 8)
ASIN = interpolated(asin_rest, 0, 1 / 4, 5)
DERIVED = DerivedMath(
    reduced_exponent,
    lambda f, k: log_of_product(f, k.to_float()),
    end=89.5,
    half_pi=(HALF_PI_PARTS[0], HALF_PI_PARTS[1]),
    exp_rest=lambda: EXP,
    atan_rest=lambda: ATAN,
    asin_rest=lambda: ASIN,
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
"""The functions of f32, by op."""


def is_not_positive(op: Operation) -> bool:
    """Whether the operand is known to be at most 0, or NaN."""
    match op.operands[0].owner:
        case arith.NegfOp(operand=OpResult(op=math_dialect.AbsFOp())):
            return True
        case _:
            return NOT_POSITIVE in op.attributes


def vector_function(
    build: LlvmBuilder, op: Operation, args: Sequence[SSAValue]
) -> SSAValue | None:
    """A function of f32 or f64 as straight-line code; None for others."""
    if args[0].type == f32:
        function = FUNCTIONS.get(type(op))
    elif args[0].type == f64:
        function = double_math.FUNCTIONS.get(type(op))
    else:
        return None
    if function is None:
        return None
    if function is exp and is_not_positive(op):
        function = decay
    result = function(*(Term(build, x) for x in args))
    return None if result is None else result.value
