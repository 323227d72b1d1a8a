"""
The algebra of `reduce-ranks`, on index maps: groups of dimensions, and permutations.

A permutation that is done in steps moves each element to the same place. That is a
claim about the place of each dimension, which is checked for all permutations.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import z3
from hypothesis import given
from hypothesis import strategies as st
from proofs import proves

from padc.ir import mil
from padc.passes.tcp_to_mil.ranks.grouping import (
    Groups,
    Size,
    grouped,
    matching,
    refines,
    runs,
)
from padc.passes.tcp_to_mil.ranks.permutations import Step, steps


def moved(dims: tuple[int, ...], step: Step) -> tuple[int, ...]:
    return tuple(dims[dim] for dim in step.dims)


def legal(step: Step, rank: int) -> bool:
    """Whether a step merges all dimensions into few blocks, and permutes these."""
    return (
        [dim for block in step.blocks for dim in block] == list(range(rank))
        and sorted(step.order) == list(range(len(step.blocks)))
        and 1 < len(step.blocks) <= mil.MAX_RANK
    )


@pytest.mark.parametrize(
    "rank, counts",
    [
        (1, {0: 1}),
        (5, {0: 1, 1: 119}),
        (6, {0: 1, 1: 410, 2: 309}),
        (7, {0: 1, 1: 1066, 2: 3973}),
        pytest.param(8, {0: 1, 1: 2310, 2: 38005, 3: 4}, marks=pytest.mark.slow),
    ],
)
def test_every_permutation_is_done_in_few_steps(rank: int, counts: dict[int, int]):
    found: Counter[int] = Counter()
    for order in itertools.permutations(range(rank)):
        dims = tuple(range(rank))
        for step in steps(order):
            assert legal(step, rank)
            dims = moved(dims, step)
        assert dims == order
        found[len(steps(order))] += 1

    assert found == counts


@given(st.integers(8, 10).flatmap(lambda n: st.permutations(range(n))))
def test_permutations_of_many_dimensions(order: list[int]):
    dims = tuple(range(len(order)))

    found = steps(tuple(order))

    assert all(legal(step, len(order)) for step in found)
    for step in found:
        dims = moved(dims, step)
    assert dims == tuple(order)


@pytest.mark.parametrize("rank", [6, 7, 8])
def test_no_permutation_takes_more_steps_than_it_needs(rank: int):
    """One step reaches exactly the permutations of at most five runs."""
    reached = {
        tuple(dim for block in order for dim in range(*ends[block : block + 2]))
        for cuts in itertools.combinations(range(1, rank), mil.MAX_RANK - 1)
        for ends in [(0, *cuts, rank)]
        for order in itertools.permutations(range(mil.MAX_RANK))
    }
    few = {
        order
        for order in itertools.permutations(range(rank))
        if len(runs(order)) <= mil.MAX_RANK
    }

    assert reached == few


def test_a_step_moves_each_element_to_its_place():
    """Merging, permuting and splitting, on the elements' numbers themselves."""
    sizes = (2, 3, 2, 2, 3, 2)
    x = np.arange(math.prod(sizes)).reshape(sizes)
    for order in list(itertools.permutations(range(6)))[::7]:
        y, dims = x.ravel(), tuple(range(6))
        for step in steps(order):
            now = [sizes[dim] for dim in dims]
            merged = [math.prod(now[dim] for dim in block) for block in step.blocks]
            y = y.reshape(merged).transpose(step.order).ravel()
            dims = moved(dims, step)

        np.testing.assert_array_equal(y, x.transpose(order).ravel())


# --- groups ----------------------------------------------------------------------------


def test_grouped():
    assert grouped([True, True, False, None, False, True]) == ((0, 1), (2, 4), (5,))
    assert grouped([None, None]) == ()


@pytest.mark.parametrize(
    "groups, is_fine",
    [
        (((0,), (1,), (2, 3)), True),
        (((0, 1), (), (2,), (3,)), True),
        (((0, 1), (2, 3)), True),
        (((0,), (1, 2), (3,)), False),
        (((0, 1), (2,)), False),
        (((0, 1, 2, 3),), False),
    ],
)
def test_refines(groups: Groups, is_fine: bool):
    assert refines(groups, ((0, 1), (2, 3))) == is_fine


B, N = Size(1, ("b",)), Size(1, ("n",))


@pytest.mark.parametrize(
    "merged, sizes, groups",
    [
        ([Size(6), Size(4)], [Size(2), Size(3), Size(4)], ((0, 1), (2,))),
        ([Size(4), Size(6)], [Size(2), Size(3), Size(4)], None),
        ([B, Size(6)], [B, Size(3), Size(2)], ((0,), (1, 2))),
        # The sizes n and b * n / 6 have other names, but are all that is left.
        (
            [Size(2), N, Size(6)],
            [Size(2), B, B, Size(3), Size(2)],
            ((0,), (1, 2), (3, 4)),
        ),
        ([B * N, Size(6)], [N, B, Size(6)], ((0, 1), (2,))),
        ([N, B], [B, N], None),
        ([Size(1), Size(6)], [Size(1), Size(2), Size(3)], ((0,), (1, 2))),
        ([Size(1), Size(6)], [Size(2), Size(3)], ((), (0, 1))),
        ([], [], ()),
    ],
)
def test_matching(merged: list[Size], sizes: list[Size], groups: Groups | None):
    assert matching(merged, sizes) == groups


@given(st.lists(st.integers(1, 4), max_size=8), st.data())
def test_groups_that_match_have_the_sizes(sizes: list[int], data: st.DataObject):
    """Merging any adjacent dimensions is recognized, with 1s anywhere."""
    cuts = sorted(
        data.draw(st.sets(st.integers(1, max(len(sizes) - 1, 1)), max_size=4))
    )
    ends = [0, *[cut for cut in cuts if cut < len(sizes)], len(sizes)]
    merged = [math.prod(sizes[a:b]) for a, b in itertools.pairwise(ends)]

    groups = matching([*map(Size, merged)], [*map(Size, sizes)])

    assert groups is not None
    assert [math.prod(sizes[dim] for dim in group) for group in groups] == merged
    dims = [dim for group in groups for dim in group]
    assert dims == sorted(dims)
    assert all(sizes[dim] == 1 for dim in set(range(len(sizes))) - set(dims))


# --- proofs ---------------------------------------------------------------------------


def row_major(indices: Sequence[Any], sizes: Sequence[Any]) -> Any:
    """The place of an element in memory."""
    place: Any = z3.IntVal(0)
    for index, size in zip(indices, sizes, strict=True):
        place = place * size + index
    return place


def equal(a: Any, b: Any) -> bool:
    """Whether two polynomials are the same, for all integers."""
    return z3.simplify(a - b, som=True).eq(z3.IntVal(0))


def merged_place(
    groups: Sequence[Sequence[int]], indices: Sequence[Any], sizes: Sequence[Any]
) -> Any:
    """The place of an element in a tensor with a dimension for each group."""
    along = [
        row_major([indices[d] for d in group], [sizes[d] for d in group])
        for group in groups
    ]
    lengths = [math.prod([sizes[d] for d in group], start=1) for group in groups]
    return row_major(along, lengths)


@proves("rewrite_permute", "rewrite_transpose", "rewrite_t", "rewrite_movedim")
@pytest.mark.parametrize("rank", range(2, 7))
def test_a_step_moves_each_element_to_its_place_for_all_sizes(rank: int):
    """The merged dimensions, permuted, hold elements where the dimensions do."""
    sizes = [z3.Int(f"size{d}") for d in range(rank)]
    indices = [z3.Int(f"index{d}") for d in range(rank)]
    refuted = 0
    for order in itertools.permutations(range(rank)):
        for step in steps(order):
            blocks = [step.blocks[block] for block in step.order]
            moved = merged_place(blocks, indices, sizes)
            dims = step.dims
            place = row_major([indices[d] for d in dims], [sizes[d] for d in dims])
            assert equal(moved, place)
            # In the old order they would be elsewhere.
            refuted += not equal(merged_place(step.blocks, indices, sizes), place)
    assert refuted > 0


@proves("rewrite_view", "rewrite_view_as", "rewrite_flatten", "rewrite_unflatten")
@proves("rewrite_squeeze", "rewrite_unsqueeze", "rewrite_copy")
@pytest.mark.parametrize("rank", range(1, 6))
def test_groups_that_match_hold_elements_in_the_same_places(rank: int):
    """Of symbolic sizes and ones, merged in every way."""
    names = [z3.Int(f"size{d}") for d in range(rank)]
    indices = [z3.Int(f"index{d}") for d in range(rank)]
    for ones in itertools.product([False, True], repeat=rank):
        symbols = [
            Size(1) if one else Size(1, (f"size{d}",)) for d, one in enumerate(ones)
        ]
        sizes: list[Any] = [1 if one else n for one, n in zip(ones, names, strict=True)]
        at: list[Any] = [0 if one else i for one, i in zip(ones, indices, strict=True)]
        for cuts in itertools.product([False, True], repeat=rank - 1):
            labels = [0, *itertools.accumulate(cuts)]
            merged = [
                math.prod(
                    [s for s, label in zip(symbols, labels, strict=True) if label == n],
                    start=Size(1),
                )
                for n in range(labels[-1] + 1)
            ]
            groups = matching(merged, symbols)
            assert groups is not None
            assert equal(merged_place(groups, at, sizes), row_major(at, sizes))
