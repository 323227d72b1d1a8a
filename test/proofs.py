"""Proofs by z3: formulas of padc evaluated on z3's own terms."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import pytest
import z3


def proves(*rewrites: str) -> pytest.MarkDecorator:
    """Mark a test as the proof of these rewrites: see test_proofs.py."""
    return pytest.mark.proves(*rewrites)


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
    """Whether `claim` is true for all integers for which all of `given` is, and some are."""
    # z3's search depends on the terms that a context has had: those of other tests.
    apart = z3.Context()

    def moved(condition: Any) -> Any:
        if isinstance(condition, bool):
            return z3.BoolVal(condition, apart)
        return condition.translate(apart)

    solver = z3.Solver(ctx=apart)
    solver.set("timeout", 60_000)
    solver.add(*map(moved, given))
    assert not given or solver.check() == z3.sat, (
        "z3 could not satisfy the assumptions in time"
    )
    solver.add(z3.Not(moved(claim)))
    result = solver.check()
    assert result != z3.unknown
    return result == z3.unsat


@contextmanager
def symbolic() -> Generator[None]:
    """Let formulas take z3's integers: give them what `padc.ir.arithmetic` asks for."""
    with pytest.MonkeyPatch.context() as patch:
        methods = {"maximum": largest, "minimum": smallest, "__floordiv__": quotient}
        for name, method in methods.items():
            patch.setattr(z3.ArithRef, name, method, raising=False)
        patch.setattr(z3.BoolRef, "select", choose, raising=False)
        yield
