"""
Where the tiles of Winograd's convolutions are, as formulas of `padc.ir.arithmetic`.

No number is negative.
"""

from __future__ import annotations

from dataclasses import dataclass

from padc.ir.arithmetic import Whole, ceil_div, minimum
from padc.ir.winograd import TAPS


def divides(a: Whole, b: Whole) -> bool:
    """Whether `b` is known to be a multiple of `a`."""
    return isinstance(b, int) and b % a == 0


@dataclass(frozen=True)
class Tiles:
    """
    Tiles of `size` x `size` results that cover an image, in blocks.

    The number of rows may be symbolic.
    """

    size: int
    rows: Whole
    """The rows of the image's result."""
    columns: int
    block: int
    """The number of tiles that are computed together."""

    @property
    def along(self) -> int:
        """The number of tiles in a row of tiles."""
        return ceil_div(self.columns, self.size)

    @property
    def count(self) -> Whole:
        """The number of tiles."""
        return ceil_div(self.rows, self.size) * self.along

    @property
    def blocks(self) -> Whole:
        """The number of blocks."""
        return ceil_div(self.count, self.block)

    def left(self, first: Whole) -> Whole:
        """The number of tiles in the block that starts at tile `first`."""
        if divides(self.block, self.count):
            return self.block
        return minimum(self.count - first, self.block)

    def read(self, first: Whole, place: Whole) -> Whole:
        """The tile that is read as number `place` of a block; the last one again."""
        tile = first + place
        if divides(self.block, self.count):
            return tile
        return minimum(tile, self.count - 1)

    def corner(self, tile: Whole) -> tuple[Whole, Whole]:
        """The row and column of a tile's first result."""
        row = tile // self.along
        column = tile - row * self.along
        return row * self.size, column * self.size

    def result(self, first: Whole, step: Whole, count: Whole) -> Whole:
        """
        The distance of result `step` from a tile's `first` one in a row or column.

        There are `count` results; the last one again for those outside.
        """
        if divides(self.size, count):
            return step
        return minimum(count - 1 - first, step)

    def input(self, first: Whole, step: Whole, count: Whole) -> Whole:
        """The same for inputs, of which there are more than the `count` results."""
        if divides(self.size, count):
            return step
        return minimum(count + TAPS - 2 - first, step)

    def results(self, first: Whole, count: Whole) -> Whole:
        """The number of a tile's results in a row or column."""
        if divides(self.size, count):
            return self.size
        return minimum(count - first, self.size)
