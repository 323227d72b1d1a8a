# pyright: reportUnknownLambdaType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# Bodies take as many numbers as their ops do: pyright does not infer lambdas' of these.
"""Ops that compute each element of their result from one of each operand."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float64Type,
    IntegerType,
    Signedness,
    f32,
    i1,
    i64,
)
from xdsl.ir import Attribute, SSAValue

from padc.errors import Obstacle
from padc.ir.element_types import is_unsigned, is_wide_unsigned, wide
from padc.ir.torch import (
    Argument,
    FloatType,
    IntType,
    NotConstantError,
    PythonValue,
    VTensorType,
    schema_of,
)
from padc.passes.to_linalg.aten.call import LinalgCall, lowers
from padc.passes.to_linalg.aten.tensors import Operand, pointwise
from padc.passes.to_linalg.build.numbers import (
    Number,
    Value,
    constant,
    from_size,
    is_float,
    width,
)

Body: TypeAlias = Callable[..., Number]
"""
Computes an element of the result of an ATen op from its arguments, in their order.

Of tensors it takes an element; of what is no tensor, the constant that it is.
"""

# --- what is computed ---------------------------------------------------


def scaled(x: Value, alpha: Value) -> Value:
    if alpha == 1 and not isinstance(alpha, Number):
        return x
    return x * alpha


def add(x: Number, y: Value, alpha: Value) -> Number:
    return x + scaled(y, alpha)


def sub(x: Number, y: Value, alpha: Value) -> Number:
    return x - scaled(y, alpha)


def rsub(x: Number, y: Value, alpha: Value) -> Number:
    return x.lifted(y) - scaled(x, alpha)


def divide(x: Number, y: Value, rounding: str | None) -> Number:
    match rounding:
        case None:
            return x / y
        case "trunc":
            return (x / y).apply("trunc") if x.is_float else x.quotient(y)
        case _:
            return floor_divide(x, y)


def floor_divide(x: Number, y: Value) -> Number:
    """As Python has it: the quotient that goes with `remainder`."""
    if not x.is_float:
        quotient = x.quotient(y)
        if is_unsigned(x.type):
            return quotient
        rest, y = x.rest(y), x.lifted(y)
        below = rest.differs(0) & ((rest < 0) ^ (y < 0))
        return below.select(quotient - 1, quotient)
    y = x.lifted(y)
    rest = x.rest(y)
    quotient = (x - rest) / y
    quotient = (rest.differs(0) & ((y < 0) ^ (rest < 0))).select(quotient - 1, quotient)
    floor = quotient.apply("floor")
    floor = (quotient - floor > 0.5).select(floor + 1, floor)
    zero = x.constant(0).apply("copysign", x / y)
    whole = quotient.differs(0).select(floor, zero)
    return y.equals(0).select(x / y, whole)


def remainder(x: Number, y: Value) -> Number:
    """With the sign of `y`."""
    rest, y = x.rest(y), x.lifted(y)
    if is_unsigned(x.type):
        return rest
    other_side = rest.differs(0) & ((rest < 0) ^ (y < 0))
    return other_side.select(rest + y, rest)


def power(x: Number, y: Value) -> Number:
    if not x.is_float:
        return integer_power(x, y)
    match y:
        case 0.5:
            return x.apply("sqrt")
        case 2:
            return x * x
        case 3:
            return x * x * x
        case -0.5:
            return 1 / x.apply("sqrt")
        case -1:
            return 1 / x
        case -2:
            return 1 / (x * x)
        case _:
            return x.apply("pow", y)


def integer_power(x: Number, y: Value) -> Number:
    """By squares; of negative exponents the integer part."""
    result = x.constant(1)
    if not isinstance(y, Number):
        for bit in reversed(f"{int(y):b}"):
            result = result * x if bit == "1" else result
            x = x * x
        return result
    square, bits = x, width(x.type)
    for bit in range(bits if is_unsigned(x.type) else bits - 1):
        odd = (y & x.constant(1 << bit)).differs(0)
        result = odd.select(result * square, result)
        square = square * square
    if is_unsigned(x.type):
        return result
    minus_one = (y & 1).differs(0).select(x.constant(-1), 1)
    below = x.equals(-1).select(minus_one, 0)
    return (y < 0).select(x.equals(1).select(1, below), result)


def sign(x: Number) -> Number:
    if x.type == i1:
        return x
    return (x > 0).to(x.type) - (x < 0).to(x.type)


def clamp(x: Number, low: Value | None, high: Value | None) -> Number:
    if low is not None:
        x = x.maximum(low)
    return x if high is None else x.minimum(high)


def clamp_tensors(x: Number, low: Number | None, high: Number | None) -> Number:
    return clamp(x, low, high)


def elu(x: Number, alpha: float, scale: float, input_scale: float) -> Number:
    below = (x * input_scale).apply("expm1") * (alpha * scale)
    return (x < 0).select(below, x * scale)


def selu(x: Number) -> Number:
    return elu(
        x, 1.6732632423543772848170429916717, 1.0507009873554804934193349852946, 1
    )


def gelu(x: Number, approximate: str) -> Number:
    if approximate == "none":
        return x * 0.5 * (1 + (x * math.sqrt(0.5)).apply("erf"))
    inner = (x + x * x * x * 0.044715) * math.sqrt(2 / math.pi)
    return x * 0.5 * (1 + inner.apply("tanh"))


def sigmoid(x: Number) -> Number:
    return 1 / (1 + (-x).apply("exp"))


def softplus(x: Number, beta: float, threshold: float) -> Number:
    scaled = x * beta
    return (scaled > threshold).select(x, scaled.apply("exp").apply("log1p") / beta)


def mish(x: Number) -> Number:
    return x * x.apply("exp").apply("log1p").apply("tanh")


def log_sigmoid(x: Number) -> Number:
    return x.minimum(0) - (-abs(x)).apply("exp").apply("log1p")


def relu6(x: Number) -> Number:
    return x.maximum(0).minimum(6)


def softshrink(x: Number, by: float) -> Number:
    return (x > by).select(x - by, (x < -by).select(x + by, x * 0))


def logit(x: Number, eps: float | None) -> Number:
    if eps is not None:
        x = (x < eps).select(eps, (x > 1 - eps).select(1 - eps, x))
    return (x / (1 - x)).apply("log")


def round_decimals(x: Number, decimals: int) -> Number:
    if not x.is_float or decimals == 0:
        return x.apply("round")
    power = 10.0 ** abs(decimals)
    if decimals > 0:
        return (x * power).apply("round") / power
    return (x / power).apply("round") * power


def lerp(x: Number, end: Number, weight: Value) -> Number:
    weight = x.lifted(weight)
    near = x + weight * (end - x)
    return (abs(weight) < 0.5).select(near, end - (end - x) * (1 - weight))


def addcdiv(x: Number, a: Number, b: Number, value: Value) -> Number:
    return x + scaled(a, value) / b


def addcmul(x: Number, a: Number, b: Number, value: Value) -> Number:
    return x + scaled(a, value) * b


def nan_to_num(
    x: Number, nan: float | None, high: float | None, low: float | None
) -> Number:
    if not x.is_float:
        return x
    largest = LARGEST[type(x.type)]
    y = x.is_nan().select(nan or 0.0, x)
    y = x.equals(math.inf).select(largest if high is None else high, y)
    return x.equals(-math.inf).select(-largest if low is None else low, y)


LARGEST: Mapping[type[Attribute], float] = {
    BFloat16Type: 3.3895313892515355e38,
    Float16Type: 65504.0,
    type(f32): 3.4028234663852886e38,
    Float64Type: 1.7976931348623157e308,
}


def heaviside(x: Number, at_zero: Number) -> Number:
    return x.equals(0).select(at_zero, (x > 0).to(x.type))


def xlogy(x: Number, y: Value) -> Number:
    y = x.lifted(y)
    product = x.equals(0).select(0, x * y.apply("log"))
    return y.is_nan().select(y, product)


def hypot(x: Number, y: Number) -> Number:
    large, small = abs(x), abs(y)
    large, small = large.maximum(small), large.minimum(small)
    ratio = small / large
    length = large * (1 + ratio * ratio).apply("sqrt")
    return (large.equals(0) | small.equals(math.inf)).select(large, length)


def logaddexp(x: Number, y: Number) -> Number:
    greater = x.maximum(y)
    sum = greater + (-abs(x - y)).apply("exp").apply("log1p")
    return (x.equals(y) & abs(x).equals(math.inf)).select(x, sum)


def sinc(x: Number) -> Number:
    angle = x * math.pi
    return x.equals(0).select(1, angle.apply("sin") / angle)


def fmax(x: Number, y: Number) -> Number:
    return x.is_nan().select(y, y.is_nan().select(x, x.maximum(y)))


def fmin(x: Number, y: Number) -> Number:
    return x.is_nan().select(y, y.is_nan().select(x, x.minimum(y)))


def isclose(x: Number, y: Number, rtol: float, atol: float, equal_nan: bool) -> Number:
    allowed = atol + abs(y * rtol)
    distance = abs(x - y)
    close = x.equals(y) | ((distance <= allowed) & (distance < math.inf))
    return close | (x.is_nan() & y.is_nan()) if equal_nan else close


def is_finite(x: Number) -> Number:
    if not x.is_float:
        return constant(x.build, True, i1)
    return abs(x) < math.inf


def is_infinite(x: Number) -> Number:
    if not x.is_float:
        return constant(x.build, False, i1)
    return abs(x).equals(math.inf)


def signbit(x: Number) -> Number:
    if x.is_float:
        return x.constant(1).apply("copysign", x) < 0
    return x < 0


def function(name: str) -> Body:
    """A function of `numbers.FUNCTIONS`."""
    return lambda x, *others: x.apply(name, *others)


def comparison(predicate: str) -> Body:
    return lambda x, y: x.compare(y, predicate)


# --- of which op, and in which type ---------------------------------------------------

RESULT: Mapping[str, Body] = {
    **{
        name: function(name)
        for name in (
            *("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "ceil"),
            *("cos", "cosh", "erf", "exp", "exp2", "expm1", "floor", "log", "log10"),
            *("log1p", "log2", "round", "sin", "sinh", "sqrt", "tan", "tanh", "trunc"),
        )
    },
    "_prelu_kernel": lambda x, slope: (x > 0).select(x, x * slope),
    "addcdiv": addcdiv,
    "addcmul": addcmul,
    "celu": lambda x, alpha: elu(x, alpha, 1, 1 / alpha),
    "copysign": lambda x, y: x.apply("copysign", y),
    "deg2rad": lambda x: x * (math.pi / 180),
    "div": lambda x, y, rounding=None: divide(x, y, rounding),
    "elu": elu,
    "fix": function("trunc"),
    "floor_divide": floor_divide,
    "frac": lambda x: x - x.apply("trunc"),
    "gelu": gelu,
    "hardsigmoid": lambda x: relu6(x + 3) / 6,
    "hardswish": lambda x: x * relu6(x + 3) / 6,
    "hypot": hypot,
    "leaky_relu": lambda x, slope: (x > 0).select(x, x * slope),
    "lerp": lerp,
    "log_sigmoid": log_sigmoid,
    "logaddexp": logaddexp,
    "mish": mish,
    "mul": lambda x, y: x * y,
    "pow": power,
    "rad2deg": lambda x: x * (180 / math.pi),
    "reciprocal": lambda x: 1 / x,
    "round.decimals": round_decimals,
    "rsqrt": lambda x: 1 / x.apply("sqrt"),
    "selu": selu,
    "sigmoid": sigmoid,
    "silu": lambda x: x / (1 + (-x).apply("exp")),
    "sinc": sinc,
    "softplus": softplus,
    "softshrink": softshrink,
    "square": lambda x: x * x,
    "xlogy": xlogy,
}
"""Ops that compute in the type of their result, or in f32 if that is a half."""

EXACT: Mapping[str, Body] = {
    "abs": Number.__abs__,
    "add": add,
    "bitwise_and": Number.__and__,
    "bitwise_left_shift": lambda x, y: x.shifted(y, left=True),
    "bitwise_not": Number.__invert__,
    "bitwise_or": Number.__or__,
    "bitwise_right_shift": lambda x, y: x.shifted(y, left=False),
    "bitwise_xor": Number.__xor__,
    "clamp": clamp,
    "clamp.Tensor": clamp_tensors,
    "clamp_max": Number.minimum,
    "clamp_min": Number.maximum,
    "fmax": fmax,
    "fmin": fmin,
    "fmod": Number.rest,
    "hardshrink": lambda x, by: ((x >= -by) & (x <= by)).select(0, x),
    "hardtanh": clamp,
    "heaviside": heaviside,
    "logit": logit,
    "masked_fill": lambda x, mask, y: mask.select(y, x),
    "max.other": Number.maximum,
    "maximum": Number.maximum,
    "min.other": Number.minimum,
    "minimum": Number.minimum,
    "nan_to_num": nan_to_num,
    "neg": Number.__neg__,
    "relu": lambda x: x.maximum(0),
    "relu6": relu6,
    "remainder": remainder,
    "rsub": rsub,
    "sgn": sign,
    "sign": sign,
    "sub": sub,
    "threshold": lambda x, threshold, y: (x <= threshold).select(y, x),
}
"""Ops that compute in the type of their result, numbers and each step rounded to it."""

PROMOTED: Mapping[str, Body] = {
    **{name: comparison(name) for name in ("eq", "ge", "gt", "le", "lt", "ne")},
    "isclose": isclose,
}
"""Ops that compare in the type that their operands are promoted to."""

OWN: Mapping[str, Body] = {
    "isfinite": is_finite,
    "isinf": is_infinite,
    "isnan": Number.is_nan,
    "isneginf": lambda x: is_infinite(x) & (x < 0),
    "isposinf": lambda x: is_infinite(x) & (x > 0),
    "logical_and": lambda x, y: x.to(i1) & y.to(i1),
    "logical_not": lambda x: ~x.to(i1),
    "logical_or": lambda x, y: x.to(i1) | y.to(i1),
    "logical_xor": lambda x, y: x.to(i1) ^ y.to(i1),
    "signbit": signbit,
}
"""Ops that take each operand in its own type."""

SAME: Mapping[str, Sequence[str]] = {
    "abs": ["absolute"],
    "acos": ["arccos"],
    "acosh": ["arccosh"],
    "asin": ["arcsin"],
    "asinh": ["arcsinh"],
    "atan": ["arctan"],
    "atan2": ["arctan2"],
    "atanh": ["arctanh"],
    "clamp": ["clip"],
    "clamp.Tensor": ["clip.Tensor"],
    "bitwise_and": ["__and__"],
    "bitwise_or": ["__or__"],
    "bitwise_xor": ["__xor__"],
    "bitwise_left_shift": ["__lshift__"],
    "bitwise_right_shift": ["__rshift__"],
    "div": ["divide", "true_divide"],
    "erf": ["special_erf"],
    "exp2": ["special_exp2"],
    "expm1": ["special_expm1"],
    "ge": ["greater_equal"],
    "gt": ["greater"],
    "le": ["less_equal"],
    "lt": ["less"],
    "log1p": ["special_log1p"],
    "logit": ["special_logit"],
    "mul": ["multiply"],
    "ne": ["not_equal"],
    "neg": ["negative"],
    "sigmoid": ["special_expit"],
    "sub": ["subtract"],
    "xlogy": ["special_xlogy"],
}
"""Other names that ATen has for the same."""

OVERLOADS = (
    *("", ".Tensor", ".Scalar", ".Tensor_mode", ".Scalar_mode", ".Tensor_Tensor"),
    *(".Tensor_Scalar", ".Scalar_Tensor", ".other_scalar", ".Scalar_Other"),
)
"""Of an op whose name is not that of one overload; of those that it has, all."""


# --- how an op is lowered ---------------------------------------------------


def lower_elementwise(call: LinalgCall, body: Body, type: Attribute | None) -> SSAValue:
    """An op that computes in `type`; where that is None, each operand in its own."""
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
        if type is not None and not isinstance(arguments[0], Number):
            first = arguments[0]
            assert isinstance(first, int | float)
            arguments[0] = constant(numbers[0].build, first, type)
        return body(*arguments)

    return pointwise(call.build, inputs, call.result_element_type(), compute)


def element(
    place: int, argument: Argument, type: Attribute | None
) -> Callable[[Sequence[Number]], Number]:
    def make(numbers: Sequence[Number]) -> Number:
        number = numbers[place]
        if argument.name in ("condition", "mask"):
            return number.to(i1)
        return number if type is None else number.to(type)

    return make


def scalar_argument(
    call: LinalgCall, argument: Argument, type: Attribute | None
) -> Callable[[Sequence[Number]], PythonValue | Number]:
    """A constant; or a size, which is a number of `type` or i64."""
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


def promoted(call: LinalgCall) -> Attribute:
    """
    The type that PyTorch promotes an op's operands to.

    Tensors of rank 0 and numbers count only where they are of a higher kind: floats
    are higher than integers, and these than booleans.
    """
    ranks: list[list[Attribute]] = [[], [], []]
    for argument in call.op.schema.arguments:
        operand = call.op.arg(argument.name)
        if isinstance(type := operand.type, VTensorType):
            ranks[0 if type.get_shape() else 1].append(type.element_type)
        elif argument.type == "Scalar":
            ranks[2].append(number_type(operand))
    result: Attribute | None = None
    for types in ranks:
        kind = None
        for type in types:
            kind = type if kind is None else joined(kind, type)
        if kind is not None and (result is None or level(kind) > level(result)):
            result = kind
    assert result is not None
    return result


def number_type(operand: SSAValue) -> Attribute:
    if isinstance(operand.type, IntType):
        return i64
    return f32 if isinstance(operand.type, FloatType) else i1


def level(type: Attribute) -> int:
    if is_float(type):
        return 2
    return 0 if type == i1 else 1


def joined(a: Attribute, b: Attribute) -> Attribute:
    """The type that has room for both."""
    if level(a) != level(b):
        return a if level(a) > level(b) else b
    if is_float(a):
        sizes: dict[type[Attribute], int] = {
            BFloat16Type: 16,
            Float16Type: 16,
            type(f32): 32,
            Float64Type: 64,
        }
        if a != b and sizes[type(a)] == sizes[type(b)] == 16:
            return f32
        return a if sizes[type(a)] >= sizes[type(b)] else b
    if a != b and (is_wide_unsigned(a) or is_wide_unsigned(b)):
        raise Obstacle(f"{a} and {b}, which PyTorch does not promote")
    if is_unsigned(a) == is_unsigned(b):
        return a if width(a) >= width(b) else b
    signed, unsigned = (b, a) if is_unsigned(a) else (a, b)
    bits = max(width(signed), 2 * width(unsigned))
    return IntegerType(bits, Signedness.SIGNED)


def register(
    bodies: Mapping[str, Body], type: Callable[[LinalgCall], Attribute | None]
) -> None:
    for name, body in bodies.items():
        for each in (name, *SAME.get(name, ())):

            @lowers(*overloads(each))
            def lower(call: LinalgCall, body: Body = body) -> SSAValue:  # pyright: ignore[reportUnusedFunction]
                return lower_elementwise(call, body, type(call))


def overloads(name: str) -> list[str]:
    """The names of those overloads of an op, or of the one, that are meant here."""
    names = [f"aten.{name}{each}" for each in ([""] if "." in name else OVERLOADS)]
    schemas = [schema for each in names if (schema := schema_of(each)) is not None]
    return [each.name for each in schemas if each.returns[0].type == "Tensor"]


register(RESULT, lambda call: wide(call.result_element_type()))
register(EXACT, LinalgCall.result_element_type)
register(PROMOTED, promoted)
register(OWN, lambda call: None)


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


def as_number(value: PythonValue) -> float:
    if not isinstance(value, int | float):
        raise Obstacle(f"{value!r} for a number", "give a number")
    return value


@lowers("aten.prelu")
def lower_prelu(call: LinalgCall) -> SSAValue:
    """Its weight is one number, or one for each channel: dimension 1."""
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


CASTS = (
    *("_to_copy", "alias", "clone", "contiguous", "detach", "lift", "lift_fresh"),
    *("lift_fresh_copy", "positive", "to.device", "to.dtype", "to.dtype_layout"),
    *("to.other", "type_as", "_cast_Float", "_cast_Long", "_cast_Double", "_cast_Half"),
    *("_cast_Int", "_cast_Byte", "alias_copy", "detach_copy", "resolve_conj"),
    *("resolve_neg", "real", "conj"),
)


@lowers(
    *(f"aten.{name}" for name in CASTS),
    "prims.convert_element_type",
    "prims.view_of",
)
def lower_cast(call: LinalgCall) -> SSAValue:
    return call.converted(call.op.schema.arguments[0].name)


@lowers(*(f"aten.{name}" for name in ("dropout", "alpha_dropout", "feature_dropout")))
def lower_dropout(call: LinalgCall) -> SSAValue | None:
    return None if call.boolean("train") else call.tensor("input")


@lowers("aten.tril", "aten.triu")
def lower_triangle(call: LinalgCall) -> SSAValue:
    x, lower = call.operand("self"), call.op.schema.name == "aten.tril"
    diagonal = call.integer("diagonal")

    def body(x: Number) -> Number:
        row, column = (
            from_size(x.build, x.build.place(dim), i64) for dim in (rank - 2, rank - 1)
        )
        distance = column - row
        inside = distance <= diagonal if lower else distance >= diagonal
        return inside.select(x, 0)

    rank = x.rank
    return pointwise(call.build, [x], x.type, body)
