"""
Rows of elements from other rows, as vectors: what to load, and which lanes to store.

Elements are numbers here: `Element` is one of a source, which is a contiguous run of
them, or a constant. A piece is a vector of the row. It takes its lanes from up to four
vectors, which are loaded from inside of the sources' runs, or are a constant in each
lane. The last piece may overlap the one before.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

Element: TypeAlias = tuple[int, int]
"""The number of a source, and the place of the element in it; 0 in a constant."""


MOST_LOADS = 4
"""The most vectors of a piece."""


@dataclass(frozen=True)
class Piece:
    """A vector of a row."""

    first: int
    """The place of its first element in the row."""
    loads: Sequence[Element]
    """The first element of each vector that is loaded."""
    width: int
    """The length of these vectors."""
    lanes: Sequence[int]
    """For each element its lane in the vectors, which are counted as one."""

    @property
    def is_copy(self) -> bool:
        """Whether the loaded vector is stored as it is."""
        return list(self.lanes) == list(range(self.width))


def pieces_of(
    row: Sequence[Element], longest: int, constants: Collection[int] = ()
) -> list[Piece] | None:
    """
    The pieces of a row, of up to `longest` elements each.

    None if one needs more than `MOST_LOADS` vectors. `constants` are sources.
    """
    length = min(longest, power_of_two(len(row)))
    runs: dict[int, tuple[int, int]] = {}
    for source, place in row:
        low, high = runs.get(source, (place, place))
        runs[source] = min(low, place), max(high, place)
    for source in constants:
        runs[source] = 0, longest - 1
    firsts = [*range(0, len(row) - length, length), len(row) - length]
    found = [piece_of(row[x : x + length], x, runs) for x in firsts]
    pieces = [piece for piece in found if piece is not None]
    return pieces if len(pieces) == len(found) else None


def piece_of(
    elements: Sequence[Element], first: int, runs: Mapping[int, tuple[int, int]]
) -> Piece | None:
    """
    The piece of `elements`, which begins at `first` in its row.

    Sources have elements from the first to the last place, inclusive, in `runs`.
    """
    width = len(elements)
    for source, _ in elements:
        low, high = runs[source]
        width = min(width, power_of_two(high - low + 1))
    loads: list[Element] = []
    for source, place in sorted(set(elements)):
        if loads and loads[-1][0] == source and place < loads[-1][1] + width:
            continue
        loads.append((source, min(place, runs[source][1] + 1 - width)))
    if len(loads) > MOST_LOADS:
        return None
    lanes: list[int] = []
    for source, place in elements:
        number, start = next(
            (number, start)
            for number, (other, start) in enumerate(loads)
            if other == source and start <= place < start + width
        )
        lanes.append(number * width + place - start)
    return Piece(first, tuple(loads), width, tuple(lanes))


def power_of_two(number: int) -> int:
    """The largest power of two that is not above `number`, which is positive."""
    return 1 << (number.bit_length() - 1)
