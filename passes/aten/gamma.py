"""
The gamma function's logarithm and derivatives, and Hurwitz's zeta function.

From 3 on, these are asymptotic expansions; from 1 to 3, series; below, the recurrence
in x. Negative numbers are reflected. DLMF is the NIST Digital Library of Mathematical
Functions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cache

from xdsl.dialects.builtin import f64

from padc.errors import Obstacle
from padc.passes.aten import chebyshev_tables as tables
from padc.passes.aten.element import Element

DIGAMMA_ROOT = 1.4616321449683623
MOST_TERMS = 32
"""The most gamma functions that a multivariate one is made of."""


def lgamma(x: Element) -> Element:
    """log|gamma(x)|; gamma(x) gamma(1 - x) = pi / sin(pi x) (DLMF 5.5.3)."""
    y = lgamma_of_positive((x < 0).select(1 - x, x))
    nearest = x.apply("round")
    sine = abs(((x - nearest) * math.pi).apply("sin"))
    # Not the logarithm of a quotient, which overflows near 0.
    reflected = math.log(math.pi) - sine.apply("log") - y
    reflected = x.equals(nearest).select(math.inf, reflected)
    return (x < 0).select(reflected, y)


def lgamma_of_positive(x: Element) -> Element:
    log = x.apply("log")
    is_below = x < 1
    near_1 = is_below.select(x, x - 1)
    near = near_1 * (near_1 - 1) * tables.LGAMMA(near_1 + 1)
    near = near - is_below.select(log, 0)
    rest = tables.LGAMMA_REST(1 / (x * x)) / x
    far = (x - 0.5) * (log - 1) + (math.log(2 * math.pi) - 1) / 2 + rest
    return (x < 3).select(near, far)


def mvlgamma(x: Element, p: int) -> Element:
    """The multivariate gamma function's logarithm (DLMF 35.3.4)."""
    if p > MOST_TERMS:
        raise Obstacle(f"{p} terms", f"let p be at most {MOST_TERMS}")
    result = lgamma(x)
    for i in range(1, p):
        result = result + lgamma(x - i / 2)
    return result + p * (p - 1) / 4 * math.log(math.pi)


def digamma(x: Element) -> Element:
    """psi(x); psi(1 - x) - psi(x) = pi / tan(pi x) (DLMF 5.5.4)."""
    y = digamma_of_positive((x < 0).select(1 - x, x))
    nearest = x.apply("round")
    reflected = y - math.pi / ((x - nearest) * math.pi).apply("tan")
    reflected = x.equals(nearest).select(math.nan, reflected)
    return (x < 0).select(reflected, y)


def digamma_of_positive(x: Element) -> Element:
    is_below = x < 1
    near_x = is_below.select(x + 1, x)
    near = (near_x - DIGAMMA_ROOT) * tables.DIGAMMA(near_x)
    near = near - is_below.select(1 / x, 0)
    w = 1 / (x * x)
    far = x.apply("log") - 0.5 / x - w * tables.DIGAMMA_REST(w)
    return (x < 3).select(near, far)


def polygamma(n: int, x: Element) -> Element:
    """The n-th derivative of psi, by Hurwitz's zeta function (DLMF 25.11.12)."""
    if n == 0:
        return digamma(x)
    if n == 1:
        return trigamma(x)
    factorial = float(math.factorial(n)) if n <= 170 else math.inf
    sign = 1 if n % 2 else -1
    return sign * factorial * zeta_of_all(x.constant(n + 1), x, sign)


def trigamma(x: Element) -> Element:
    """
    As PyTorch computes it, from `x + 6` on by the asymptotic expansion.

    Its sine of pi x is not reduced: at negative integers the result is large, not
    infinite.
    """
    is_below = x < 0.5
    sine = (x * math.pi).apply("sin")
    z = is_below.select(1 - x, x)
    y = 1 / (z * z)
    for _ in range(5):
        z = z + 1
        y = y + 1 / (z * z)
    z = z + 1
    w = 1 / (z * z)
    tail = 1 + 0.5 / z + w * (1 / 6 - w * (1 / 30 - w * (1 / 42)))
    y = y + tail / z
    return is_below.select(math.pi**2 / (sine * sine) - y, y)


def zeta(s: Element, q: Element | float) -> Element:
    """The sum of (q + k)^-s for k from 0 on: Hurwitz's zeta function."""
    q = s.lifted(q)
    half = s * 0.5
    odd = half.apply("floor").differs(half)
    is_whole = s.equals(s.apply("floor"))
    y = zeta_of_all(s, q, odd.select(s.constant(-1), 1))
    y = (is_whole | (q > 0) | q.equals(q.apply("floor"))).select(y, math.nan)
    return (s < 1).select(math.nan, s.equals(1).select(math.inf, y))


def zeta_of_all(s: Element, q: Element, sign: Element | int) -> Element:
    """
    Hurwitz's zeta function; for q below 0, `s` is whole and `sign` is (-1)^s.

    The terms below 0 are those from `r` on, without those from `1 - q` on, where `r` is
    the fraction of `-q`. The terms above 0 are those from `1 - r` on. At infinity it is
    NaN, as in PyTorch, not the limit 0.
    """
    y = zeta_of_positive(s, (q > 0).select(q, 1 - q))
    floor = (-q).apply("floor")
    r = -q - floor
    below = (zeta_of_positive(s, r) - y) * sign
    reflected = zeta_of_positive(s, 1 - r) + below
    reflected = (-q).equals(floor).select(math.inf, reflected)
    y = ((s + q).equals(math.inf) & (q > 1)).select(math.nan, y)
    return (q > 0).select(y, reflected)


def zeta_of_positive(s: Element, q: Element) -> Element:
    """
    Hurwitz's zeta function by Euler and Maclaurin's formula (DLMF 25.11.28).

    From s = 1000 on only the first terms matter, and the others must not overflow.
    """
    terms, corrections = (9, 12) if s.type == f64 else (4, 6)
    y = q.apply("pow", -s)
    for k in range(1, terms):
        y = y + (q + k).apply("pow", -s)
    w = q + terms
    power = w.apply("pow", -s)
    y = y + w.apply("pow", 1 - s) / (s - 1) + power * 0.5
    s = s.minimum(1000)
    term, square = power * s / w, w * w
    for k, factor in enumerate(bernoulli_factors(corrections)):
        y = y + term * factor
        term = term * (s + (2 * k + 1)) * (s + (2 * k + 2)) / square
    return y


@cache
def bernoulli_factors(count: int) -> Sequence[float]:
    """B(2k) / (2k)! for k from 1 on; z / (e^z - 1) is the sum of B(k) / k! z^k."""
    factors = [Fraction(1)]
    for n in range(1, 2 * count + 1):
        terms = (y / math.factorial(n + 1 - k) for k, y in enumerate(factors))
        factors.append(-sum(terms, Fraction(0)))
    return [float(y) for y in factors[2::2]]
