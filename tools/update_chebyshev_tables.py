# pyright: basic
"""
Write `passes/aten/chebyshev_tables.py`: the special functions as Chebyshev series.

    python -m padc.tools.update_chebyshev_tables

It needs mpmath, which comes with PyTorch, and a minute. Each function here is smooth on
its interval, ends included, so that its series converges geometrically.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mpmath import mp, mpf

TABLES_FILE = Path(__file__).parents[1] / "passes" / "aten" / "chebyshev_tables.py"

HEADER = '''\
# Written by tools/update_chebyshev_tables.py.
"""The special functions as Chebyshev series, to the precision of float64."""

from padc.passes.aten.chebyshev import Chebyshev
'''

DIGITS = 40
NODES = 80
SMALLEST = mpf(2) ** -56
"""Coefficients are left out from where they are smaller, relative to the first."""

Real = Any
FUNCTIONS: list[tuple[Callable[[Real], Real], float, float]] = []


def table(low: float, high: float) -> Callable[[Callable[[Real], Real]], Any]:
    """A function whose series on an interval is written, under its name."""

    def add(function: Callable[[Real], Real]) -> Callable[[Real], Real]:
        FUNCTIONS.append((function, low, high))
        return function

    return add


# --- error function -------------------------------------------------------------------


@table(0, 1)
def erfcx(u: Real) -> Real:
    """(1 + 2x) exp(x^2) erfc(x) for x >= 0, of u = 3.75 / (x + 3.75)."""
    x = mpf("3.75") * (1 - u) / u
    if x < 30:
        return (1 + 2 * x) * mp.exp(x * x) * mp.erfc(x)
    return (2 + 1 / x) / mp.sqrt(mp.pi) * mp.hyp2f0(1, 0.5, -1 / x**2)


@table(751**-0.5, 6**-0.5)
def erfinv(u: Real) -> Real:
    """u erfinv(x) / x, of u = 1 / sqrt(6 - log(1 - x^2)), down to 1 - x^2 = e^-745."""
    w = max(1 / u**2 - 6, mpf(10) ** -30)
    x = mp.sqrt(-mp.expm1(-w))
    if x < 0.9:
        return u * mp.erfinv(x) / x
    log_rest = -w - mp.log(1 + x)
    y = mp.sqrt(max(mpf("0.3"), -log_rest - mp.log(-mp.pi * log_rest) / 2))
    for _ in range(60):  # Newton's method for log(erfc(y)) = log(1 - x)
        rest = mp.erfc(y)
        y += (mp.log(rest) - log_rest) * rest * mp.sqrt(mp.pi) / 2 * mp.exp(y * y)
    return u * y / x


# --- gamma function -------------------------------------------------------------------


@table(1, 3)
def lgamma(x: Real) -> Real:
    """log(gamma(x)) / ((x - 1) (x - 2))."""
    return mp.loggamma(x) / ((x - 1) * (x - 2))


@table(0, 1 / 9)
def lgamma_rest(w: Real) -> Real:
    """x times the error of Stirling's formula for log(gamma(x)), of w = 1 / x^2."""
    x = 1 / mp.sqrt(w)
    stirling = (x - 0.5) * mp.log(x) - x + mp.log(2 * mp.pi) / 2
    return (mp.loggamma(x) - stirling) * x


@table(1, 3)
def digamma(x: Real) -> Real:
    """psi(x) / (x - x0), where x0 is its root."""
    return mp.digamma(x) / (x - mp.findroot(mp.digamma, 1.46))


@table(0, 1 / 9)
def digamma_rest(w: Real) -> Real:
    """x^2 (log(x) - 1 / 2x - psi(x)), of w = 1 / x^2."""
    x = 1 / mp.sqrt(w)
    return (mp.log(x) - 1 / (2 * x) - mp.digamma(x)) / w


# --- modified Bessel functions --------------------------------------------------------


@table(0, 8)
def i0_near(x: Real) -> Real:
    """exp(-x) I0(x)."""
    return mp.exp(-x) * mp.besseli(0, x)


@table(0, 1 / 8)
def i0_far(u: Real) -> Real:
    """sqrt(x) exp(-x) I0(x), of u = 1 / x."""
    return mp.exp(-1 / u) * mp.besseli(0, 1 / u) / mp.sqrt(u)


@table(0, 8)
def i1_near(x: Real) -> Real:
    """exp(-x) I1(x) / x."""
    return mp.exp(-x) * mp.besseli(1, x) / x


@table(0, 1 / 8)
def i1_far(u: Real) -> Real:
    """sqrt(x) exp(-x) I1(x), of u = 1 / x."""
    return mp.exp(-1 / u) * mp.besseli(1, 1 / u) / mp.sqrt(u)


@table(0, 4)
def k0_near(w: Real) -> Real:
    """K0(x) + log(x / 2) I0(x), of w = x^2."""
    x = mp.sqrt(w)
    return mp.besselk(0, x) + mp.log(x / 2) * mp.besseli(0, x)


@table(0, 1 / 2)
def k0_far(u: Real) -> Real:
    """sqrt(x) exp(x) K0(x), of u = 1 / x."""
    return mp.exp(1 / u) * mp.besselk(0, 1 / u) / mp.sqrt(u)


@table(0, 4)
def k1_near(w: Real) -> Real:
    """x (K1(x) - log(x / 2) I1(x)), of w = x^2."""
    x = mp.sqrt(w)
    return x * (mp.besselk(1, x) - mp.log(x / 2) * mp.besseli(1, x))


@table(0, 1 / 2)
def k1_far(u: Real) -> Real:
    """sqrt(x) exp(x) K1(x), of u = 1 / x."""
    return mp.exp(1 / u) * mp.besselk(1, 1 / u) / mp.sqrt(u)


# --- Bessel functions -----------------------------------------------------------------


def without_roots(order: int, w: Real) -> Real:
    """Jn(x) divided by x^n and x^2 - r^2 for its first two roots r, of w = x^2."""
    x = mp.sqrt(w)
    roots = [mp.besseljzero(order, k) ** 2 for k in (1, 2)]
    return mp.besselj(order, x) / x**order / ((w - roots[0]) * (w - roots[1]))


@table(0, 25)
def j0_near(w: Real) -> Real:
    """J0(x) / ((x^2 - r1^2) (x^2 - r2^2)), with the first two roots, of w = x^2."""
    return without_roots(0, w)


@table(0, 25)
def j1_near(w: Real) -> Real:
    """J1(x) / (x (x^2 - r1^2) (x^2 - r2^2)), with the first two roots, of w = x^2."""
    return without_roots(1, w)


@table(0, 25)
def y0_near(w: Real) -> Real:
    """Y0(x) - 2 / pi log(x) J0(x), of w = x^2."""
    x = mp.sqrt(w)
    return mp.bessely(0, x) - 2 / mp.pi * mp.log(x) * mp.besselj(0, x)


@table(0, 25)
def y1_near(w: Real) -> Real:
    """(Y1(x) - 2 / pi (log(x) J1(x) - 1 / x)) / x, of w = x^2."""
    x = mp.sqrt(w)
    rest = mp.log(x) * mp.besselj(1, x) - 1 / x
    return (mp.bessely(1, x) - 2 / mp.pi * rest) / x


def hankel(order: int, w: Real) -> tuple[Real, Real]:
    """P and Q of Hankel's expansion of Jn(x) and Yn(x), of w = 1 / x^2."""
    x = 1 / mp.sqrt(w)
    phase = x - (2 * order + 1) * mp.pi / 4
    size = mp.sqrt(mp.pi * x / 2)
    j, y = mp.besselj(order, x) * size, mp.bessely(order, x) * size
    sin, cos = mp.sin(phase), mp.cos(phase)
    return j * cos + y * sin, y * cos - j * sin


@table(0, 1 / 25)
def p0(w: Real) -> Real:
    """P of Hankel's expansion of J0(x) and Y0(x), of w = 1 / x^2."""
    return hankel(0, w)[0]


@table(0, 1 / 25)
def q0(w: Real) -> Real:
    """x Q of Hankel's expansion of J0(x) and Y0(x), of w = 1 / x^2."""
    return hankel(0, w)[1] / mp.sqrt(w)


@table(0, 1 / 25)
def p1(w: Real) -> Real:
    """P of Hankel's expansion of J1(x) and Y1(x), of w = 1 / x^2."""
    return hankel(1, w)[0]


@table(0, 1 / 25)
def q1(w: Real) -> Real:
    """x Q of Hankel's expansion of J1(x) and Y1(x), of w = 1 / x^2."""
    return hankel(1, w)[1] / mp.sqrt(w)


# --- Airy function --------------------------------------------------------------------


def airy_waves(w: Real) -> tuple[Real, Real]:
    """P and Q of the expansion of Ai(-y), of w = 1 / zeta^2."""
    zeta = 1 / mp.sqrt(w)
    y = (1.5 * zeta) ** (mpf(2) / 3)
    size = mp.sqrt(mp.pi) * mp.root(y, 4)
    a, b = mp.airyai(-y) * size, mp.airybi(-y) * size
    sin, cos = mp.sin(zeta + mp.pi / 4), mp.cos(zeta + mp.pi / 4)
    return a * sin + b * cos, b * sin - a * cos


@table(0, 1 / 4)
def airy_p(w: Real) -> Real:
    """P of the expansion of Ai(-y), of w = 1 / zeta^2."""
    return airy_waves(w)[0]


@table(0, 1 / 4)
def airy_q(w: Real) -> Real:
    """zeta Q of the expansion of Ai(-y), of w = 1 / zeta^2."""
    return airy_waves(w)[1] / mp.sqrt(w)


@table(0, 1 / 2)
def airy_far(u: Real) -> Real:
    """2 sqrt(pi) y^(1/4) exp(zeta) Ai(y), of u = 1 / zeta."""
    y = (1.5 / u) ** (mpf(2) / 3)
    return 2 * mp.sqrt(mp.pi) * mp.root(y, 4) * mp.exp(1 / u) * mp.airyai(y)


# --- the file -------------------------------------------------------------------------


def coefficients(f: Callable[[Real], Real], low: Real, high: Real) -> list[float]:
    """The coefficients of f's series: its cosine transform at Chebyshev's nodes."""
    angles = [mp.pi * (2 * k + 1) / (2 * NODES) for k in range(NODES)]
    middle, half = (low + high) / 2, (high - low) / 2
    values = [f(middle + half * mp.cos(angle)) for angle in angles]
    terms = [
        2 * mp.fsum(y * mp.cos(i * a) for y, a in zip(values, angles)) / NODES
        for i in range(NODES)
    ]
    terms[0] /= 2
    count = max(i for i, c in enumerate(terms) if abs(c) > SMALLEST * abs(terms[0]))
    return [float(c) for c in terms[: count + 1]]


def tables_text() -> str:
    """The file's text."""
    parts = [HEADER]
    with mp.workdps(DIGITS):
        for function, low, high in FUNCTIONS:
            terms = coefficients(function, mpf(low), mpf(high))
            lines = "".join(f"        {c!r},\n" for c in terms)
            parts.append(
                f"{function.__name__.upper()} = Chebyshev(\n"
                f"    {low!r},\n    {high!r},\n    (\n{lines}    ),\n)\n"
                f'"""{inspect.getdoc(function)}"""\n'
            )
    return "\n".join(parts)


def main() -> None:
    TABLES_FILE.write_text(tables_text())


if __name__ == "__main__":
    main()
