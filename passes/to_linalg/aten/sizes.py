"""Arithmetic on sizes: ATen ops on integers, and on floats computed from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import FloatAttr, UnrealizedConversionCastOp, f64, i64
from xdsl.ir import SSAValue

from padc.ir.tcp import Amount, tensor_type
from padc.ir.torch import FloatType, IntType, ToI64Op, constant_value
from padc.passes.aten.aten_call import known
from padc.passes.common.linalg_builder import LinalgBuilder
from padc.passes.common.tensor_shapes import product
from padc.passes.to_linalg.aten.linalg_call import LinalgCall, lowers


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


def binary(
    *names: str,
) -> Callable[[Callable[[LinalgBuilder, Amount, Amount], Amount]], None]:
    """Register the arithmetic of two integers."""

    def register(compute: Callable[[LinalgBuilder, Amount, Amount], Amount]) -> None:
        @lowers(*names)
        def lower(call: LinalgCall) -> SSAValue:  # pyright: ignore[reportUnusedFunction]
            a, b = map(call.amount, call.op.operands)
            return integer(call.build, compute(call.build, a, b))

    return register


binary("aten.add.int")(LinalgBuilder.add)
binary("aten.sub.int")(LinalgBuilder.sub)
binary("aten.mul.int")(LinalgBuilder.mul)
binary("aten.floordiv.int")(LinalgBuilder.floordiv)
binary("prim.max.int")(LinalgBuilder.maximum)
binary("prim.min.int")(LinalgBuilder.minimum)


@binary("aten.remainder.int")
def remainder(build: LinalgBuilder, a: Amount, b: Amount) -> Amount:
    """The remainder with the sign of `b`, as in Python."""
    return (build.wrap(a) % build.wrap(b)).value


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


def register_float_arithmetic(
    name: str, operation: type[arith.FloatingPointLikeBinaryOperation], *types: str
) -> None:
    @lowers(*(f"aten.{name}.{each}" for each in types))
    def lower(call: LinalgCall) -> SSAValue:  # pyright: ignore[reportUnusedFunction]
        a, b = (real(call, operand) for operand in call.op.operands)
        return in_torch(call, call.insert(operation(a, b)))


MIXED = "float", "float_int", "int_float"
register_float_arithmetic("add", arith.AddfOp, *MIXED)
register_float_arithmetic("sub", arith.SubfOp, *MIXED)
register_float_arithmetic("mul", arith.MulfOp, *MIXED)
register_float_arithmetic("div", arith.DivfOp, "float", "int")


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
