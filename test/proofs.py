"""Proofs by z3: formulas of padc evaluated on z3's own terms."""

from typing import Any

import z3


def largest(a: Any, b: Any) -> Any:
    return choose(a > b, a, b)


def smallest(a: Any, b: Any) -> Any:
    return choose(a < b, a, b)


def quotient(a: Any, b: Any) -> Any:
    return a / b  # z3 rounds down where b is positive.


def choose(condition: Any, a: Any, b: Any) -> Any:
    if isinstance(condition, bool):
        return a if condition else b
    return z3.If(condition, a, b)


def ints(names: str) -> Any:
    return z3.Ints(names)


def holds(claim: Any, *given: Any) -> bool:
    """Whether `claim` is true for all integers for which all of `given` is."""
    solver = z3.Solver()
    solver.set("timeout", 60_000)
    solver.add(*given, z3.Not(claim))
    result = solver.check()
    assert result != z3.unknown
    return result == z3.unsat
