# pyright: reportUnknownLambdaType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# Bodies take as many numbers as their ops do: pyright does not infer lambdas' of these.
"""The functions that compute one element of an elementwise ATen op's result."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TypeAlias

from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float64Type, f32, i1
from xdsl.ir import Attribute

from padc.ir.element_types import is_unsigned
from padc.passes.to_linalg.build.numbers import Number, Value, constant, width

Body: TypeAlias = Callable[..., Number]
"""
Computes an element of an ATen op's result from the op's arguments, in their order.

A tensor argument is passed as one element, any other argument as its constant.
"""


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
    """Division rounded down, as in Python: the quotient that matches `remainder`."""
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
    """The remainder with the sign of `y`."""
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
    """Powers by repeated squaring; for a negative exponent, truncated to an integer."""
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
