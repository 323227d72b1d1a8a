"""What the class of a pad mode declares is consistent."""

from collections.abc import Sequence
from itertools import product

import pytest

from padc.backends.reference.tcp.pads import MODES, padded_positions
from padc.ir import padding, tcp
from padc.ir.padding import Amounts

Mode = type[tcp.BorderPadOp]


def legal_cases(mode: Mode) -> list[tuple[int, int, int]]:
    """Sizes and amounts that `mode` takes."""
    cases: list[tuple[int, int, int]] = []
    for size, lower, upper in product(range(6), range(-7, 9), range(-7, 9)):
        try:
            mode.check_amounts(size, lower, upper)
        except ValueError:
            continue
        cases.append((size, lower, upper))
    assert len(cases) > 100
    return cases


def index_map(mode: Mode, size: int, lower: int, upper: int) -> list[int]:
    positions = range(padding.padded_size(size, lower, upper))
    return [mode.source_index(j, size, lower, upper) for j in positions]


def cropped(positions: Sequence[int], amounts: Amounts) -> list[int]:
    return list(positions)[-amounts.lower : len(positions) + amounts.upper]


def bordered(mode: Mode, positions: Sequence[int], added: Amounts) -> list[int]:
    """`positions` and what `mode.BORDER` shows below and above."""
    border = mode.BORDER
    distances = [border.first + n * border.step for n in range(100)]
    low, high = ([*positions][::way] for way in (1, -1))
    if border.opposite:
        low, high = high, low
    below = [low[distance] for distance in distances[: added.lower]]
    above = [high[distance] for distance in distances[: added.upper]]
    return [*reversed(below), *positions, *above]


@pytest.mark.parametrize("mode", tcp.BORDER_PADS)
def test_border_is_what_the_index_map_shows(mode: Mode):
    for size, lower, upper in legal_cases(mode):
        amounts = Amounts(lower, upper)

        if mode.CROPS_FIRST:
            left = cropped(range(size), amounts.cropped)
            shown = bordered(mode, left, amounts.added)
        else:
            whole = bordered(mode, range(size), amounts.added)
            shown = cropped(whole, amounts.cropped)

        assert shown == index_map(mode, size, lower, upper), (size, lower, upper)


@pytest.mark.parametrize("mode", tcp.BORDER_PADS)
def test_reference_shows_what_the_index_map_says(mode: Mode):
    for size, *amounts in legal_cases(mode):
        shown = padded_positions(size, MODES[mode], *amounts)

        assert list(shown) == index_map(mode, size, *amounts), (size, amounts)


@pytest.mark.parametrize("mode", tcp.BORDER_PADS)
def test_pads_that_fold_show_the_same(mode: Mode):
    """Proved for all sizes in test_pad_algebra.py; here, that the class asks that."""
    folded = 0
    for (size, *first), second in product(
        legal_cases(mode)[::3], product(range(-3, 4), repeat=2)
    ):
        inner, outer = Amounts(*first), Amounts(*second)
        shown = index_map(mode, size, inner.lower, inner.upper)
        try:
            mode.check_amounts(len(shown), outer.lower, outer.upper)
        except ValueError:
            continue
        if mode.folds(inner, outer):
            total = inner.then(outer)
            twice = [shown[j] for j in index_map(mode, len(shown), *second)]
            assert twice == index_map(mode, size, total.lower, total.upper)
            folded += 1
    assert folded > 100


def test_every_mode_is_an_op_of_the_dialect():
    ops = set(tcp.Tcp.operations)

    assert ops >= set(tcp.BORDER_PADS)
    assert {op for op in ops if issubclass(op, tcp.BorderPadOp)} == set(tcp.BORDER_PADS)
