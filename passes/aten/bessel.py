"""
Bessel functions, modified Bessel functions and the Airy function.

Near 0 they are series in x or x^2. Far from 0 they are series in 1 / x times an
exponential or a wave (Hankel's expansion). PyTorch's functions are from Cephes (S. L.
Moshier, "Methods and programs for mathematical functions", 1989), which has the same
intervals. DLMF is the NIST Digital Library of Mathematical Functions.
"""

from __future__ import annotations

import math

from xdsl.dialects.builtin import f64

from padc.passes.aten import chebyshev_tables as tables
from padc.passes.aten.chebyshev import Chebyshev
from padc.passes.aten.element import Element

J0_ROOTS = 5.783185962946784, 30.471262343662087
"""The squares of the first two positive roots of J0."""
J1_ROOTS = 14.681970642123893, 49.21845632169460
"""The squares of the first two positive roots of J1."""

LOG_2 = math.log(2)


# --- modified -------------------------------------------------------------------------


def i0(x: Element) -> Element:
    return abs(x).apply("exp") * i0e(x)


def i0e(x: Element) -> Element:
    """exp(-|x|) I0(x)."""
    x = abs(x)
    far = tables.I0_FAR(1 / x) / x.apply("sqrt")
    return (x <= 8).select(tables.I0_NEAR(x), far)


def i1(x: Element) -> Element:
    return abs(x).apply("exp") * i1e(x)


def i1e(x: Element) -> Element:
    """exp(-|x|) I1(x)."""
    size = abs(x)
    far = tables.I1_FAR(1 / size) / size.apply("sqrt")
    far = (x < 0).select(-far, far)
    return (size <= 8).select(x * tables.I1_NEAR(size), far)


def k0(x: Element) -> Element:
    near, far = k0_parts(x)
    return (x <= 2).select(near, (-x).apply("exp") * far)


def scaled_k0(x: Element) -> Element:
    """exp(x) K0(x)."""
    near, far = k0_parts(x)
    return (x <= 2).select(near * x.apply("exp"), far)


def k0_parts(x: Element) -> tuple[Element, Element]:
    """K0(x) for x <= 2, and exp(x) K0(x) for x >= 2 (DLMF 10.31.2)."""
    first_kind = tables.I0_NEAR(x) * x.apply("exp")
    near = tables.K0_NEAR(x * x) - (x.apply("log") - LOG_2) * first_kind
    return near, tables.K0_FAR(1 / x) / x.apply("sqrt")


def k1(x: Element) -> Element:
    near, far = k1_parts(x)
    return (x <= 2).select(near, (-x).apply("exp") * far)


def scaled_k1(x: Element) -> Element:
    """exp(x) K1(x)."""
    near, far = k1_parts(x)
    return (x <= 2).select(near * x.apply("exp"), far)


def k1_parts(x: Element) -> tuple[Element, Element]:
    """K1(x) for x <= 2, and exp(x) K1(x) for x >= 2 (DLMF 10.31.1)."""
    first_kind = x * tables.I1_NEAR(x) * x.apply("exp")
    near = tables.K1_NEAR(x * x) / x + (x.apply("log") - LOG_2) * first_kind
    near = x.equals(0).select(math.inf, near)
    return near, tables.K1_FAR(1 / x) / x.apply("sqrt")


# --- Bessel ---------------------------------------------------------------------------


def j0(x: Element) -> Element:
    x = abs(x)
    cosine, _ = waves(x, 1 / 4, tables.P0, tables.Q0)
    return (x <= 5).select(j0_near(x), cosine)


def j1(x: Element) -> Element:
    size = abs(x)
    cosine, _ = waves(size, 3 / 4, tables.P1, tables.Q1)
    cosine = (x < 0).select(-cosine, cosine)
    return (size <= 5).select(j1_near(x), cosine)


def y0(x: Element) -> Element:
    """Y0(x) (DLMF 10.8.2)."""
    _, sine = waves(x, 1 / 4, tables.P0, tables.Q0)
    near = tables.Y0_NEAR(x * x) + x.apply("log") * j0_near(x) * (2 / math.pi)
    return (x <= 5).select(near, sine)


def y1(x: Element) -> Element:
    """Y1(x) (DLMF 10.8.1)."""
    _, sine = waves(x, 3 / 4, tables.P1, tables.Q1)
    rest = x.apply("log") * j1_near(x) - 1 / x
    near = tables.Y1_NEAR(x * x) * x + rest * (2 / math.pi)
    near = x.equals(0).select(-math.inf, near)
    return (x <= 5).select(near, sine)


def j0_near(x: Element) -> Element:
    square = x * x
    (a, b), factor = J0_ROOTS, tables.J0_NEAR(square)
    return (square - a) * (square - b) * factor


def j1_near(x: Element) -> Element:
    square = x * x
    (a, b), factor = J1_ROOTS, tables.J1_NEAR(square)
    return (square - a) * (square - b) * factor * x


def waves(
    x: Element, turns: float, p: Chebyshev, q: Chebyshev
) -> tuple[Element, Element]:
    """Hankel's expansion of Jn(x) and Yn(x), whose phase is late by `turns * pi`."""
    phase, inverse = x - turns * math.pi, 1 / x
    w = inverse * inverse
    sin, cos = phase.apply("sin"), phase.apply("cos")
    even, odd = p(w), q(w) * inverse
    size = math.sqrt(2 / math.pi) / x.apply("sqrt")
    return (even * cos - odd * sin) * size, (even * sin + odd * cos) * size


def spherical_j0(x: Element) -> Element:
    y = x.equals(0).select(1, x.apply("sin") / x)
    return abs(x).equals(math.inf).select(0, y)


# --- Airy -----------------------------------------------------------------------------


def airy_ai(x: Element) -> Element:
    """Ai(x) (DLMF 9.4.1, 9.7.5, 9.7.9); NaN at infinity, as in PyTorch."""
    size = abs(x)
    root = size.apply("sqrt")
    # Far from 0 the result depends on the rounding of zeta: this is PyTorch's.
    fourth_root, zeta = root.apply("sqrt"), size * 2 * root / 3
    inverse = 1 / zeta
    angle, w = zeta + math.pi / 4, inverse * inverse
    wave = angle.apply("sin") * tables.AIRY_P(w)
    wave = wave - angle.apply("cos") * tables.AIRY_Q(w) * inverse
    left = wave / fourth_root * math.sqrt(1 / math.pi)
    fall = (-zeta).apply("exp") * tables.AIRY_FAR(inverse)
    right = fall / fourth_root * (0.5 * math.sqrt(1 / math.pi))
    y = (x < 0).select(left, right)
    y = size.equals(math.inf).select(math.nan, y)
    return (size < 2.09).select(airy_near(x), y)


def airy_near(x: Element) -> Element:
    """Ai(x) by its power series at 0."""
    cube = x * x * x
    count = 14 if x.type == f64 else 9
    even, odd = [0.3550280538878172], [-0.2588194037928068]
    for k in range(1, count):
        even.append(even[-1] / (3 * k * (3 * k - 1)))
        odd.append(odd[-1] / (3 * k * (3 * k + 1)))
    return polynomial(cube, even) + polynomial(cube, odd) * x


def polynomial(x: Element, coefficients: list[float]) -> Element:
    """The sum of `coefficients[k] * x^k`, by Horner's rule."""
    *others, last = coefficients
    y = x * last + others.pop()
    for coefficient in reversed(others):
        y = y * x + coefficient
    return y
