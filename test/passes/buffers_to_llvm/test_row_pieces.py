"""Rows of vectors: all rows of small pads, and random rows of two sources."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest

from padc.passes.buffers_to_llvm.row_pieces import (
    MOST_LOADS,
    Element,
    Piece,
    pieces_of,
)

MODES = ["constant", "edge", "reflect", "wrap"]
"""Of numpy."""


CONSTANT = 9


def stored(pieces: Sequence[Piece], runs: dict[int, range]) -> dict[int, Element]:
    """What the pieces store at each place; what they load has to be in `runs`."""
    found: dict[int, Element] = {}
    for piece in pieces:
        assert 1 <= len(piece.loads) <= MOST_LOADS
        vectors = [
            (source, 0 if source == CONSTANT else place + lane)
            for source, place in piece.loads
            for lane in range(piece.width)
        ]
        assert all(
            source == CONSTANT or place in runs[source] for source, place in vectors
        )
        for at, lane in enumerate(piece.lanes, piece.first):
            assert found.setdefault(at, vectors[lane]) == vectors[lane]
    return found


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("longest", [4, 16])
def test_pieces_of_padded_rows(mode: str, longest: int):
    for size in range(1, 20):
        amounts = range(min(size, 6) if mode == "reflect" else min(size, 6) + 1)
        for lower in amounts:
            for upper in amounts:
                row: list[Element] = [(0, place) for place in range(size)]
                if mode == "constant":
                    row = [(CONSTANT, 0)] * lower + row + [(CONSTANT, 0)] * upper
                else:
                    places = np.pad(np.arange(size), (lower, upper), mode=mode)  # type: ignore
                    row = [(0, int(place)) for place in places]
                pieces = pieces_of(row, longest, [CONSTANT])
                assert pieces is not None
                assert stored(pieces, {0: range(size)}) == dict(enumerate(row))


def test_pieces_of_random_rows():
    random.seed(0)
    found = 0
    for _ in range(1000):
        sizes = [random.randint(1, 40), random.randint(1, 40)]
        row = [
            (source, random.randrange(sizes[source]))
            if random.random() < 0.2
            else (source, place)
            for source in random.sample(range(2), 2)
            for place in range(sizes[source])
        ]
        runs = {
            source: range(
                min(place for each, place in row if each == source),
                1 + max(place for each, place in row if each == source),
            )
            for source in range(2)
        }
        pieces = pieces_of(row, random.choice([2, 8, 16]))
        if pieces is not None:
            found += 1
            assert stored(pieces, runs) == dict(enumerate(row))
    assert found > 50
