"""
The algebra of pads, proved by z3 for all sizes and amounts.

The conditions that the rewrites of `padc.ir.tcp.pad_patterns` test are run on z3's
integers themselves. With each proof comes a claim that goes one step too far, which z3
must refute: it shows that the proof can fail.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import z3
from pad_modes import (
    CHECKS,
    MODES,
    Legal,
    Source,
    amounts_named,
    legal_circular,
    legal_constant,
    legal_replication,
    legal_symmetric,
    size_after,
    within,
    wrapped,
    wrapped_once,
)
from proofs import holds, ints, largest, proves, smallest

from padc.ir import padding
from padc.ir.padding import Amounts, place

pytestmark = pytest.mark.usefixtures("symbolic")


def accepts(check: Callable[..., None], *arguments: int) -> bool:
    try:
        check(*arguments)
    except ValueError:
        return False
    return True


def test_what_is_legal_here_is_what_the_checks_accept():
    everything = itertools.product(range(5), range(-6, 7), range(-6, 7))
    legal = {"constant": legal_constant} | {mode: MODES[mode][0] for mode in MODES}
    for size, lower, upper in everything:
        for mode, check in CHECKS.items():
            expected = legal[mode](z3.IntVal(size), Amounts(lower, upper))
            assert z3.is_true(z3.simplify(expected)) == accepts(
                check, size, lower, upper
            )


def test_a_legal_circular_pad_wraps_once():
    size, j = ints("size j")
    amounts: Any = Amounts(*ints("lower upper"))
    inside = within(j, size_after(size, amounts))
    same = wrapped(j, size, amounts) == wrapped_once(j, size, amounts)

    assert holds(same, legal_circular(size, amounts), inside)
    assert not holds(same, size > 0, inside)


def test_legal_pads_read_inside_their_input():
    size, j = ints("size j")
    amounts: Any = Amounts(*ints("lower upper"))
    inside = within(j, size_after(size, amounts))
    for legal, source, _ in MODES.values():
        reads = within(source(j, size, amounts), size)

        assert holds(reads, legal(size, amounts), inside)
    # One too wide.
    too_wide = {
        "reflect": legal_symmetric,
        "symmetric": legal_replication,
        "circular": legal_constant,
    }
    for mode, legal in too_wide.items():
        reads = within(MODES[mode][1](j, size, amounts), size)
        assert not holds(reads, legal(size, amounts), inside)


# Pad of pad: constant.


class TwoPads:
    """One of `inner`, then one of `outer`, of `size` elements; a position `at`."""

    def __init__(self):
        self.size, self.at = ints("size at")
        self.inner, self.outer = amounts_named("inner"), amounts_named("outer")
        self.total: Any = self.inner.then(self.outer)
        self.between = size_after(self.size, self.inner)
        self.after = size_after(self.between, self.outer)

    def edges_only(self) -> Any:
        return z3.And(self.inner.interior == 0, self.outer.interior == 0)

    def both_constant(self) -> Any:
        return z3.And(
            legal_constant(self.size, self.inner),
            legal_constant(self.between, self.outer),
        )

    def one_constant_pad(self) -> Any:
        """
        Whether the one pad is legal, leaves the same size, and brings the element
        `at` to the position where the two bring it, or crops it if they do.

        All else is fill, in the two as in the one.
        """
        first, one = (
            place(self.at, self.inner),
            place(self.at, self.total),
        )
        second = place(first, self.outer)
        kept = z3.And(
            within(self.at, self.size),
            within(first, self.between),
            within(second, self.after),
        )
        kept_by_one = z3.And(within(self.at, self.size), within(one, self.after))
        return z3.And(
            legal_constant(self.size, self.total),
            size_after(self.size, self.total) == self.after,
            kept == kept_by_one,
            z3.Implies(kept, second == one),
        )

    def one_pad(self, legal: Legal, source: Source) -> Any:
        """Whether the one pad is legal, as large, and shows the same at `at`."""
        between = source(self.at, self.between, self.outer)
        twice = source(between, self.size, self.inner)
        once = source(self.at, self.size, self.total)
        return z3.And(
            legal(self.size, self.total),
            size_after(self.size, self.total) == self.after,
            z3.Implies(within(self.at, self.after), twice == once),
        )


@proves("PadOfPad")
def test_constant_pads_that_fold_are_one():
    pads = TwoPads()
    inner, outer, both = pads.inner, pads.outer, pads.both_constant()
    one = pads.one_constant_pad()
    spread_once = outer.interior == 0

    assert holds(one, both, padding.constant_pads_fold(inner, outer))
    # A crop that is filled again, on either side.
    assert not holds(one, both, spread_once, inner.upper >= 0)
    assert not holds(one, both, spread_once, inner.lower >= 0)

    # Of some elements that are known to be there, more folds.
    least: Any = z3.Int("least")
    some = padding.constant_pads_fold(inner, outer, least)
    assert holds(one, both, some, least >= 0, pads.size >= least)
    assert not holds(one, both, some, least >= 0, pads.size >= least - 1)
    # Fills between elements, some of which are cropped on the way.
    assert not holds(one, both, outer.lower >= 0, outer.upper >= 0, pads.size > 0)


def test_sums_of_interior_amounts_are_too_little():
    pads = TwoPads()
    pads.total = Amounts(
        pads.inner.lower + pads.outer.lower,
        pads.inner.upper + pads.outer.upper,
        pads.inner.interior + pads.outer.interior,
    )
    no_edges = z3.And(pads.inner.lower == 0, pads.inner.upper == 0)

    assert not holds(pads.one_constant_pad(), pads.both_constant(), no_edges)


@proves("PadOfFull")
def test_a_crop_shows_no_fill():
    size, j = ints("size j")
    amounts = amounts_named("a")
    inside = within(j, size_after(size, amounts))
    shown = within(j - amounts.lower, size)

    assert holds(shown, legal_constant(size, amounts), inside, padding.is_crop(amounts))
    for adds in (amounts.lower <= 1, amounts.upper <= 1):
        nearly = z3.And(amounts.interior == 0, amounts.lower + amounts.upper <= 0, adds)
        assert not holds(shown, legal_constant(size, amounts), inside, nearly)


@proves("NoInterior")
def test_of_one_element_there_is_no_interior():
    size, at = ints("size at")
    amounts = amounts_named("a")
    edges: Any = Amounts(amounts.lower, amounts.upper, 0)
    same = z3.And(
        legal_constant(size, edges),
        size_after(size, edges) == size_after(size, amounts),
        z3.Implies(within(at, size), place(at, edges) == place(at, amounts)),
    )

    assert holds(same, legal_constant(size, amounts), padding.has_no_interior(size))
    assert not holds(same, legal_constant(size, amounts), size <= 2)


@proves("PadOfNothing")
def test_a_pad_of_nothing_is_all_fill():
    size, at = ints("size at")
    amounts = amounts_named("a")
    legal = legal_constant(size, amounts)
    hidden = z3.Not(
        z3.And(
            within(at, size),
            within(place(at, amounts), size_after(size, amounts)),
        )
    )

    assert holds(hidden, legal, padding.is_all_fill(size, amounts))
    # All but one.
    assert not holds(hidden, legal, amounts.lower + size <= 1)


# Pad of pad: by what stands at the border, or a crop.


@proves("BorderPadOfBorderPad")
@pytest.mark.parametrize("mode", MODES)
def test_border_pads_that_fold_are_one(mode: str):
    legal, source, fold = MODES[mode]
    pads = TwoPads()
    inner, outer = pads.inner, pads.outer
    both = z3.And(
        legal(pads.size, inner), legal(pads.between, outer), pads.edges_only()
    )
    one = pads.one_pad(legal, source)

    assert holds(one, both, fold(inner, outer))
    assert not holds(one, both)
    assert not holds(one, both, inner.lower >= 0)
    assert not holds(one, both, inner.upper >= 0)


@proves("CropByBorderPad")
@pytest.mark.parametrize("mode", MODES)
def test_a_crop_is_a_border_pad_that_adds_nothing(mode: str):
    size, j = ints("size j")
    none: Any = z3.IntVal(0)
    lower, upper = ints("lower upper")
    amounts: Any = Amounts(lower, upper, none)
    legal, source, _ = MODES[mode]
    crop = z3.And(legal_constant(size, amounts), padding.is_crop(amounts))
    inside = within(j, size_after(size, amounts))
    same = z3.And(
        legal(size, amounts),
        z3.Implies(inside, source(j, size, amounts) == j - amounts.lower),
    )
    crops = z3.Or(amounts.lower < 0, amounts.upper < 0)

    assert holds(same, crop, crops)
    assert not holds(same, legal_constant(size, amounts), crops)
    # And the other way round.
    assert holds(crop, legal(size, amounts), padding.is_crop(amounts))
    assert not holds(crop, legal(size, amounts))


# Which pads do not fold: the conditions are no stricter than they need be.


def constant_pad(elements: list[int], amounts: Amounts) -> list[int]:
    lower, upper = amounts.lower, amounts.upper
    padding.check_constant(len(elements), lower, upper)
    inside = [j - lower for j in range(len(elements) + lower + upper)]
    return [elements[i] if 0 <= i < len(elements) else -1 for i in inside]


def border_pad(mode: str) -> Callable[[list[int], Amounts], list[int]]:
    def pad(elements: list[int], amounts: Amounts) -> list[int]:
        size, lower, upper = len(elements), amounts.lower, amounts.upper
        CHECKS[mode](size, lower, upper)
        positions = range(padding.padded_size(size, lower, upper))
        source = wrapped if mode == "circular" else MODES[mode][1]
        return [elements[source(j, size, amounts)] for j in positions]

    return pad


@pytest.mark.parametrize("mode", CHECKS)
def test_pads_that_do_not_fold_differ_for_some_size(mode: str):
    pad = constant_pad if mode == "constant" else border_pad(mode)
    fold = padding.constant_pads_fold if mode == "constant" else MODES[mode][2]

    def same(size: int, inner: Amounts, outer: Amounts) -> bool:
        elements = list(range(size))
        try:
            two = pad(pad(elements, inner), outer)
        except ValueError:
            return True
        try:
            return two == pad(elements, inner.then(outer))
        except ValueError:
            return False

    for a, b, c, d in itertools.product(range(-3, 4), repeat=4):
        inner, outer = Amounts(a, b), Amounts(c, d)
        always_same = all(same(size, inner, outer) for size in range(14))
        assert fold(inner, outer) == always_same


# Concatenations.


@proves("ConcatOfPads")
def test_concatenated_pads_are_one_pad():
    n, m, at = ints("n m at")
    first, second = amounts_named("first"), amounts_named("second")
    total: Any = Amounts(first.lower, second.upper, 0)
    middle, after = size_after(n, first), size_after(n, first) + size_after(m, second)
    legal = z3.And(legal_constant(n, first), legal_constant(m, second))
    # The element `at` of the two, concatenated: of the first, or else of the second.
    in_first = z3.And(within(at, n), within(place(at, first), middle))
    in_second = z3.And(
        within(at - n, m), within(place(at - n, second), size_after(m, second))
    )
    one = place(at, total)
    same = z3.And(
        legal_constant(n + m, total),
        size_after(n + m, total) == after,
        z3.And(within(at, n + m), within(one, after)) == z3.Or(in_first, in_second),
        z3.Implies(in_first, one == place(at, first)),
        z3.Implies(in_second, one == middle + place(at - n, second)),
    )

    assert holds(same, legal, padding.concatenated_pads_fold(first, second))
    flat = z3.And(first.interior == 0, second.interior == 0)
    assert not holds(same, legal, flat, first.upper == 0)
    assert not holds(same, legal, flat, second.lower == 0)
    assert not holds(same, legal, first.upper == 0, second.lower == 0)


def test_a_tensor_concatenated_with_fill_is_a_pad():
    block, size, at = ints("block size at")
    below: Any = Amounts(block, 0, 0)
    # A concatenation puts the element at `at` after the block, as the pad does.
    same = z3.And(
        size_after(size, below) == block + size,
        z3.Implies(within(at, size), place(at, below) == block + at),
    )

    assert holds(same, block >= 0, size >= 0)
    assert not holds(place(at, below) == at, block >= 0, within(at, size))


# Slices, which become pads, and constants, which are padded as this file says.


def test_a_slice_is_a_pad_that_crops():
    size, start, end, at = ints("size start end at")
    amounts = padding.sliced_amounts(size, start, end)
    after = size_after(size, amounts)
    # What is between the bounds, in its order, and nothing else.
    between = z3.And(within(at, size), start <= at, at < end)
    same = z3.And(
        legal_constant(size, amounts),
        padding.is_crop(amounts),
        z3.Implies(within(at, size), between == within(place(at, amounts), after)),
        after == largest(smallest(end, size) - largest(start, 0), 0),
    )

    assert holds(same, size >= 0)
    # Bounds that are taken as they are.
    monotone = z3.And(0 <= start, start <= size, 0 <= end, end <= size)
    plain: Any = Amounts(-start, end - size)
    assert not holds(legal_constant(size, plain), monotone)
    assert not holds(size_after(size, plain) == after, monotone)


@proves("PadOfLiteral")
def test_elements_of_a_constant_stay_apart_and_in_order():
    first, second = ints("first second")
    amounts = amounts_named("a")
    ordered = (first < second) == (place(first, amounts) < place(second, amounts))

    assert holds(ordered, amounts.interior >= 0)
    assert not holds(ordered, amounts.interior >= -1)


def test_a_constant_without_crops_keeps_all_elements():
    size, at = ints("size at")
    amounts = amounts_named("a")
    kept = within(place(at, amounts), size_after(size, amounts))
    given = legal_constant(size, amounts), within(at, size)

    assert holds(kept, *given, amounts.lower >= 0, amounts.upper >= 0)
    assert not holds(kept, *given, amounts.lower >= 0, amounts.upper >= -1)


@proves("PoolOfPad")
@pytest.mark.parametrize("stride, dilation", [(1, 1), (2, 1), (5, 1), (1, 2), (2, 3)])
def test_the_taps_of_a_pool_that_are_not_needed_are_outside(stride: int, dilation: int):
    size, kernel, start, end, window, tap = ints("size kernel start end window tap")
    windows = padding.conv_output_size(size, kernel, stride, dilation)
    given = [kernel >= 1, windows >= 1, 0 <= start, start < end, end <= size]
    steps: Any = (stride, dilation)
    needed: Any = padding.needed_taps(start, end, windows, kernel, *steps)
    # The first tap that is left is the same, counted in taps and in positions.
    (first,) = ints("first")
    given += [first * dilation == needed.below]
    within_window = z3.And(within(window, windows), within(tap, kernel))
    position = window * stride + tap * dilation
    meets = z3.And(start <= position, position < end)
    kept = within(tap - first, needed.count)

    assert holds(kept, *given, within_window, meets)
    assert holds(z3.And(first >= 0, needed.count >= 1), *given)
    assert holds(first + needed.count <= kernel, *given)
    left = padding.conv_output_size(needed.size, needed.count, *steps)
    assert holds(left == windows, *given)
    # Nothing that can be met is dropped with the taps.
    assert holds(
        z3.And(needed.below <= start, end <= needed.below + needed.size), *given
    )
    assert holds(needed.below + needed.size <= size, *given)
    fewer = within(tap - first, needed.count - 1)
    assert not holds(fewer, *given, within_window, meets)
    assert not holds(needed.count == kernel, *given)


@proves("ExpandOp.fold")
def test_a_pad_by_nothing_shows_its_input():
    size, j = ints("size j")
    zero: Any = z3.IntVal(0)
    none: Any = Amounts(zero, zero, zero)
    inside = within(j, size)

    assert holds(size_after(size, none) == size, size >= 0)
    assert holds(place(j, none) == j)
    for legal, source, _ in MODES.values():
        assert holds(source(j, size, none) == j, legal(size, none), inside)
    # By one, on both sides.
    shifted: Any = Amounts(zero + 1, zero - 1, zero)
    assert not holds(place(j, shifted) == j)
