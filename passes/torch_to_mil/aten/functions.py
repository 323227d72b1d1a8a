"""Functions of floats that Core ML lacks, in terms of those that it has."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from padc.passes.aten.element import Element


def log(x: Element) -> Element:
    return x.apply("log")


def log10(x: Element) -> Element:
    return log(x) / math.log(10)


def log2(x: Element) -> Element:
    return log(x) / math.log(2)


def log1p(x: Element) -> Element:
    """
    log(1 + x), accurate near 0.

    Source: D. Goldberg, "What every computer scientist should know about floating-point
    arithmetic" (ACM Computing Surveys 23, 1991), theorem 4.
    """
    one_more = x + 1
    near = log(one_more) * (x / (one_more - 1))
    is_near = one_more.equals(1)
    return is_near.select(x, one_more.equals(math.inf).select(one_more, near))


def expm1(x: Element) -> Element:
    """
    exp(x) - 1, accurate near 0.

    Source: W. Kahan, in N. Higham, "Accuracy and Stability of Numerical Algorithms"
    (2002), 1.14.1.
    """
    power = x.apply("exp")
    less = power - 1
    near = less * (x / log(power))
    is_far = less.equals(-1) | power.equals(math.inf)
    return power.equals(1).select(x, is_far.select(less, near))


def trunc(x: Element) -> Element:
    return (x < 0).select(x.apply("ceil"), x.apply("floor"))


def copysign(x: Element, sign: Element) -> Element:
    """`x` with the sign of `sign`, which for zeros is that of their reciprocal."""
    is_negative = (sign < 0) | (1 / sign < 0)
    return is_negative.select(-abs(x), abs(x))


LARGE = 100.0
"""Its square fits float16, and above it two terms of the series are exact."""


def asinh(x: Element) -> Element:
    """sign(x) log(|x| + sqrt(x^2 + 1)), in a form accurate near 0 and for large |x|."""
    size = abs(x)
    square = size * size
    near = log1p(size + square / ((square + 1).apply("sqrt") + 1))
    far = log(size) + math.log(2) + 0.25 / square
    return copysign((size > LARGE).select(far, near), x)


def acosh(x: Element) -> Element:
    """log(x + sqrt(x^2 - 1)), in a form accurate near 1 and for large x."""
    over = x - 1
    near = log1p(over + (over * over + over * 2).apply("sqrt"))
    far = log(x) + math.log(2) - 0.25 / (x * x)
    return (x < 1).select(math.nan, (x > LARGE).select(far, near))


def atan2(y: Element, x: Element) -> Element:
    """The angle of (x, y), by the arc tangent of the smaller by the larger."""
    size_x, size_y = abs(x), abs(y)
    low, high = size_x.minimum(size_y), size_x.maximum(size_y)
    ratio = high.equals(0).select(0, low / high)
    ratio = low.equals(math.inf).select(1, ratio)
    angle = ratio.apply("atan")
    angle = (size_y > size_x).select(math.pi / 2 - angle, angle)
    left = (x < 0) | (x.equals(0) & (1 / x < 0))
    angle = left.select(math.pi - angle, angle)
    result = copysign(angle, y)
    return (x.is_nan() | y.is_nan()).select(math.nan, result)


FUNCTIONS: Mapping[str, Callable[..., Element]] = {
    "acosh": acosh,
    "asinh": asinh,
    "atan2": atan2,
    "copysign": copysign,
    "expm1": expm1,
    "log10": log10,
    "log1p": log1p,
    "log2": log2,
    "trunc": trunc,
}
"""Functions of floats by their C names."""
