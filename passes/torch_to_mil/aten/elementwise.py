# pyright: reportUnknownLambdaType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# Each body takes as many tensors as its op: pyright cannot infer types of lambdas.
"""
Elementwise ops: each element of the result depends on one of each operand.

The formulas are those of the native path. Where Core ML has an op that computes the
same, `FLOATS` and `INTEGERS` name it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from xdsl.dialects.builtin import f16, f64, i1
from xdsl.ir import Attribute, Operation, SSAValue

from padc.errors import Obstacle
from padc.ir.element_types import is_float, wide
from padc.ir.torch import AtenOp, NotConstantError, PythonValue
from padc.passes.aten.elementwise_bodies import Body, frexp, is_finite, log_sigmoid
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
from padc.passes.aten.refusals import TRAINING
from padc.passes.torch_to_mil.aten.mil_call import MilCall, lowers
from padc.passes.torch_to_mil.aten.tensor import Tensor, is_constant


def unary(name: str, **constants: Any) -> Body:
    return lambda x: x.unary(name, **constants)


def clip(x: Tensor, low: Tensor | float | None, high: Tensor | float | None) -> Tensor:
    """Core ML's clip, where both bounds are known and differ as they should."""
    if isinstance(low, int | float) and isinstance(high, int | float) and low < high:
        return x.unary("clip", alpha=x.constant(low).value, beta=x.constant(high).value)
    x = x if low is None else x.maximum(low)
    return x if high is None else x.minimum(high)


def softplus(x: Tensor, beta: float, threshold: float) -> Tensor:
    """Core ML's softplus; from 20 on it is its argument, also in float32."""
    scaled = x if beta == 1 else x * beta
    y = scaled.unary("softplus")
    y = y if beta == 1 else y / beta
    if threshold >= 20 and beta == 1:
        return y
    # Beyond the threshold the product may overflow in float16.
    return (scaled > threshold).select(x, y)


def elu(x: Tensor, alpha: float, scale: float, input_scale: float) -> Tensor:
    """Core ML's elu, or the formula if there are other factors."""
    if (scale, input_scale) != (1, 1):
        return IN_RESULT_TYPE["elu"](x, alpha, scale, input_scale)  # pyright: ignore[reportReturnType]
    return x.unary("elu", alpha=x.constant(alpha).value)


def hardsigmoid(x: Tensor) -> Tensor:
    alpha, beta = x.constant(1 / 6).value, x.constant(0.5).value
    return x.unary("sigmoid_hard", alpha=alpha, beta=beta)


FLOATS: Mapping[str, Body] = {
    **{name: unary(name) for name in ("relu", "relu6", "sigmoid", "silu", "square")},
    "clamp": clip,
    "elu": elu,
    "gelu": lambda x, approximate: x.unary(
        "gelu", mode="EXACT" if approximate == "none" else "TANH_APPROXIMATION"
    ),
    "hardsigmoid": hardsigmoid,
    "hardswish": lambda x: x * hardsigmoid(x),
    "hardtanh": clip,
    "leaky_relu": lambda x, slope: x.unary("leaky_relu", alpha=x.constant(slope).value),
    "remainder": lambda x, y: x.binary("mod", y),
    # x + -0.0 is x, also for -0.0, where x + 0.0 is 0.0.
    "rsqrt": unary("rsqrt", epsilon=-0.0),
    "softplus": softplus,
}
"""Bodies on floats, by ops of Core ML's that compute the same."""

INTEGERS: Mapping[str, Body] = {
    "floor_divide": lambda x, y: x.wrapped(x.binary("floor_div", y)),
    "remainder": lambda x, y: x.binary("mod", y),
    "sign": unary("sign"),
}
"""Bodies on integers, by ops of Core ML's that compute the same."""


def body_on(name: str, body: Body, type: Attribute | None) -> Body:
    """The body of an op that computes in `type`, by Core ML's op if it has one."""
    if type is None or type == i1:
        return body
    return (FLOATS if is_float(type) else INTEGERS).get(name, body)


def lower_elementwise(
    call: MilCall, name: str, body: Body, type: Attribute | None
) -> Tensor:
    """An op computed in `type`; if that is None, each operand keeps its own."""
    arguments = [
        argument_of(call, argument.name, type) for argument in call.op.schema.arguments
    ]
    is_number = call.op.schema.arguments[0].type == "Scalar"
    if type is not None and is_number:
        first = arguments[0]
        assert isinstance(first, int | float)
        arguments[0] = Tensor(call.build, np.float64(first), f64).to(type)
    made = body_on(name, body, type)(*arguments)
    assert isinstance(made, Tensor)
    return made


def argument_of(
    call: MilCall, name: str, type: Attribute | None
) -> Tensor | PythonValue:
    """A tensor or a size, as elements of `type`, or a constant."""
    if not call.has(name):
        return None
    if call.is_tensor(name):
        x = call.tensor(name)
        if name in ("condition", "mask"):
            return x.to(i1)
        return x if type is None else x.to(type)
    try:
        return call.constant(name)
    except NotConstantError:
        size = call.scalar(call.op.arg(name))
        return size if type is None else size.to(type)


def in_wide_type(call: MilCall, name: str) -> Attribute:
    """The result type, or f32 if that is f16 and the op would be rounded twice."""
    type = call.result_element_type()
    return type if name in ROUNDED_ONCE else wide(type)


ROUNDED_ONCE = (
    *("atan", "cos", "div", "erf", "exp", "gelu", "leaky_relu", "mul", "rsqrt"),
    *("sigmoid", "silu", "sin", "sqrt", "square", "tan", "tanh"),
)
"""Ops that are one op of Core ML's, with constants that float16 has."""


def register(
    bodies: Mapping[str, Body], type: Callable[[MilCall, str], Attribute | None]
) -> None:
    for name, body in bodies.items():

        @lowers(*names_of(name))
        def lower(call: MilCall, name: str = name, body: Body = body) -> Tensor:  # pyright: ignore[reportUnusedFunction]
            if call.result_element_type() == f16:
                body = OF_FLOAT16.get(name, body)
            return lower_elementwise(call, name, body, type(call, name))


register(IN_RESULT_TYPE, in_wide_type)
register(ROUNDED_EACH_STEP, lambda call, name: call.result_element_type())
register(IN_PROMOTED_TYPE, lambda call, name: promoted(call))
register(IN_OPERAND_TYPES, lambda call, name: None)


@lowers(
    *(f"aten.where.{name}" for name in ("self", "ScalarSelf", "ScalarOther", "Scalar"))
)
def lower_where(call: MilCall) -> Tensor:
    type = call.result_element_type()
    condition = argument_of(call, "condition", i1)
    a, b = (argument_of(call, name, type) for name in ("self", "other"))
    assert isinstance(condition, Tensor)
    if not isinstance(a, Tensor):
        assert isinstance(a, int | float)
        a = Tensor(call.build, np.float64(a), f64).to(type)
    return condition.select(a, b)  # pyright: ignore[reportArgumentType]


@lowers("aten.prelu")
def lower_prelu(call: MilCall) -> Tensor:
    """The weight has one element, or one for each channel: dimension 1."""
    x, slope = call.tensor("self"), call.tensor("weight")
    is_plain = is_constant(slope) and x.rank > 1 and x.shape[1] > 0
    # Core ML takes slopes that differ only for tensors of rank 4.
    if is_plain and (x.rank == 4 or (slope.shape == (1,) and x.rank in (3, 5))):
        alpha = np.broadcast_to(call.array(slope), [x.shape[1]])
        return x.emit("prelu", x.shape, x=x, alpha=call.build.constant(alpha))
    if slope.rank and x.rank == 0:
        slope = slope.emit("squeeze", [], x=slope, axes=[0])
    elif slope.rank and x.rank > 1:
        shape = [-1, *[1] * (x.rank - 2)]
        slope = slope.emit(
            "reshape", [slope.shape[0], *shape[1:]], x=slope, shape=shape
        )
    return (x > 0).select(x, x * slope)


@lowers("aten.log_sigmoid_forward")
def lower_log_sigmoid_forward(call: MilCall) -> list[Tensor]:
    type = wide(call.result_element_type())
    return [lower_elementwise(call, "log_sigmoid", log_sigmoid, type)]


@lowers("aten.frexp.Tensor")
def lower_frexp(call: MilCall) -> list[Tensor]:
    x = call.tensor("self")
    parts = frexp(x.to(wide(x.type)))
    return [part for part in parts if isinstance(part, Tensor)]


DROPPING = ("aten.where", "aten.masked_fill", "aten.masked_scatter", "aten.index_put")
"""Ops that may leave out elements by their values."""


@lowers(*CASTS)
def lower_cast(call: MilCall) -> Tensor:
    """
    The first argument, finite if a later op may drop elements; the driver casts it.

    T5's buckets of positions take the logarithm of 0 and select something else then.
    Core ML does not say which integer infinity and NaN become: here it is 0. Finite
    numbers beyond int32 stay, and so do all without an op that drops elements: the
    evaluator refuses them.
    """
    x, type = call.tensor(call.op.schema.arguments[0].name), call.result_element_type()
    is_truncated = x.is_float and not is_float(type) and type != i1
    if is_truncated and isinstance(x.value, SSAValue) and may_be_dropped(call.op):
        finite = is_finite(x).select(x, 0.0)
        assert isinstance(finite, Tensor)
        return finite
    return x


def may_be_dropped(op: Operation) -> bool:
    """Whether an op that drops elements depends on a result of `op`."""
    reached, left = {op}, [op]
    while left:
        for use in (use for result in left.pop().results for use in result.uses):
            user = use.operation
            if isinstance(user, AtenOp) and user.schema.name.startswith(DROPPING):
                return True
            if user not in reached:
                reached.add(user)
                left.append(user)
    return False


@lowers(*(f"aten.{name}" for name in ("dropout", "alpha_dropout", "feature_dropout")))
def lower_dropout(call: MilCall) -> Tensor:
    if call.boolean("train"):
        raise Obstacle(*TRAINING)
    return call.tensor("input")
