"""
The error function's relatives and the normal distribution.

The complement erfc(x) is exp(-x^2) times a smooth function, erfcx(x), whose series is
accurate in the tail too. Sources: M. M. Shepherd and J. G. Laframboise, "Chebyshev
approximation of (1 + 2x) exp(x^2) erfc(x) in 0 <= x < infinity" (Math. Comp. 36, 1981);
M. Giles, "Approximating the erfinv function" (GPU Computing Gems, 2010).
"""

from __future__ import annotations

import math

from padc.passes.aten import chebyshev_tables as tables
from padc.passes.aten.element import Element

FAR = 30.0
"""exp(-FAR^2) is 0 in every type."""


def erfc(x: Element) -> Element:
    rest = exp_of_square(x, -1) * scaled_tail(abs(x))
    return (x < 0).select(2 - rest, rest)


def erfcx(x: Element) -> Element:
    """exp(x^2) erfc(x)."""
    tail = scaled_tail(abs(x))
    return (x < 0).select(2 * exp_of_square(x, 1) - tail, tail)


def ndtr(x: Element) -> Element:
    """The normal distribution: the probability of less than `x`."""
    return erfc(x * -math.sqrt(0.5)) * 0.5


def log_ndtr(x: Element) -> Element:
    t = x * math.sqrt(0.5)
    tail = scaled_tail(abs(t))
    far = (tail * 0.5).apply("log") - t * t
    rest = exp_of_square(t, -1) * tail
    rest = (t < 0).select(2 - rest, rest)
    return (x < -1).select(far, (rest * -0.5).apply("log1p"))


def erfinv(x: Element) -> Element:
    return x * inverse_factor((1 - x) * (1 + x))


def ndtri(p: Element) -> Element:
    """The inverse of `ndtr`: sqrt(2) erfinv(x) for x = 2p - 1; 1 - x^2 is 4p(1 - p)."""
    return (2 * p - 1) * inverse_factor(4 * p * (1 - p)) * math.sqrt(2)


def inverse_factor(rest: Element) -> Element:
    """erfinv(x) / x, of 1 - x^2; infinite at 0 and NaN below."""
    size = (6 - rest.apply("log")).apply("sqrt")
    return tables.ERFINV(1 / size) * size


def scaled_tail(x: Element) -> Element:
    """erfcx(x), for x >= 0."""
    return tables.ERFCX(3.75 / (x + 3.75)) / (1 + 2 * x)


def exp_of_square(x: Element, sign: int) -> Element:
    """
    exp(sign * x^2), where the rounding of x^2 would cost accuracy.

    x^2 is h^2 + (x - h)(x + h), and h has so few bits that its square is exact. Source:
    W. J. Cody, "Rational Chebyshev approximations for the error function" (Math. Comp.
    23, 1969).
    """
    x = abs(x).minimum(FAR)
    h = (x * 16).apply("round") / 16
    rest = (x - h) * (x + h)
    return (h * h * sign).apply("exp") * (rest * sign).apply("exp")
