"""Arithmetic on complex tensors, and what makes and takes them apart."""

from __future__ import annotations

import math

from xdsl.ir import SSAValue

from padc.errors import Obstacle
from padc.ir.torch import AtenOp, NotConstantError
from padc.passes.complex.complex_call import ComplexCall, Made, row
from padc.passes.complex.numbers import Complex, Operand, RealTensor, polar


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
def split_view_as_real(call: ComplexCall) -> RealTensor | None:
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
def split_real(call: ComplexCall) -> RealTensor:
    return call.complex("self").real


@row("aten.imag")
def split_imag(call: ComplexCall) -> RealTensor:
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
def split_abs(call: ComplexCall) -> RealTensor | None:
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
def split_angle(call: ComplexCall) -> RealTensor:
    """The angle; of a real number 0 or pi, or NaN for NaN."""
    z = call.complex("self")
    if call.is_complex("self"):
        return z.angle()
    is_negative, is_nan = z.real.binary("lt", 0.0), z.real.binary("ne", z.real)
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


def other(call: ComplexCall) -> Complex | Operand:
    """The second operand: a tensor, or a number, which may be complex."""
    if call.is_tensor("other"):  # or a complex number
        return call.complex("other")
    try:
        return float(call.number("other"))
    except NotConstantError:
        return call.op.arg("other")


def times_alpha(call: ComplexCall, z: Complex | Operand) -> Complex | Operand:
    """An operand times `alpha`."""
    if not call.has("alpha"):
        return z
    if call.is_complex("alpha"):
        return call.complex("alpha") * z
    alpha = float(call.number("alpha"))
    if alpha == 1:
        return z
    if isinstance(z, SSAValue):
        raise Obstacle("alpha times a computed number", "multiply by it before")
    return z * alpha


@row("aten.add.Tensor", "aten.add.Scalar")
def split_add(call: ComplexCall) -> Complex:
    return call.complex("self") + times_alpha(call, other(call))


@row("aten.sub.Tensor", "aten.sub.Scalar")
def split_sub(call: ComplexCall) -> Complex:
    return call.complex("self") - times_alpha(call, other(call))


@row("aten.rsub.Tensor", "aten.rsub.Scalar")
def split_rsub(call: ComplexCall) -> Complex:
    z = times_alpha(call, call.complex("self"))
    assert isinstance(z, Complex)
    return -z + other(call)


@row("aten.mul.Tensor", "aten.mul.Scalar")
def split_mul(call: ComplexCall) -> Complex:
    return call.complex("self") * other(call)


@row("aten.div.Tensor", "aten.div.Scalar", "aten.true_divide.Tensor")
def split_div(call: ComplexCall) -> Complex:
    return call.complex("self") / other(call)


@row("aten.eq.Tensor", "aten.eq.Scalar", "aten.ne.Tensor", "aten.ne.Scalar")
def split_equality(call: ComplexCall) -> RealTensor:
    a = call.as_complex(call.op.arg("self"))
    if call.is_tensor("other"):
        b = call.as_complex(call.op.arg("other"))
    else:
        b = Complex(a.real.zeros() + call.number("other"))
    equal = a.equals(b)
    return equal.unary("logical_not") if call.name.startswith("aten.ne") else equal
