# pyright: reportUnknownLambdaType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# Each body takes as many numbers as its op: pyright cannot infer types of lambdas.
"""The functions that compute one element of an elementwise ATen op's result."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TypeAlias

from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float64Type, f32, i1
from xdsl.ir import Attribute

from padc.errors import Obstacle
from padc.ir.element_types import LARGEST_FINITE, is_unsigned, wide, width
from padc.passes.aten.element import Element
from padc.passes.aten.refusals import TRAINING

Body: TypeAlias = Callable[..., Element]
"""
Computes an element of an ATen op's result from the op's arguments, in their order.

A tensor argument is passed as one element, any other argument as its constant.
"""

Value: TypeAlias = Element | float
"""An element, or a constant."""


def scaled(x: Value, alpha: Value) -> Value:
    if isinstance(alpha, int | float) and alpha == 1:
        return x
    return x * alpha


def add(x: Element, y: Value, alpha: Value) -> Element:
    return x + scaled(y, alpha)


def sub(x: Element, y: Value, alpha: Value) -> Element:
    return x - scaled(y, alpha)


def rsub(x: Element, y: Value, alpha: Value) -> Element:
    return x.lifted(y) - scaled(x, alpha)


def divide(x: Element, y: Value, rounding: str | None) -> Element:
    match rounding:
        case None:
            return x / y
        case "trunc":
            return (x / y).apply("trunc") if x.is_float else x.quotient(y)
        case "floor":
            return floor_divide(x, y)
        case _:
            raise Obstacle(f"rounding_mode is '{rounding}'", "use trunc or floor")


def floor_divide(x: Element, y: Value) -> Element:
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


def remainder(x: Element, y: Value) -> Element:
    """The remainder with the sign of `y`."""
    rest, y = x.rest(y), x.lifted(y)
    if is_unsigned(x.type):
        return rest
    other_side = rest.differs(0) & ((rest < 0) ^ (y < 0))
    return other_side.select(rest + y, rest)


def power(x: Element, y: Value) -> Element:
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


def power_in_float16(x: Element, y: Value) -> Element:
    """PyTorch's in float16: no square roots, which differ from it at -0 and -inf."""
    return x.apply("pow", y) if y in (0.5, -0.5) else power(x, y)


def integer_power(x: Element, y: Value) -> Element:
    """Powers by repeated squaring; for a negative exponent, truncated to an integer."""
    result = x.constant(1)
    if isinstance(y, int | float):
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


def sign(x: Element) -> Element:
    if x.type == i1:
        return x
    return (x > 0).to(x.type) - (x < 0).to(x.type)


def clamp(x: Element, low: Value | None, high: Value | None) -> Element:
    if low is not None:
        x = x.maximum(low)
    return x if high is None else x.minimum(high)


def elu(x: Element, alpha: float, scale: float, input_scale: float) -> Element:
    below = (x * input_scale).apply("expm1") * (alpha * scale)
    return (x < 0).select(below, x * scale)


def celu(x: Element, alpha: float) -> Element:
    if not alpha:
        raise Obstacle("alpha cannot be 0", "use relu, to which celu tends")
    return elu(x, alpha, 1, 1 / alpha)


def selu(x: Element) -> Element:
    return elu(
        x, 1.6732632423543772848170429916717, 1.0507009873554804934193349852946, 1
    )


def gelu(x: Element, approximate: str) -> Element:
    if approximate == "none":
        return x * 0.5 * (1 + (x * math.sqrt(0.5)).apply("erf"))
    inner = (x + x * x * x * 0.044715) * math.sqrt(2 / math.pi)
    return x * 0.5 * (1 + inner.apply("tanh"))


def sigmoid(x: Element) -> Element:
    power = (-abs(x)).apply("exp")
    return (x < 0).select(power, 1) / (1 + power)


def softplus(x: Element, beta: float, threshold: float) -> Element:
    scaled = x * beta
    return (scaled > threshold).select(x, scaled.apply("exp").apply("log1p") / beta)


def mish(x: Element) -> Element:
    return x * x.apply("exp").apply("log1p").apply("tanh")


def log_sigmoid(x: Element) -> Element:
    return x.minimum(0) - (-abs(x)).apply("exp").apply("log1p")


def relu6(x: Element) -> Element:
    return x.maximum(0).minimum(6)


def rrelu(
    x: Element, lower: float, upper: float, training: bool, generator: None
) -> Element:
    if training:
        raise Obstacle(*TRAINING)
    return (x > 0).select(x, x * ((lower + upper) / 2))


def softshrink(x: Element, by: float) -> Element:
    return (x > by).select(x - by, (x < -by).select(x + by, x * 0))


def logit(x: Element, eps: float | None) -> Element:
    if eps is not None:
        x = (x < eps).select(eps, (x > 1 - eps).select(1 - eps, x))
    return (x / (1 - x)).apply("log")


def round_decimals(x: Element, decimals: int) -> Element:
    if not x.is_float or decimals == 0:
        return x.apply("round")
    # PyTorch multiplies by infinity, too.
    power = 10.0 ** abs(decimals) if abs(decimals) <= 308 else math.inf
    if decimals > 0:
        return (x * power).apply("round") / power
    return (x / power).apply("round") * power


def lerp(x: Element, end: Element, weight: Value) -> Element:
    weight = x.lifted(weight)
    near = x + weight * (end - x)
    return (abs(weight) < 0.5).select(near, end - (end - x) * (1 - weight))


def addcdiv(x: Element, a: Element, b: Element, value: Value) -> Element:
    return x + scaled(a, value) / b


def addcmul(x: Element, a: Element, b: Element, value: Value) -> Element:
    return x + scaled(a, value) * b


def nan_to_num(
    x: Element, nan: float | None, high: float | None, low: float | None
) -> Element:
    if not x.is_float:
        return x
    largest = LARGEST_FINITE[type(x.type)]
    y = x.is_nan().select(nan or 0.0, x)
    y = x.equals(math.inf).select(largest if high is None else high, y)
    return x.equals(-math.inf).select(-largest if low is None else low, y)


def heaviside(x: Element, at_zero: Element) -> Element:
    return x.equals(0).select(at_zero, (x > 0).to(x.type))


def xlogy(x: Element, y: Value) -> Element:
    y = x.lifted(y)
    product = x.equals(0).select(0, x * y.apply("log"))
    return y.is_nan().select(y, product)


def hypot(x: Element, y: Element) -> Element:
    large, small = abs(x), abs(y)
    large, small = large.maximum(small), large.minimum(small)
    ratio = small / large
    length = large * (1 + ratio * ratio).apply("sqrt")
    # An infinite side counts more than NaN.
    is_infinite = abs(x).equals(math.inf) | abs(y).equals(math.inf)
    return is_infinite.select(math.inf, large.equals(0).select(0, length))


def logaddexp(x: Element, y: Element) -> Element:
    greater = x.maximum(y)
    sum = greater + (-abs(x - y)).apply("exp").apply("log1p")
    return (x.equals(y) & abs(x).equals(math.inf)).select(x, sum)


def sinc(x: Element) -> Element:
    angle = x * math.pi
    return x.equals(0).select(1, angle.apply("sin") / angle)


def entr(x: Element) -> Element:
    not_positive = x.equals(0).select(x.constant(0), -math.inf)
    return (x <= 0).select(not_positive, -x * x.apply("log"))


def fmax(x: Element, y: Element) -> Element:
    return x.is_nan().select(y, y.is_nan().select(x, x.maximum(y)))


def fmin(x: Element, y: Element) -> Element:
    return x.is_nan().select(y, y.is_nan().select(x, x.minimum(y)))


def isclose(
    x: Element, y: Element, rtol: float, atol: float, equal_nan: bool
) -> Element:
    """The distance of integers is computed in float32, unless they must be equal."""
    close = x.equals(y)
    if not (rtol or atol):
        return close | (x.is_nan() & y.is_nan()) if equal_nan else close
    if not x.is_float:
        x, y = x.to(f32), y.to(f32)
    allowed = atol + abs(y * rtol)
    distance = abs(x - y)
    close = close | ((distance <= allowed) & (distance < math.inf))
    return close | (x.is_nan() & y.is_nan()) if equal_nan else close


def frexp(x: Element) -> tuple[Element, Element]:
    """
    A mantissa in [0.5, 1) and the exponent of 2, which is corrected by the mantissa.

    The power of 2 is applied in two steps: on its own it could overflow.
    """
    size = abs(x)
    exponent = size.apply("log2").apply("floor") + 1
    half = (exponent * 0.5).apply("floor")
    scale, rest = (-half).apply("exp2"), (half - exponent).apply("exp2")
    mantissa = size * scale * rest
    over, under = mantissa >= 1, mantissa < 0.5
    factor = over.select(x.constant(0.5), under.select(x.constant(2), 1))
    exponent = over.select(exponent + 1, under.select(exponent - 1, exponent))
    is_scaled = (size > 0) & (size < math.inf)
    mantissa = is_scaled.select(x * scale * rest * factor, x)
    return mantissa, is_scaled.select(exponent, 0)


def nextafter(x: Element, y: Element) -> Element:
    """`x` plus or minus the distance to the number next to it, or the largest one."""
    digits, least = FORMATS[type(x.type)]
    largest = LARGEST_FINITE[type(x.type)]
    x, y = x.to(wide(x.type)), y.to(wide(x.type))
    mantissa, exponent = frexp(x)
    up = y > x
    # Below a power of 2 the distance is half of the one above.
    is_halved = abs(mantissa).equals(0.5) & (up ^ (x > 0))
    exponent = (is_halved.select(exponent - 1, exponent) - digits).maximum(least)
    step = x.equals(0).select(least, exponent).apply("exp2")
    there = up.select(x + step, x - step)
    there = (
        abs(x).equals(math.inf).select(up.select(x.constant(-largest), largest), there)
    )
    return (x.equals(y) | y.is_nan()).select(y, there)


FORMATS: Mapping[type[Attribute], tuple[int, int]] = {
    BFloat16Type: (8, -133),
    Float16Type: (11, -24),
    type(f32): (24, -149),
    Float64Type: (53, -1074),
}
"""The bits of a mantissa, and the exponent of the smallest number."""


def is_finite(x: Element) -> Element:
    if not x.is_float:
        return x.boolean(True)
    return abs(x) < math.inf


def is_infinite(x: Element) -> Element:
    if not x.is_float:
        return x.boolean(False)
    return abs(x).equals(math.inf)


def signbit(x: Element) -> Element:
    if x.is_float:
        return x.constant(1).apply("copysign", x) < 0
    return x < 0


def function(name: str) -> Body:
    """A function of `numbers.FUNCTIONS`."""
    return lambda x, *others: x.apply(name, *others)


def comparison(predicate: str) -> Body:
    return lambda x, y: x.compare(y, predicate)


def maximum(x: Element, y: Value) -> Element:
    return x.maximum(y)


def minimum(x: Element, y: Value) -> Element:
    return x.minimum(y)
