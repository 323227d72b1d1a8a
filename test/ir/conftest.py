"""Fixtures of the proofs."""

from collections.abc import Iterator

import proofs
import pytest


@pytest.fixture
def symbolic() -> Iterator[None]:
    """Let formulas take z3's integers."""
    with proofs.symbolic():
        yield
