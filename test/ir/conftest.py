"""Fixtures of the proofs."""

from collections.abc import Iterator

import pytest
import z3
from proofs import choose, largest, quotient, smallest


@pytest.fixture
def symbolic() -> Iterator[None]:
    """Let formulas take z3's integers: give them what `padc.ir.arithmetic` asks for."""
    with pytest.MonkeyPatch.context() as patch:
        methods = {"maximum": largest, "minimum": smallest, "__floordiv__": quotient}
        for name, method in methods.items():
            patch.setattr(z3.ArithRef, name, method, raising=False)
        patch.setattr(z3.BoolRef, "select", choose, raising=False)
        yield
