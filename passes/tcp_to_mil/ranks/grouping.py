"""
Adjacent dimensions in groups, each of which is merged into one dimension.

A tensor with merged dimensions has the same elements in the same order.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TypeAlias

Groups: TypeAlias = tuple[tuple[int, ...], ...]
"""
For each merged dimension, the dimensions in it.

They are in order. Dimensions of size 1 may be in no group, and a group may be empty:
then the merged dimension has size 1.
"""


def grouped(labels: Sequence[Hashable | None]) -> Groups:
    """Adjacent dimensions with equal labels, without those whose label is None."""
    kept = [dim for dim, label in enumerate(labels) if label is not None]
    return tuple(tuple(run) for _, run in groupby(kept, lambda dim: labels[dim]))


def apart(sizes: Sequence[object], *parts: Collection[int]) -> list[int | None]:
    """
    Labels by which the dimensions of each part are apart from the others.

    Adjacent dimensions of a part share a group. Others of size 1 are left out.
    """
    labels: list[int | None] = [None if size == 1 else 0 for size in sizes]
    for number, part in enumerate(parts, 1):
        for dim in part:
            labels[dim] = number
    return labels


def refines(groups: Groups, required: Groups) -> bool:
    """Whether each group is part of a group of `required`; both have the same dims."""
    if sum(groups, ()) != sum(required, ()):
        return False
    place = {dim: i for i, group in enumerate(required) for dim in group}
    return all(len({place[dim] for dim in group}) <= 1 for group in groups)


def without_ones(groups: Groups, shape: Sequence[int]) -> Groups:
    """The groups without the dimensions of size 1."""
    return tuple(tuple(dim for dim in group if shape[dim] != 1) for group in groups)


def runs(order: Sequence[int]) -> list[range]:
    """
    The longest parts of a permutation that count upwards.

    >>> runs([3, 0, 1, 2])
    [range(3, 4), range(0, 3)]
    """
    found: list[range] = []
    for dim in order:
        if found and dim == found[-1].stop:
            found[-1] = range(found[-1].start, dim + 1)
        else:
            found.append(range(dim, dim + 1))
    return found


@dataclass(frozen=True)
class Size:
    """A size that is a number times sizes that are known when the program runs."""

    factor: int
    names: tuple[Hashable, ...] = ()

    def __mul__(self, other: Size) -> Size:
        names = sorted((*self.names, *other.names), key=hash)
        return Size(self.factor * other.factor, tuple(names))


ONE = Size(1)


def matching(merged: Sequence[Size], sizes: Sequence[Size]) -> Groups | None:
    """
    Groups of dimensions of `sizes` that have the sizes `merged`; None if not known.

    Both have the same number of elements. That decides the sizes of one merged
    dimension, if those before and after it match.
    """
    before, start = matched(merged, sizes)
    if len(before) == len(merged):
        whole = all(size == ONE for size in sizes[start:])
        return tuple(map(tuple, before)) if whole else None
    left = len(merged) - len(before)
    after, count = matched(merged[::-1][: left - 1], sizes[start:][::-1])
    if len(after) < left - 1:
        return None
    stop = len(sizes) - count
    groups = [*before, list(range(start, stop))]
    groups += [[len(sizes) - 1 - dim for dim in group[::-1]] for group in after[::-1]]
    return tuple(map(tuple, groups))


def matched(
    merged: Sequence[Size], sizes: Sequence[Size]
) -> tuple[list[list[int]], int]:
    """Groups for the first dimensions of `merged`, and how many dims are in them."""
    groups: list[list[int]] = []
    start = 0
    for wanted in merged:
        stop, size = start, ONE
        while stop < len(sizes) and (size != wanted or stop == start):
            if wanted == ONE and sizes[stop] != ONE:
                break
            size *= sizes[stop]
            stop += 1
        if size != wanted:
            break
        groups.append(list(range(start, stop)))
        start = stop
    return groups, start
