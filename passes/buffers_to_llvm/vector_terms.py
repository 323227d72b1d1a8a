"""
Floats and integers in functions without branches: operators on them build ops.

The parts of functions that f32 and f64 share are here, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from xdsl.dialects import llvm
from xdsl.dialects.builtin import (
    AnyFloat,
    FloatAttr,
    IntegerAttr,
    f32,
    f64,
    i32,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.hints import isa

from padc.passes.buffers_to_llvm.llvm_builder import AnyInteger, LlvmBuilder, predicate
from padc.passes.buffers_to_llvm.vector_calls import VECTOR_BYTES

ROOT_HALF = math.sqrt(0.5)

Constant: TypeAlias = "Term | float"
Function: TypeAlias = "Callable[..., Term]"
PartialFunction: TypeAlias = "Callable[..., Term | None]"
"""It returns None where it is not the code to use."""


@dataclass(frozen=True, eq=False)
class Term:
    """A float or an integer; operators on it build ops."""

    build: LlvmBuilder
    value: SSAValue

    @property
    def type(self) -> Attribute:
        return self.value.type

    @property
    def mantissa_bits(self) -> int:
        """The bits of a float of this size after the point of its mantissa."""
        return 52 if self.type in (f64, i64) else 23

    @property
    def bias(self) -> int:
        """What is added to the exponents of floats of this size."""
        return 1023 if self.type in (f64, i64) else 127

    def of(self, x: Constant) -> SSAValue:
        """A term or a constant as a value of this type."""
        if isinstance(x, Term):
            return x.value
        type = self.type
        if isinstance(type, AnyFloat):
            make = llvm.ConstantOp(FloatAttr(x, type), type)
        else:
            assert isa(type, AnyInteger)
            make = llvm.ConstantOp(IntegerAttr(int(x), type), type)
        return self.build.known((x, type), lambda: self.build.insert(make))

    def new(self, op: Operation) -> Term:
        return Term(self.build, self.build.insert(op))

    def binary(
        self,
        other: Constant,
        floats: Callable[[SSAValue, SSAValue], Operation],
        integers: Callable[[SSAValue, SSAValue], Operation],
    ) -> Term:
        op = floats if isinstance(self.type, AnyFloat) else integers
        return self.new(op(self.value, self.of(other)))

    def __add__(self, other: Constant) -> Term:
        return self.binary(other, llvm.FAddOp, llvm.AddOp)

    def __sub__(self, other: Constant) -> Term:
        return self.binary(other, llvm.FSubOp, llvm.SubOp)

    def __mul__(self, other: Constant) -> Term:
        return self.binary(other, llvm.FMulOp, llvm.MulOp)

    def __truediv__(self, other: Constant) -> Term:
        return self.binary(other, llvm.FDivOp, llvm.SDivOp)

    def __rsub__(self, other: float) -> Term:
        return Term(self.build, self.of(other)) - self

    def __rtruediv__(self, other: float) -> Term:
        return Term(self.build, self.of(other)) / self

    def __and__(self, other: Constant) -> Term:
        return self.new(llvm.AndOp(self.value, self.of(other)))

    def __or__(self, other: Constant) -> Term:
        return self.new(llvm.OrOp(self.value, self.of(other)))

    def __xor__(self, other: Constant) -> Term:
        return self.new(llvm.XOrOp(self.value, self.of(other)))

    def __lshift__(self, bits: Constant) -> Term:
        return self.new(llvm.ShlOp(self.value, self.of(bits)))

    def __rshift__(self, bits: int) -> Term:
        """Shift right, with the sign."""
        return self.new(llvm.AShrOp(self.value, self.of(bits)))

    def logical_shift(self, bits: int) -> Term:
        """Shift right, filled with zeros."""
        return self.new(llvm.LShrOp(self.value, self.of(bits)))

    def constant(self, x: float) -> Term:
        return Term(self.build, self.of(x))

    def extended_integer(self) -> Term:
        """An i32 that is not negative as an i64."""
        return self.new(llvm.ZExtOp(self.value, i64))

    def compare(self, name: str, other: Constant) -> Term:
        """A condition, by the name of its predicate for floats."""
        y = self.of(other)
        if isinstance(self.type, AnyFloat):
            return self.new(llvm.FCmpOp(self.value, y, name))
        return self.new(llvm.ICmpOp(self.value, y, predicate(f"s{name[1:]}")))

    def __lt__(self, other: Constant) -> Term:
        return self.compare("olt", other)

    def __gt__(self, other: Constant) -> Term:
        return self.compare("ogt", other)

    def equals(self, other: Constant) -> Term:
        if not isinstance(self.type, AnyFloat):
            return self.new(llvm.ICmpOp(self.value, self.of(other), predicate("eq")))
        return self.compare("oeq", other)

    def select(self, yes: Constant, no: Constant) -> Term:
        """`yes` if this condition is true, else `no`; one of them is a term."""
        typed = yes if isinstance(yes, Term) else no
        assert isinstance(typed, Term)
        return self.new(llvm.SelectOp(self.value, typed.of(yes), typed.of(no)))

    def fma(self, factor: Constant, summand: Constant) -> Term:
        """`self * factor + summand`, rounded once."""
        return self.new(llvm.FMAOp(self.value, self.of(factor), self.of(summand)))

    def polynomial(self, coefficients: Sequence[float]) -> Term:
        """
        The polynomial with these coefficients, from x^0 on.

        By Horner's scheme, which takes the fewest ops. They wait for each other, but
        a CPU computes several steps of a loop at once.
        """
        *rest, result = coefficients
        total: Constant = result
        for coefficient in reversed(rest):
            total = self.fma(total, coefficient)
        assert isinstance(total, Term)
        return total

    def paired_polynomial(self, coefficients: Sequence[Constant]) -> Term:
        """
        The same by Horner's scheme in x^2, whose steps take two coefficients.

        It is half as long a chain for one more op, which pays in long functions: a CPU
        holds fewer steps of their loops at once.
        """
        pairs = [
            self.fma(high, low)
            for low, high in zip(coefficients[::2], coefficients[1::2], strict=False)
        ]
        square = self * self
        total: Constant = coefficients[-1] if len(coefficients) % 2 else pairs.pop()
        for pair in reversed(pairs):
            total = square.fma(total, pair)
        assert isinstance(total, Term)
        return total

    def intrinsic(self, name: str, *others: Term) -> Term:
        suffix = "f64" if self.type == f64 else "f32"
        args = [self.value, *(each.value for each in others)]
        call = llvm.CallIntrinsicOp(f"llvm.{name}.{suffix}", args, [self.type])
        return self.new(call)

    def __abs__(self) -> Term:
        return self.intrinsic("fabs")

    def copysign(self, sign: Term) -> Term:
        return self.intrinsic("copysign", sign)

    def at_most(self, bound: float) -> Term:
        """NaN stays NaN."""
        return (self > bound).select(bound, self)

    def at_least(self, bound: float) -> Term:
        return (self < bound).select(bound, self)

    def bits(self) -> Term:
        """The bits of a float as an integer."""
        to = i64 if self.type == f64 else i32
        return self.new(llvm.BitcastOp(self.value, to))

    def float(self) -> Term:
        """The float with these bits."""
        to = f64 if self.type == i64 else f32
        return self.new(llvm.BitcastOp(self.value, to))

    def to_float(self) -> Term:
        to = f64 if self.type == i64 else f32
        return self.new(llvm.SIToFPOp(self.value, to))

    def small_float(self) -> Term:
        """An i64 of 20 bits as an f64, without the instruction that few CPUs have."""
        large = 1.5 * 2.0**52
        return (self + int_bits(large, f64)).float() - large

    def extended(self) -> Term:
        """An f32 as an f64."""
        return self.new(llvm.FPExtOp(self.value, f64))

    def truncated(self) -> Term:
        """An f64 as an f32."""
        return self.new(llvm.FPTruncOp(self.value, f32))

    def nearest(self, factor: float = 1.0, bias: int = 0) -> tuple[Term, Term]:
        """
        The integer nearest to `self * factor` as a float; plus `bias`, as an integer.

        It has 20 bits at most: adding 1.5 times 2 to the number of mantissa bits leaves
        it in the low bits.
        """
        large = 1.5 * 2.0**self.mantissa_bits
        shifted = self.fma(factor, large + bias)
        return shifted - (large + bias), shifted.bits() - int_bits(large, self.type)

    def nearest_part(self, parts: int, factor: float = 1.0) -> tuple[Term, Term]:
        """
        The multiple of 1 / `parts` nearest to `self * factor`, of 20 bits at most.

        Also a float whose last bits tell which one: see `vector_calls`.
        """
        large = 1.5 * 2.0**23 / parts
        shifted = self.fma(factor, large)
        return shifted - large, shifted

    @property
    def has_instructions(self) -> bool:
        """Whether the CPU has the instructions of `vector_calls`."""
        return self.build.vector_bytes >= VECTOR_BYTES

    def call(self, name: str, *others: Term) -> Term:
        """A function of `vector_calls`."""
        args = [self.value, *(other.value for other in others)]
        return self.new(llvm.CallOp(name, *args, return_type=f32))

    def biased_power(self) -> Term:
        """2 to the power of this integer minus the bias of the type's exponents."""
        return (self << self.mantissa_bits).float()

    def power(self) -> Term:
        """2 to the power of this integer, if that is a normal number."""
        return (self + self.bias).biased_power()


def int_bits(x: float, type: Attribute) -> int:
    """The bits of a constant of `type`."""
    if type == f64:
        return int(np.float64(x).view(np.int64))
    return int(np.float32(x).view(np.int32))


def high_part(x: float, bits: int) -> float:
    """The first `bits` bits of `x`."""
    scale = 2.0 ** (bits - math.frexp(x)[1])
    return math.floor(x * scale) / scale


def mantissa(x: Term) -> tuple[Term, Term]:
    """`m` between sqrt(1/2) and sqrt(2), and the integer `k`, with x = 2^k m."""
    bits, least = x.mantissa_bits, int_bits(ROOT_HALF, x.type)
    is_small = x < 2.0 ** (1 - x.bias)
    # The difference to sqrt(1/2) has the exponent in its upper bits.
    above = is_small.select(x * 2.0**bits, x).bits() - least
    exponent = above >> bits
    m = ((above & (2**bits - 1)) + least).float()
    return m, is_small.select(exponent - bits, exponent)


def with_limits(x: Term, result: Term) -> Term:
    """`result`, except for 0 and infinity; NaN for NaN and below 0."""
    result = x.equals(math.inf).select(math.inf, result)
    result = x.equals(0.0).select(-math.inf, result)
    return x.compare("ult", 0.0).select(math.nan, result)


def scaled_power(x: Term, number: Term) -> Term:
    """
    `x` times 2^(i - bias) and 2^(j - bias), where i and j are the halves of `number`.

    The result is rounded once, also if it underflows.
    """
    bits = x.mantissa_bits
    high = (number << (bits - 1)) & -(1 << bits)
    low = (number << bits) - high
    return x * high.float() * low.float()


def signed_power(x: Term, y: Term, result: Term) -> Term:
    """x to the power of y for that of abs(x), with C's special cases."""
    result = abs(x).equals(1.0).select(1.0, result)
    result = y.compare("uno", y).select(math.nan, result)
    is_whole = y.equals(y.intrinsic("trunc"))
    half = y * 0.5
    is_odd = is_whole & half.compare("one", half.intrinsic("trunc"))
    result = is_odd.select(result.copysign(x), result)
    is_undefined = (x < 0.0) & (x > -math.inf) & (is_whole ^ True)
    result = is_undefined.select(math.nan, result)
    is_1 = x.equals(1.0) | y.equals(0.0)
    return is_1.select(1.0, result)


def expm1_of_parts(
    x: Term, r: Term, number: Term, coefficients: Sequence[float]
) -> Term:
    """
    exp(x) - 1 for x = n log(2) + r and `number` = n + bias - 1.

    The coefficients are those of (exp(r) - 1 - r) / r^2. The result is 2^n (exp(r) - 1)
    + (2^n - 1), halved so that 2^n does not overflow.
    """
    rest = (r * r).fma(r.paired_polynomial(coefficients), r)
    half = number.biased_power()
    result = half.fma(rest, half - 0.5) * 2.0
    # Halving would lose the last bit of a denormal number.
    is_near = number.equals(x.bias - 1)
    return is_near.select(rest, result).copysign(x)


def log1p_by(x: Term, log: Callable[[Term, Term], Term]) -> Term:
    """
    log(1 + x), where `log` is the logarithm of 2^k (1 + f) for f and an integer k.

    It is that of u = 1 + x, whose rounding error is added to its mantissa.
    """
    u = x + 1.0
    added = u - 1.0
    error = (x - added) + (1.0 - (u - added))
    m, exponent = mantissa(u)
    # The error is negligible if the exponent is large.
    scale = (0 - (exponent > 60).select(60, exponent)).power()
    result = log(error.fma(scale, m - 1.0), exponent)
    return with_limits(u, result).copysign(x)


def tanh_of_parts(r: Term, number: Term, coefficients: Sequence[float]) -> Term:
    """
    t / (t + 1), for 2 t = exp(2 x) - 1, x = n log(2) / 2 + r and `number` = n + bias.

    The coefficients are those of `of_twice`.
    """
    power = number.biased_power()
    rest = (r * r).fma(r.paired_polynomial(coefficients), r)
    t = power.fma(rest, power.fma(0.5, -0.5))
    return t / (t + 1.0)


def of_twice(coefficients: Sequence[float]) -> Sequence[float]:
    """The coefficients of 2 p(2 x), from those of p(x)."""
    return [2.0 ** (k + 1) * c for k, c in enumerate(coefficients)]


def is_small(x: Term, largest: float) -> bool:
    """
    Whether the code is for arguments up to `largest` only.

    That code is only run if none is larger: see `LlvmBuilder.large_arguments`.
    """
    if (large := x.build.large_arguments) is None:
        return False
    large.append((abs(x) > largest).value)
    return True


def small_fmod(x: Term, y: Term) -> Term | None:
    """
    The remainder of x / y, with the sign of x, if the quotient is small.

    It is exact, as is each step: the remainder is a multiple of the last place of x or
    y, and smaller than y.
    """
    size, divisor = abs(x), abs(y)
    ratio = size / divisor
    if not is_small(ratio, 2.0 ** (x.mantissa_bits - 2)):
        return None
    rest = ratio.intrinsic("trunc").fma(0.0 - divisor, size)
    # The quotient may have been rounded up to a whole number.
    rest = (rest < 0.0).select(rest + divisor, rest)
    # Also for infinite divisors.
    return (size < divisor).select(size, rest).copysign(x)


def small_sin(x: Term, half_pi: Sequence[float], sine: Sequence[float]) -> Term:
    """
    sin(x) of a small angle: x = n pi + r.

    `half_pi` are parts of pi / 2, `sine` the coefficients of sin(r) / r of r^2.
    """
    whole, number = x.nearest(1 / math.pi)
    # -0 keeps its sign.
    result = signed_sine(x, whole, number, [2.0 * part for part in half_pi], sine)
    return x.equals(0.0).select(x, result)


def small_cos(x: Term, half_pi: Sequence[float], sine: Sequence[float]) -> Term:
    """The same of cos(x): x = (2 n + 1) pi / 2 + r, so it is sin(r) or -sin(r)."""
    whole, number = x.fma(1 / math.pi, -0.5).nearest()
    return signed_sine(x, whole.fma(2.0, 1.0), number + 1, half_pi, sine)


def small_tan(
    x: Term, half_pi: Sequence[float], sin: Sequence[float], cos: Sequence[float]
) -> Term:
    """The same of tan(x): x = n pi / 2 + r, with the coefficients of `tangent`."""
    whole, number = x.nearest(2 / math.pi)
    return tangent(x, difference(x, whole, half_pi), number, sin, cos)


def tangent(
    x: Term, r: Term, number: Term, sin: Sequence[float], cos: Sequence[float]
) -> Term:
    """
    tan(x), for x = number pi / 2 + r.

    The coefficients are those of `sin_of_rest` and `cos_of_rest`.
    """
    sine, cosine = sin_of_rest(r, sin), cos_of_rest(r, cos)
    is_odd = (number & 1).equals(1)
    above = is_odd.select(0.0 - cosine, sine)
    below = is_odd.select(sine, cosine)
    # -0 keeps its sign.
    return x.equals(0.0).select(x, above / below)


def sin_of_rest(r: Term, coefficients: Sequence[float]) -> Term:
    """sin(r), with the coefficients of (sin(r) / r - 1) / r^2 of r^2."""
    square = r * r
    return r.fma(square * square.polynomial(coefficients), r)


def cos_of_rest(r: Term, coefficients: Sequence[float]) -> Term:
    """cos(r), with the coefficients of (cos(r) - 1 + r^2 / 2) / r^4 of r^2."""
    square = r * r
    rest = square.polynomial(coefficients)
    return (square * square).fma(rest, square.fma(-0.5, 1.0))


def signed_sine(
    x: Term,
    whole: Term,
    number: Term,
    period: Sequence[float],
    coefficients: Sequence[float],
) -> Term:
    """(-1)^number sin(r), for r = x - whole * period, which is a sum."""
    r = difference(x, whole, period)
    result = r * (r * r).polynomial(coefficients)
    sign = 63 if x.type == f64 else 31
    return (result.bits() ^ (number << sign)).float()


def difference(x: Term, whole: Term, period: Sequence[float]) -> Term:
    """x - whole * period, which is a sum."""
    r = x
    for part in period:
        r = whole.fma(-part, r)
    return r
