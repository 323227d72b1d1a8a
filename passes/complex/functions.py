"""Functions of complex tensors."""

from __future__ import annotations

import math
from collections.abc import Callable

from padc.passes.complex.complex_call import ComplexCall, row
from padc.passes.complex.numbers import Complex, RealTensor


def times_i(z: Complex) -> Complex:
    return Complex(-z.imaginary, z.real)


def over_i(z: Complex) -> Complex:
    return Complex(z.imaginary, -z.real)


def sin(z: Complex) -> Complex:
    a, b = z.real, z.imaginary
    return Complex(a.unary("sin") * b.unary("cosh"), a.unary("cos") * b.unary("sinh"))


def cos(z: Complex) -> Complex:
    a, b = z.real, z.imaginary
    return Complex(
        a.unary("cos") * b.unary("cosh"), -(a.unary("sin") * b.unary("sinh"))
    )


def sinh(z: Complex) -> Complex:
    a, b = z.real, z.imaginary
    return Complex(a.unary("sinh") * b.unary("cos"), a.unary("cosh") * b.unary("sin"))


def cosh(z: Complex) -> Complex:
    a, b = z.real, z.imaginary
    return Complex(a.unary("cosh") * b.unary("cos"), a.unary("sinh") * b.unary("sin"))


def tanh(z: Complex) -> Complex:
    """(t + i tan b) / (1 + i t tan b) with t = tanh a, times cos b: no overflow."""
    t, b = z.real.unary("tanh"), z.imaginary
    c, s = b.unary("cos"), b.unary("sin")
    return Complex(t * c, s) / Complex(c, t * s)


def tan(z: Complex) -> Complex:
    return over_i(tanh(times_i(z)))


def reciprocal(z: Complex) -> Complex:
    return Complex(z.real.unary("ones_like")) / z


def rsqrt(z: Complex) -> Complex:
    return reciprocal(z.sqrt())


def expm1(z: Complex) -> Complex:
    """Exact near 0: cos b - 1 is -2 sin(b / 2)^2."""
    a, b = z.real, z.imaginary
    half = (b * 0.5).unary("sin")
    real = a.unary("expm1") * b.unary("cos") - half * half * 2.0
    return Complex(real, a.unary("exp") * b.unary("sin"))


def log1p(z: Complex) -> Complex:
    """Exact near 0: |1 + z|^2 is 1 + a (a + 2) + b^2."""
    whole = (z + 1.0).log()
    a, b = z.real, z.imaginary
    is_small = a.unary("abs").binary("maximum", b.unary("abs")).binary("lt", 0.5)
    exact = (a * (a + 2.0) + b * b).unary("log1p") * 0.5
    return Complex(is_small.select(exact, whole.real), whole.imag)


# The inverses of W. Kahan, "Branch cuts for complex elementary functions", 1987.


def asin(z: Complex) -> Complex:
    low, high = (-z + 1.0).sqrt(), (z + 1.0).sqrt()
    product = low.conj() * high
    real = z.real.binary("atan2", (low * high).real)
    return Complex(real, product.imaginary.unary("asinh"))


def acos(z: Complex) -> Complex:
    low, high = (-z + 1.0).sqrt(), (z + 1.0).sqrt()
    real = low.real.binary("atan2", high.real) * 2.0
    return Complex(real, (high.conj() * low).imaginary.unary("asinh"))


def acosh(z: Complex) -> Complex:
    low, high = (z - 1.0).sqrt(), (z + 1.0).sqrt()
    imag = low.imaginary.binary("atan2", high.real) * 2.0
    return Complex((low.conj() * high).real.unary("asinh"), imag)


def asinh(z: Complex) -> Complex:
    return over_i(asin(times_i(z)))


def atanh(z: Complex) -> Complex:
    a, b = z.real, z.imaginary
    low, high, size = -a + 1.0, a + 1.0, a.unary("abs")
    near = size - 1.0
    real = (size * 4.0 / (near * near + b * b)).unary("log1p") * 0.25
    return Complex(
        real * a.unary("sgn"), (b * 2.0).binary("atan2", low * high - b * b) * 0.5
    )


def atan(z: Complex) -> Complex:
    return over_i(atanh(times_i(z)))


FUNCTIONS: dict[str, Callable[[Complex], Complex]] = {
    "acos": acos,
    "acosh": acosh,
    "asin": asin,
    "asinh": asinh,
    "atan": atan,
    "atanh": atanh,
    "cos": cos,
    "cosh": cosh,
    "exp": Complex.exp,
    "exp2": lambda z: (z * math.log(2)).exp(),
    "expm1": expm1,
    "log": Complex.log,
    "log10": lambda z: z.log() * (1 / math.log(10)),
    "log1p": log1p,
    "log2": lambda z: z.log() * (1 / math.log(2)),
    "reciprocal": reciprocal,
    "rsqrt": rsqrt,
    "sin": sin,
    "sinh": sinh,
    "sqrt": Complex.sqrt,
    "square": Complex.square,
    "tan": tan,
    "tanh": tanh,
}


@row(*(f"aten.{name}" for name in FUNCTIONS))
def split_function(call: ComplexCall) -> Complex:
    name = call.name.removeprefix("aten.")
    return FUNCTIONS[name](call.complex("self"))


@row("aten.nan_to_num")
def split_nan_to_num(call: ComplexCall) -> Complex:
    """Numbers for those parts that are not finite."""
    z = call.complex("self")
    imag = None if z.imag is None else call.clone(lambda name, x: z.imaginary)
    return Complex(call.clone(lambda name, x: z.real), imag)


@row("aten.isfinite")
def split_isfinite(call: ComplexCall) -> RealTensor:
    z = call.as_complex(call.op.arg("self"))
    real, imag = (call.clone(lambda name, x: each) for each in (z.real, z.imaginary))
    return real.binary("logical_and", imag)


@row("aten.pow.Tensor_Scalar", "aten.pow.Tensor_Tensor", "aten.pow.Scalar")
def split_power(call: ComplexCall) -> Complex:
    """By products for a small integer, by logarithms for other exponents."""
    number = call.complex_number("exponent")
    if number is None or number.imag:
        return power(call.complex_operand("self"), call.complex_operand("exponent"))
    z = call.complex("self")
    if number == 0:
        return Complex(z.real.unary("ones_like"))
    return z.sqrt() if number == 0.5 else z.power(number.real)


def power(z: Complex, exponent: Complex) -> Complex:
    """exp(exponent log z); 0 to a power with a positive real part is 0."""
    made = (z.log() * exponent).exp()
    is_zero = z.equals(Complex(z.real.zeros())).binary(
        "logical_and", exponent.real.binary("gt", 0.0)
    )
    parts = (made.real, made.imaginary)
    return Complex(*(is_zero.select(x.zeros(), x) for x in parts))


@row("aten.logaddexp")
def split_logaddexp(call: ComplexCall) -> Complex:
    """The operand with the larger real part, plus log1p(exp(the difference))."""
    a, b = call.complex("self"), call.complex("other")
    is_more = a.real.binary("ge", b.real)
    most, least = selected(is_more, a, b), selected(is_more, b, a)
    return most + log1p((least - most).exp())


def selected(condition: RealTensor, a: Complex, b: Complex) -> Complex:
    return Complex(
        condition.select(a.real, b.real), condition.select(a.imaginary, b.imaginary)
    )
