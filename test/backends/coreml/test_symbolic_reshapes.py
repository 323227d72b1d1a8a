# pyright: basic
"""Sizes that a division finds, against coremltools' solver."""

from typing import Any

import pytest
from sympy import Symbol, floor

from padc.backends.coreml import symbolic_reshapes
from padc.backends.coreml.symbolic_reshapes import sizes, solve

N, M, A, B = map(Symbol, "NMAB")
QUICK = {
    "one unknown": (12 * N, [A, 4]),
    "one unknown that is a number": (12 * N, [N, A, 4]),
    "one unknown of two sizes": (12 * N * M, [A, M, 4]),
    "one unknown of a square": (12 * N**2, [A, 4]),
    "two unknown": (12 * N, [A, B, 4]),
    "nothing unknown": (12 * N * M, [M, 12, N]),
    "a half": (4 * floor(N / 2), [A, 4]),
    "no unknown volume": (24, [A, 4]),
}
SOLVED = {
    "twice": (12 * N**2, [A, A, 12]),
    "a square": (12 * N**2, [N, A, 12]),
    "an expression": (12 * N, [A, 2 * N]),
    "inferred": (24, [2, -1]),
}


@pytest.fixture
def solved(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    calls: list[Any] = []
    monkeypatch.setattr(
        symbolic_reshapes, "solve", lambda *args: (calls.append(args), solve(*args))[1]
    )
    return calls


@pytest.mark.parametrize("volume, shape", QUICK.values(), ids=QUICK)
def test_sizes_without_the_solver(volume: Any, shape: list[Any], solved: list[Any]):
    assert sizes(volume, shape) == solve(volume, shape)
    assert not solved


@pytest.mark.parametrize("volume, shape", SOLVED.values(), ids=SOLVED)
def test_sizes_with_the_solver(volume: Any, shape: list[Any], solved: list[Any]):
    assert sizes(volume, shape) == solve(volume, shape)
    assert solved
