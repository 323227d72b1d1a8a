"""Arithmetic on sizes: ATen ops on integers, and on floats computed from them."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import FloatAttr, UnrealizedConversionCastOp, f64, i64
from xdsl.ir import SSAValue

from padc.ir.tcp import Amount, tensor_type
from padc.ir.torch import FloatType, IntType, ToI64Op, constant_value
from padc.passes.aten.aten_call import known
from padc.passes.aten.size_tables import FLOATS, INTEGERS
from padc.passes.common.linalg_builder import LinalgBuilder
from padc.passes.common.tensor_shapes import product
from padc.passes.to_linalg.aten.linalg_call import LinalgCall, lowers
from padc.passes.to_linalg.build.numbers import Number


def integer(build: LinalgBuilder, amount: Amount) -> SSAValue:
    """A size as an integer of the torch dialect."""
    number = build.insert(arith.IndexCastOp(build.index(amount), i64))
    return build.insert(UnrealizedConversionCastOp.get([number], [IntType()]))


@lowers("aten.size.int")
def lower_size(call: LinalgCall) -> SSAValue:
    x = call.tensor("self")
    dim = call.integer("dim") % tensor_type(x).get_num_dims()
    return integer(call.build, call.build.size(x, dim))


@lowers("aten.numel")
def lower_numel(call: LinalgCall) -> SSAValue:
    sizes = call.build.sizes(call.tensor("self"))
    return integer(call.build, product(call.build, sizes))


@lowers(*INTEGERS)
def lower_integers(call: LinalgCall) -> SSAValue:
    a, b = (call.build.wrap(call.amount(x)) for x in call.op.operands)
    return integer(call.build, INTEGERS[call.name](a, b).value)


@lowers("aten.neg.int")
def lower_neg(call: LinalgCall) -> SSAValue:
    (x,) = map(call.amount, call.op.operands)
    return integer(call.build, (-call.build.wrap(x)).value)


# PyTorch's symbolic floats are float64.


def real(call: LinalgCall, value: SSAValue) -> SSAValue:
    """A number of the torch dialect as f64."""
    if isinstance(value.owner, UnrealizedConversionCastOp) and (
        value.type == FloatType()
    ):
        return value.owner.inputs[0]
    if value.type == IntType() and isinstance(known(value), SSAValue):
        return call.insert(arith.SIToFPOp(call.insert(ToI64Op(value)), f64))
    number = constant_value(value)
    assert isinstance(number, int | float)
    return call.insert(arith.ConstantOp(FloatAttr(float(number), f64)))


def in_torch(call: LinalgCall, x: SSAValue) -> SSAValue:
    return call.insert(UnrealizedConversionCastOp.get([x], [FloatType()]))


@lowers("aten.Float.Scalar")
def lower_float(call: LinalgCall) -> SSAValue:
    return in_torch(call, real(call, call.op.arg("a")))


@lowers(*FLOATS)
def lower_floats(call: LinalgCall) -> SSAValue:
    a, b = (Number(call.build, real(call, x), f64) for x in call.op.operands)
    return in_torch(call, FLOATS[call.name](a, b).value)


ROUNDINGS: Mapping[str, type[math.CeilOp | math.FloorOp] | None] = {
    "aten.Int.float": None,
    "aten.Int.Scalar": None,
    "aten.ceil.float": math.CeilOp,
    "aten.floor.float": math.FloorOp,
}
"""The op applied to a float before it is truncated to an integer."""


@lowers(*ROUNDINGS)
def lower_rounding(call: LinalgCall) -> SSAValue:
    x = real(call, call.op.arg("a"))
    if (function := ROUNDINGS[call.name]) is not None:
        x = call.insert(function(x))
    number = call.insert(arith.FPToSIOp(x, i64))
    return call.insert(UnrealizedConversionCastOp.get([number], [IntType()]))
