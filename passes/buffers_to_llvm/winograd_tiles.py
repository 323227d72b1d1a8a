"""
Where the tiles of Winograd's convolutions are: formulas over anything that adds.

`LlvmBuilder` evaluates them on sizes, and the proofs in the tests on z3's integers. No
number is negative.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from padc.ir.winograd import TAPS


class Arithmetic(Protocol):
    """The operations that the formulas need."""

    def add(self, a: Any, b: Any, /) -> Any: ...
    def sub(self, a: Any, b: Any, /) -> Any: ...
    def mul(self, a: Any, b: Any, /) -> Any: ...
    def floordiv(self, a: Any, b: Any, /) -> Any: ...
    def minimum(self, a: Any, b: Any, /) -> Any: ...


def divides(a: Any, b: Any) -> bool:
    """Whether `b` is known to be a multiple of `a`."""
    return isinstance(b, int) and b % a == 0


@dataclass(frozen=True)
class Tiles:
    """
    Tiles of `size` x `size` results that cover an image, in blocks.

    The number of rows may be one of z3's integers too.
    """

    size: int
    rows: Any
    """The rows of the image's result."""
    columns: int
    block: int
    """The number of tiles that are computed together."""

    @property
    def along(self) -> int:
        """The number of tiles in a row of tiles."""
        return -(-self.columns // self.size)

    @property
    def count(self) -> Any:
        """The number of tiles."""
        return -(-self.rows // self.size) * self.along

    @property
    def blocks(self) -> Any:
        """The number of blocks."""
        return -(-self.count // self.block)

    def left(self, build: Arithmetic, first: Any) -> Any:
        """The number of tiles in the block that starts at tile `first`."""
        if divides(self.block, self.count):
            return self.block
        return build.minimum(build.sub(self.count, first), self.block)

    def read(self, build: Arithmetic, first: Any, place: Any) -> Any:
        """The tile that is read as number `place` of a block; the last one again."""
        tile = build.add(first, place)
        if divides(self.block, self.count):
            return tile
        return build.minimum(tile, self.count - 1)

    def corner(self, build: Arithmetic, tile: Any) -> tuple[Any, Any]:
        """The row and column of a tile's first result."""
        row = build.floordiv(tile, self.along)
        column = build.sub(tile, build.mul(row, self.along))
        return build.mul(row, self.size), build.mul(column, self.size)

    def result(self, build: Arithmetic, first: Any, step: Any, count: Any) -> Any:
        """
        The distance of result `step` from a tile's `first` one in a row or column.

        There are `count` results; the last one again for those outside.
        """
        if divides(self.size, count):
            return step
        return build.minimum(build.sub(count - 1, first), step)

    def input(self, build: Arithmetic, first: Any, step: Any, count: Any) -> Any:
        """The same for inputs, of which there are more than the `count` results."""
        if divides(self.size, count):
            return step
        return build.minimum(build.sub(count + TAPS - 2, first), step)

    def results(self, build: Arithmetic, first: Any, count: Any) -> Any:
        """The number of a tile's results in a row or column."""
        if divides(self.size, count):
            return self.size
        return build.minimum(build.sub(count, first), self.size)
