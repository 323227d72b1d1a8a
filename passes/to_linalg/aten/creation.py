"""Ops that create tensors: filled ones, and those computed from their indices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import DYNAMIC_INDEX, f64, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineExpr

from padc.errors import Obstacle
from padc.ir.element_types import is_float
from padc.ir.tcp import Amount, fill_type
from padc.ir.torch import FloatType, NotConstantError, constant_value
from padc.passes.aten.formulas import evenly_spaced
from padc.passes.common.linalg_builder import LinalgBuilder
from padc.passes.common.lowering import Replacement
from padc.passes.common.tensor_shapes import indexed
from padc.passes.to_linalg.aten.linalg_call import LinalgCall, as_number, lowers
from padc.passes.to_linalg.build.numbers import Number, constant, from_size


def full(
    call: LinalgCall, sizes: Sequence[Amount], value: SSAValue | float
) -> SSAValue:
    """A tensor filled with `value`, of the result's type."""
    type = call.result_element_type()
    known = [
        size if static == DYNAMIC_INDEX else static
        for size, static in zip(sizes, call.result_type().get_shape(), strict=True)
    ]
    if not isinstance(value, SSAValue):
        value = constant(call.build, value, type).value
    return call.build.filled(known, value)


def number(call: LinalgCall, name: str, type: Attribute) -> Number:
    """A constant or computed integer, as a number of `type`."""
    return number_of(call, call.op.arg(name), type)


def number_of(call: LinalgCall, value: SSAValue, type: Attribute) -> Number:
    try:
        known = constant_value(value)
    except NotConstantError:
        if isinstance(value.type, FloatType):
            raise
        return from_size(call.build, call.amount(value), type)
    return constant(call.build, as_number(known), type)


SIZED: Mapping[str, float] = {"empty.memory_format": 0, "ones": 1, "zeros": 0}
LIKE: Mapping[str, float] = {
    "empty_like": 0,
    "new_empty": 0,
    "new_ones": 1,
    "new_zeros": 0,
    "ones_like": 1,
    "zero": 0,
    "zeros_like": 0,
}


@lowers(*(f"aten.{name}" for name in (*SIZED, *LIKE)))
@lowers("aten.full", "aten.full_like", "aten.new_full", "aten.fill.Scalar")
def lower_full(call: LinalgCall) -> SSAValue:
    name = call.name.removeprefix("aten.")
    if "size" in call.op.schema.positions:
        sizes = call.amounts("size")
    else:
        sizes = call.build.sizes(call.tensor("self"))
    if (value := {**SIZED, **LIKE}.get(name)) is None:
        argument = "value" if name == "fill.Scalar" else "fill_value"
        return full(
            call, sizes, number(call, argument, call.result_element_type()).value
        )
    return full(call, sizes, value)


@lowers("aten.scalar_tensor", "prim.NumToTensor.Scalar")
@lowers("aten.tensor.int", "aten.tensor.float", "aten.tensor.bool")
def lower_scalar_tensor(call: LinalgCall) -> SSAValue:
    value = call.op.operands[0]
    return full(call, [], number_of(call, value, call.result_element_type()).value)


@lowers("aten.arange", "aten.arange.start", "aten.arange.start_step")
def lower_arange(call: LinalgCall) -> SSAValue:
    """PyTorch computes integers in int64, and floats in float64."""
    build, result = call.build, call.result_element_type()
    positions = call.op.schema.positions
    type = f64 if is_float(result) else i64
    operands = {
        name: call.op.arg(name)
        for name in ("start", "end", "step")
        if name in positions
    }
    (size,) = call.result_type().get_shape()
    length: Amount = size
    if size == DYNAMIC_INDEX:
        amounts = {
            name: build.wrap(call.amount(value)) for name, value in operands.items()
        }
        distance = amounts["end"] - amounts.get("start", 0)
        step = amounts.get("step", build.wrap(1))
        # Not `ceil_div`: the step may be negative.
        length = (-(-distance // step)).maximum(0).value

    def body(inner: LinalgBuilder, _: Sequence[SSAValue]) -> SSAValue:
        position = from_size(inner, inner.loop_index(0), type)
        for name, combine in (("step", Number.__mul__), ("start", Number.__add__)):
            if name in scalars and scalars[name] != NEUTRAL[name]:
                position = combine(position, scalar_in(inner, scalars[name], type))
        return position.to(result).value

    scalars = {
        name: scalar(call, operands[name])
        for name in ("start", "step")
        if name in operands
    }
    return build.compute([length], fill_type(result), body)


NEUTRAL = {"start": 0, "step": 1}


def scalar(call: LinalgCall, value: SSAValue) -> Amount | float:
    """A constant number, or a computed integer."""
    try:
        return as_number(constant_value(value))
    except NotConstantError:
        return call.amount(value)


def scalar_in(build: LinalgBuilder, value: Amount | float, type: Attribute) -> Number:
    if isinstance(value, SSAValue):
        return from_size(build, value, type)
    return constant(build, value, type)


@lowers("aten.linspace")
def lower_linspace(call: LinalgCall) -> SSAValue:
    build, result = call.build, call.result_element_type()
    (size,) = call.result_type().get_shape()
    first, last = (as_number(call.constant(name)) for name in ("start", "end"))
    if size == DYNAMIC_INDEX or not is_float(result):
        raise Obstacle("a number of steps that is computed", "make it a constant")
    step = (last - first) / max(size - 1, 1)

    def body(inner: LinalgBuilder, _: Sequence[SSAValue]) -> SSAValue:
        i = from_size(inner, inner.loop_index(0), i64)
        made = evenly_spaced(i, size, first, last, step, lambda x: x.to(f64))
        return made.to(result).value

    if size == 1:
        return full(call, [1], first)
    return build.compute([size], fill_type(result), body)


@lowers("aten.eye", "aten.eye.m")
def lower_eye(call: LinalgCall) -> SSAValue:
    build, result = call.build, call.result_element_type()
    rows = call.amount(call.op.arg("n"))
    columns = call.amount(call.op.arg("m")) if "m" in call.op.schema.positions else rows

    def body(inner: LinalgBuilder, _: Sequence[SSAValue]) -> SSAValue:
        row, column = (from_size(inner, inner.loop_index(dim), i64) for dim in (0, 1))
        return row.equals(column).to(result).value

    return build.compute([rows, columns], fill_type(result), body)


@lowers("aten.meshgrid.indexing", "aten.meshgrid")
def lower_meshgrid(call: LinalgCall) -> Replacement:
    build, given = call.build, call.operands("tensors")
    swaps = call.name.endswith("indexing") and call.constant("indexing") == "xy"
    order = list(range(len(given)))
    if swaps and len(given) > 1:
        order[:2] = [1, 0]
    lengths = [build.size(x.tensor, 0) if x.rank else 1 for x in given]
    sizes = [lengths[order.index(dim)] for dim in range(len(given))]
    parts = [
        indexed(build, x.tensor, [AffineExpr.dimension(dim)] * x.rank, sizes)
        for x, dim in zip(given, order, strict=True)
    ]
    return [parts]


@lowers("aten.one_hot")
def lower_one_hot(call: LinalgCall) -> SSAValue:
    """1 where the last index is the element, 0 elsewhere."""
    build, x = call.build, call.operand("self")
    sizes = build.sizes(x.tensor)
    classes = call.result_type().get_shape()[-1]
    if classes == DYNAMIC_INDEX:
        raise Obstacle("a number of classes that it finds", "give num_classes")

    def body(inner: LinalgBuilder, args: Sequence[SSAValue]) -> SSAValue:
        place = from_size(inner, inner.loop_index(len(sizes)), i64)
        element = Number(inner, args[0], x.type).to(i64)
        return place.equals(element).to(i64).value

    exprs = [AffineExpr.dimension(i) for i in range(len(sizes))]
    return build.compute([*sizes, classes], i64, body, [(x.tensor, exprs)])
