"""Arithmetic on complex tensors, and what makes and takes them apart."""

from __future__ import annotations

import math
from collections.abc import Callable

from xdsl.dialects.builtin import i1

from padc.errors import Obstacle
from padc.ir.torch import AtenOp
from padc.passes.complex.complex_call import ComplexCall, Made, row
from padc.passes.complex.numbers import Complex, Real, polar


@row("aten.complex")
def split_complex(call: ComplexCall) -> Complex:
    return Complex(call.real("real"), call.real("imag"))


@row("aten.polar")
def split_polar(call: ComplexCall) -> Complex:
    return polar(call.real("abs"), call.real("angle"))


@row("aten.view_as_complex", "aten.view_as_complex_copy")
def split_view_as_complex(call: ComplexCall) -> Complex:
    x = call.real("self")
    parts = (
        x.call("select.int", x.shape[:-1], self=x, dim=x.rank - 1, index=index)
        for index in range(2)
    )
    return Complex(*parts)


@row("aten.view_as_real", "aten.view_as_real_copy")
def split_view_as_real(call: ComplexCall) -> Real | None:
    """A stack of the parts; if only one part of it is used, that part."""
    z = call.complex("self")
    result, rank = call.op.results[0], z.real.rank
    for use in list(result.uses):
        match use.operation:
            case AtenOp(schema=schema) as op if schema.name == "aten.select.int":
                if op.constant("dim") in (rank, -1):
                    is_real = op.constant("index") in (0, -2)
                    call.replace(op.results[0], z.real if is_real else z.imaginary)
            case _:
                pass
    if not result.uses:
        return None
    parts = [z.real, z.imaginary]
    return z.real.call("stack", [*z.real.shape, 2], tensors=parts, dim=rank)


@row("aten.real")
def split_real(call: ComplexCall) -> Real:
    return call.complex("self").real


@row("aten.imag")
def split_imag(call: ComplexCall) -> Real:
    return call.complex("self").imaginary


@row(
    *("aten.conj", "aten._conj", "aten._conj_physical", "aten.conj_physical"),
    "aten._conj_copy",
)
def split_conj(call: ComplexCall) -> Made:
    z = call.complex("self")
    return z.conj() if call.is_complex("self") else z.real


@row("aten.resolve_conj", "aten.resolve_neg")
def split_resolve(call: ComplexCall) -> Made:
    z = call.complex("self")
    return z if call.is_complex("self") else z.real


@row("aten.neg", "aten._neg_view", "aten._neg_view_copy")
def split_neg(call: ComplexCall) -> Made:
    z = -call.complex("self")
    return z if call.is_complex("self") else z.real


@row("aten.abs")
def split_abs(call: ComplexCall) -> Real | None:
    """|z|, or its square where only that is used."""
    z = call.complex("self")
    result = call.op.results[0]
    for use in list(result.uses):
        if isinstance(op := use.operation, AtenOp) and is_square(op):
            call.replace(op.results[0], z.squared_size())
    return z.size() if result.uses else None


def is_square(op: AtenOp) -> bool:
    """Whether an op is the square of its first operand."""
    if op.schema.name == "aten.pow.Tensor_Scalar":
        return op.constant("exponent") == 2
    return op.schema.name == "aten.square"


@row("aten.angle")
def split_angle(call: ComplexCall) -> Real:
    """The angle; of a real number 0 or pi, or NaN for NaN."""
    z = call.complex("self")
    if call.is_complex("self"):
        return z.angle()
    is_negative, is_nan = z.real.binary("lt", 0.0, i1), z.real.binary("ne", z.real, i1)
    angle = is_negative.select(z.real.zeros() + math.pi, 0.0)
    return is_nan.select(z.real, angle)


@row("aten.sgn")
def split_sgn(call: ComplexCall) -> Complex:
    """z / |z|; 0 for 0."""
    z = call.complex("self")
    size = z.size()
    size = size.equals(0.0).select(size.unary("ones_like"), size)
    imag = None if z.imag is None else z.imag / size
    return Complex(z.real / size, imag)


# --- two operands ---------------------------------------------------------------------


def operands(call: ComplexCall) -> tuple[Complex, Complex]:
    """The two operands, the second one times `alpha`; each a tensor or a number."""
    a = call.complex("self")
    b = call.complex("other")
    alpha = call.number("alpha") if call.has("alpha") else 1
    return a, b if alpha == 1 else b.scaled(float(alpha))


@row("aten.add.Tensor")
def split_add(call: ComplexCall) -> Complex:
    a, b = operands(call)
    return a + b


@row("aten.sub.Tensor")
def split_sub(call: ComplexCall) -> Complex:
    a, b = operands(call)
    return a - b


@row("aten.rsub.Tensor")
def split_rsub(call: ComplexCall) -> Complex:
    a, b = operands(call)
    if call.has("alpha") and call.number("alpha") != 1:
        raise Obstacle("alpha is not 1", "write it as a subtraction")
    return b - a


@row("aten.mul.Tensor")
def split_mul(call: ComplexCall) -> Complex:
    a, b = operands(call)
    return a * b


@row("aten.div.Tensor", "aten.true_divide.Tensor")
def split_div(call: ComplexCall) -> Complex:
    a, b = operands(call)
    return a / b


def by_number(call: ComplexCall) -> tuple[Complex, float]:
    """The operands of an op on a tensor and a number."""
    alpha = call.number("alpha") if call.has("alpha") else 1
    return call.complex("self"), float(call.number("other") * alpha)


@row("aten.add.Scalar")
def split_add_number(call: ComplexCall) -> Complex:
    z, number = by_number(call)
    return Complex(z.real + number, z.imag)


@row("aten.sub.Scalar")
def split_sub_number(call: ComplexCall) -> Complex:
    z, number = by_number(call)
    return Complex(z.real - number, z.imag)


@row("aten.rsub.Scalar")
def split_rsub_number(call: ComplexCall) -> Complex:
    if call.has("alpha") and call.number("alpha") != 1:
        raise Obstacle("alpha is not 1", "write it as a subtraction")
    z, number = by_number(call)
    z = -z
    return Complex(z.real + number, z.imag)


@row("aten.mul.Scalar")
def split_mul_number(call: ComplexCall) -> Complex:
    z, number = by_number(call)
    return z.scaled(number)


@row("aten.div.Scalar")
def split_div_number(call: ComplexCall) -> Complex:
    z, number = by_number(call)
    return Complex(z.real / number, None if z.imag is None else z.imag / number)


@row("aten.eq.Tensor", "aten.ne.Tensor")
def split_equality(call: ComplexCall) -> Real:
    a, b = (call.as_complex(call.op.arg(name)) for name in ("self", "other"))
    equal = a.real.equals(b.real).binary(
        "logical_and", a.imaginary.equals(b.imaginary), i1
    )
    return equal if call.name == "aten.eq.Tensor" else equal.unary("logical_not")


# --- functions ------------------------------------------------------------------------


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


def reciprocal(z: Complex) -> Complex:
    return Complex(z.real.unary("ones_like")) / z


FUNCTIONS: dict[str, Callable[[Complex], Complex]] = {
    "cos": cos,
    "cosh": cosh,
    "exp": Complex.exp,
    "log": Complex.log,
    "reciprocal": reciprocal,
    "sin": sin,
    "sinh": sinh,
    "sqrt": Complex.sqrt,
    "square": Complex.square,
}


@row(*(f"aten.{name}" for name in FUNCTIONS))
def split_function(call: ComplexCall) -> Complex:
    name = call.name.removeprefix("aten.")
    return FUNCTIONS[name](call.complex("self"))


@row("aten.pow.Tensor_Scalar")
def split_power(call: ComplexCall) -> Complex:
    exponent = float(call.number("exponent"))
    z = call.complex("self")
    if exponent == 0:
        return Complex(z.real.unary("ones_like"))
    return z.power(exponent)


@row("aten.linalg_vector_norm")
def split_vector_norm(call: ComplexCall) -> Real:
    """The norm of the sizes."""
    size = call.as_complex(call.op.arg("self")).size()
    return call.clone(lambda name, x: size)
