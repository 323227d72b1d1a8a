"""
Permutations of many dimensions, in steps of few.

A step merges adjacent dimensions into blocks, permutes the blocks, and splits them
again. A permutation whose dimensions stay together in at most five runs is one step.
Two steps are enough for seven runs, and for all but four of the permutations of eight.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from padc.ir import mil
from padc.passes.tcp_to_mil.ranks.grouping import runs

Order: TypeAlias = tuple[int, ...]
"""Dimension i of the result is dimension `order[i]` of the operand."""


@dataclass(frozen=True)
class Step:
    """A permutation of blocks of adjacent dimensions."""

    blocks: tuple[range, ...]
    """The blocks, which cover all dimensions in order."""
    order: Order
    """Block i of the result is `blocks[order[i]]`."""

    @property
    def dims(self) -> Order:
        """The same as a permutation of dimensions."""
        return tuple(dim for block in self.order for dim in self.blocks[block])


def steps(order: Order) -> list[Step]:
    """A permutation as steps of at most `mil.MAX_RANK` blocks; the first one first."""
    parts = runs(order)
    blocks = sorted(parts, key=lambda block: block.start)
    found: list[Step] = []
    for step in steps_of_runs(tuple(map(blocks.index, parts))):
        found.append(Step(joined(blocks, step.blocks), step.order))
        blocks = [blocks[run] for run in step.dims]
    return found


def joined(blocks: Sequence[range], parts: Sequence[range]) -> tuple[range, ...]:
    """Blocks of as many dimensions as the blocks `parts` have together, from 0 on."""
    sizes = [sum(len(blocks[i]) for i in part) for part in parts]
    ends = list(itertools.accumulate(sizes))
    return tuple(range(end - size, end) for end, size in zip(ends, sizes))


@cache
def steps_of_runs(order: Order) -> tuple[Step, ...]:
    """The steps of a permutation none of whose dimensions stay next to each other."""
    rank = len(order)
    if rank <= mil.MAX_RANK:
        ones = tuple(range(i, i + 1) for i in range(rank))
        return (Step(ones, order),) if rank > 1 else ()
    choices, places = moves(rank)
    # For each choice, the permutation that is left after it.
    rest = places[:, order]
    left = 1 + np.sum(np.diff(rest) != 1, axis=1)
    best = int(np.argmin(np.maximum(left, mil.MAX_RANK)))
    return choices[best], *steps(tuple(map(int, rest[best])))


@cache
def moves(rank: int) -> tuple[list[Step], npt.NDArray[np.intp]]:
    """
    All permutations of `mil.MAX_RANK` blocks of `rank` dimensions.

    For each of them also the place that each dimension has after it.
    """
    choices = [
        Step(tuple(map(range, (0, *cuts), (*cuts, rank))), order)
        for cuts in itertools.combinations(range(1, rank), mil.MAX_RANK - 1)
        for order in itertools.permutations(range(mil.MAX_RANK))
    ]
    return choices, np.argsort([step.dims for step in choices], axis=1)
