"""
The Chebyshev, Hermite, Laguerre and Legendre polynomials.

A known degree is computed by the recurrence in the degree (DLMF 18.9). The Chebyshev
polynomials also have a closed form, for degrees that the program computes (DLMF 18.5).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

from padc.errors import Obstacle
from padc.passes.aten.element import Element
from padc.passes.aten.elementwise_bodies import Body

HIGHEST_DEGREE = 64
"""The largest degree whose recurrence is unrolled."""

Degree: TypeAlias = Element | float
"""A number is a known degree; its fraction is ignored."""

Step: TypeAlias = Callable[[Element, int, Element, Element], Element]
"""The polynomial of degree k + 1, from x, k and those of degrees k and k - 1."""


# --- Chebyshev ------------------------------------------------------------------------


def chebyshev_t(x: Element, n: Degree) -> Element:
    if isinstance(n, int | float):
        return unrolled(x, n, x, double_step)
    return of_size(x, n, cosines, cosines, 0)


def chebyshev_u(x: Element, n: Degree) -> Element:
    if isinstance(n, int | float):
        return unrolled(x, n, x + x, double_step)
    return of_size(x, n, sines, sines, 1)


def chebyshev_v(x: Element, n: Degree) -> Element:
    if isinstance(n, int | float):
        return unrolled(x, n, x + x - 1, double_step)
    return of_size(x, n, cosines, sines, 0.5)


def chebyshev_w(x: Element, n: Degree) -> Element:
    if isinstance(n, int | float):
        return unrolled(x, n, x + x + 1, double_step)
    return of_size(x, n, sines, cosines, 0.5)


def shifted(polynomial: Callable[[Element, Degree], Element]) -> Body:
    """A polynomial of 2x - 1."""

    def body(x: Element, n: Degree) -> Element:
        return polynomial(x + x - 1, n)

    return body


def double_step(x: Element, k: int, last: Element, before: Element) -> Element:
    return (x + x) * last - before


Waves: TypeAlias = Callable[[Element, Element, float], Element]


def of_size(
    x: Element, n: Element, above: Waves, below: Waves, offset: float
) -> Element:
    """
    The polynomial at |x|, by `above`, or with the sign of (-1)^n by `below` if x < 0.

    Angles are accurate near 0, which is |x| = 1, not near pi.
    """
    n, size = n.apply("trunc"), abs(x)
    half = n * 0.5
    y = above(size, n, offset)
    other = y if above is below else below(size, n, offset)
    other = half.apply("floor").equals(half).select(other, -other)
    y = n.equals(0).select(1, (x < 0).select(other, y))
    # PyTorch makes an integer of n, which is negative for NaN on most processors.
    return (n >= 0).select(y, 0)


def cosines(x: Element, n: Element, offset: float) -> Element:
    """cos((n + offset) a) / cos(offset a), where x >= 0 is cos(a)."""
    inner, outer = x.minimum(1).apply("acos"), x.maximum(1).apply("acosh")
    near = (inner * (n + offset)).apply("cos")
    far = overflowing(outer, n, offset, "cosh")
    if offset:
        near = near / (inner * offset).apply("cos")
        far = far / (outer * offset).apply("cosh")
    return (x <= 1).select(near, far)


def sines(x: Element, n: Element, offset: float) -> Element:
    """sin((n + offset) a) / sin(offset a), where x >= 0 is cos(a)."""
    inner, outer = x.minimum(1).apply("acos"), x.maximum(1).apply("acosh")
    near = (inner * (n + offset)).apply("sin") / (inner * offset).apply("sin")
    far = overflowing(outer, n, offset, "sinh") / (outer * offset).apply("sinh")
    return x.equals(1).select(n / offset + 1, (x < 1).select(near, far))


def overflowing(x: Element, n: Element, offset: float, function: str) -> Element:
    """
    A hyperbolic function of (n + offset) x; NaN if that of n - 2 is infinite.

    PyTorch's recurrence subtracts polynomials of the degrees n - 1 and n - 2.
    """
    before = (x * (n + (offset - 2))).apply(function)
    is_finite = (n < 3) | (abs(before) < math.inf)
    return is_finite.select((x * (n + offset)).apply(function), math.nan)


# --- others ---------------------------------------------------------------------------


def hermite_h(x: Element, n: Degree) -> Element:
    return unrolled(x, n, x + x, lambda x, k, q, p: (x + x) * q - p * (2 * k))


def hermite_he(x: Element, n: Degree) -> Element:
    return unrolled(x, n, x, lambda x, k, q, p: x * q - p * k)


def laguerre_l(x: Element, n: Degree) -> Element:
    def step(x: Element, k: int, q: Element, p: Element) -> Element:
        return ((2 * k + 1 - x) * q - p * k) / (k + 1)

    return unrolled(x, n, 1 - x, step)


def legendre_p(x: Element, n: Degree) -> Element:
    def step(x: Element, k: int, q: Element, p: Element) -> Element:
        return (x * q * (2 * k + 1) - p * k) / (k + 1)

    return unrolled(x, n, x, step)


# --- the recurrence -------------------------------------------------------------------


def unrolled(x: Element, n: Degree, first: Element, step: Step) -> Element:
    """The polynomial of degree `n`, from those of degree 0, which is 1, and 1."""
    if not isinstance(n, int | float):
        raise Obstacle("a degree that the program computes", "give it as a number")
    if not -math.inf < n <= HIGHEST_DEGREE:
        raise Obstacle(f"the degree {n}", f"give a degree of at most {HIGHEST_DEGREE}")
    last, before = x.equals(x).select(x.constant(1), 1), x.constant(1)
    if n < 0:
        return last * 0
    for k in range(int(n)):
        last, before = (step(x, k, last, before) if k else first), last
    return last
