# pyright: basic
"""Panels of columns."""

import pytest
from proofs import holds, ints, proves, quotient
from z3 import And, Implies

from padc.passes.common.kernel_tiles import MOST_VECTORS
from padc.passes.linalg.panels import column_of


@proves("pack-weights")
@pytest.mark.parametrize("lanes", [2, 4, 8, 16])
def test_each_column_is_in_one_panel(lanes: int):
    n, count, p, c, q, d = ints("n count p c q d")
    for width in range(lanes, MOST_VECTORS * lanes + 1, lanes):
        inside = And(0 <= p, p < count, 0 <= c, c < width)
        other = And(0 <= q, q < count, 0 <= d, d < width)
        column = column_of(p, c, width)
        assert holds(And(0 <= column, column < count * width), inside)
        same = And(p == q, c == d)
        assert holds(
            Implies(column == column_of(q, d, width), same), And(inside, other)
        )
        panel = quotient(n, width)
        whole = And(0 <= n, n < count * width)
        assert holds(And(0 <= panel, panel < count), whole)
        assert holds(column_of(panel, n - panel * width, width) == n, whole)
