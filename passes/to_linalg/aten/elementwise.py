# pyright: reportUnknownLambdaType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# Each body takes as many numbers as its op: pyright cannot infer types of lambdas.
"""Elementwise ops: each element of the result depends on one of each operand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from xdsl.dialects.builtin import f16, i1, i64
from xdsl.ir import Attribute, SSAValue

from padc.ir.element_types import wide
from padc.ir.torch import (
    Argument,
    FloatType,
    IntType,
    NotConstantError,
    PythonValue,
)
from padc.passes.aten.elementwise_bodies import Body, frexp, log_sigmoid
from padc.passes.aten.elementwise_tables import (
    CASTS,
    IN_OPERAND_TYPES,
    IN_PROMOTED_TYPE,
    IN_RESULT_TYPE,
    OF_FLOAT16,
    ROUNDED_EACH_STEP,
    names_of,
)
from padc.passes.aten.promotion import promoted
from padc.passes.to_linalg.aten.linalg_call import LinalgCall, as_number, lowers
from padc.passes.to_linalg.aten.tensors import Operand, pointwise
from padc.passes.to_linalg.build.numbers import Number, constant, from_size


def lower_elementwise(call: LinalgCall, body: Body, type: Attribute | None) -> SSAValue:
    """An op computed in `type`; if that is None, each operand keeps its own."""
    inputs: list[Operand] = []
    build: list[Callable[[Sequence[Number]], PythonValue | Number]] = []
    for argument in call.op.schema.arguments:
        if not call.has(argument.name):
            build.append(lambda numbers: None)
        elif call.is_tensor(argument.name):
            build.append(element(len(inputs), argument, type))
            inputs.append(call.operand(argument.name))
        else:
            build.append(scalar_argument(call, argument, type))

    def compute(*numbers: Number) -> Number:
        arguments = [make(numbers) for make in build]
        if type is not None and call.op.schema.arguments[0].type == "Scalar":
            first = arguments[0]
            assert isinstance(first, int | float)
            arguments[0] = constant(numbers[0].build, first, type)
        made = body(*arguments)
        assert isinstance(made, Number)
        return made

    return pointwise(call.build, inputs, call.result_element_type(), compute)


def element(
    position: int, argument: Argument, type: Attribute | None
) -> Callable[[Sequence[Number]], Number]:
    def make(numbers: Sequence[Number]) -> Number:
        number = numbers[position]
        if argument.name in ("condition", "mask"):
            return number.to(i1)
        return number if type is None else number.to(type)

    return make


def scalar_argument(
    call: LinalgCall, argument: Argument, type: Attribute | None
) -> Callable[[Sequence[Number]], PythonValue | Number]:
    """A constant, or a size as a number of `type`, by default i64."""
    try:
        value = call.constant(argument.name)
    except NotConstantError:
        operand = call.op.arg(argument.name)
        if isinstance(operand.type, FloatType):
            raise
        assert isinstance(operand.type, IntType)
        size = call.amount(operand)
        return lambda numbers: from_size(numbers[0].build, size, type or i64)
    return lambda numbers: value


def register(
    bodies: Mapping[str, Body], type: Callable[[LinalgCall], Attribute | None]
) -> None:
    for name, body in bodies.items():

        @lowers(*names_of(name))
        def lower(call: LinalgCall, name: str = name, body: Body = body) -> SSAValue:  # pyright: ignore[reportUnusedFunction]
            if call.result_element_type() == f16:
                body = OF_FLOAT16.get(name, body)
            return lower_elementwise(call, body, type(call))


register(IN_RESULT_TYPE, lambda call: wide(call.result_element_type()))
register(ROUNDED_EACH_STEP, LinalgCall.result_element_type)
register(IN_PROMOTED_TYPE, promoted)
register(IN_OPERAND_TYPES, lambda call: None)


@lowers(
    *(f"aten.where.{name}" for name in ("self", "ScalarSelf", "ScalarOther", "Scalar"))
)
def lower_where(call: LinalgCall) -> SSAValue:
    result = call.result_element_type()
    condition = call.operand("condition")
    names = ("self", "other")
    tensors = [call.operand(name) for name in names if call.is_tensor(name)]

    def body(condition: Number, *numbers: Number) -> Number:
        given = iter(numbers)
        a, b = (
            next(given).to(result)
            if call.is_tensor(name)
            else constant(condition.build, as_number(call.constant(name)), result)
            for name in names
        )
        return condition.to(i1).select(a, b)

    return pointwise(call.build, [condition, *tensors], result, body)


@lowers("aten.prelu")
def lower_prelu(call: LinalgCall) -> SSAValue:
    """The weight has one element, or one for each channel: dimension 1."""
    x, weight = call.operand("self"), call.operand("weight")
    if weight.rank and x.rank > 1:
        weight = weight.along(1)
    result = call.result_element_type()

    def body(x: Number, slope: Number) -> Number:
        number = x.to(wide(result))
        return (number > 0).select(number, number * slope.to(number.type))

    return pointwise(call.build, [x, weight], result, body)


@lowers("aten.log_sigmoid_forward")
def lower_log_sigmoid_forward(call: LinalgCall) -> list[SSAValue]:
    return [lower_elementwise(call, log_sigmoid, wide(call.result_element_type()))]


@lowers("aten.frexp.Tensor")
def lower_frexp(call: LinalgCall) -> list[SSAValue]:
    x = call.operand("self")

    def part(index: int) -> SSAValue:
        result = call.result_element_type(index)

        def body(x: Number) -> Number:
            made = frexp(x.to(wide(x.type)))[index]
            assert isinstance(made, Number)
            return made

        return pointwise(call.build, [x], result, body)

    return [part(0), part(1)]


@lowers(*CASTS)
def lower_cast(call: LinalgCall) -> SSAValue:
    return call.converted(call.op.schema.arguments[0].name)


@lowers(*(f"aten.{name}" for name in ("dropout", "alpha_dropout", "feature_dropout")))
def lower_dropout(call: LinalgCall) -> SSAValue | None:
    return None if call.boolean("train") else call.tensor("input")


@lowers("aten.tril", "aten.triu")
def lower_triangle(call: LinalgCall) -> SSAValue:
    x, lower = call.operand("self"), call.name == "aten.tril"
    diagonal = call.integer("diagonal")

    def body(x: Number) -> Number:
        row, column = (
            from_size(x.build, x.build.loop_index(dim), i64)
            for dim in (rank - 2, rank - 1)
        )
        distance = column - row
        inside = distance <= diagonal if lower else distance >= diagonal
        return inside.select(x, 0)

    rank = x.rank
    return pointwise(call.build, [x], x.type, body)
