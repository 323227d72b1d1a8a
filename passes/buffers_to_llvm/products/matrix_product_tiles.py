"""Which tiles cover the rows and columns of a matrix product."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from padc.ir.arithmetic import Whole, ceil_div, unwrapped
from padc.passes.buffers_to_llvm.llvm_builder import LlvmBuilder, Size
from padc.passes.common.kernel_tiles import MOST_VECTORS

MOST_ROWS = 14
"""The most rows of a tile: as many streams of loads."""
ROW_CYCLES = 0.3
"""The cycles that a row adds to a step of a tile, as measured."""


def tile_shape(rows: Size, vectors: Size, registers: int) -> tuple[int, int]:
    """
    The rows and vectors of the tiles for a result of these, by a model of their cycles.

    A CPU has two units that multiply, each with a latency of 4 cycles, and loads two
    vectors in a cycle. Vectors of a panel may come from the second cache. Each row is
    one more stream of loads, and often of the same set of the first cache: tiles of 6
    rows and 4 vectors are up to 20 % faster than those of 14 rows and 2 vectors.
    """

    def cycles(height: int, width: int) -> float:
        return max(height * width / 2, 4) + width / 4 + height * ROW_CYCLES

    def total(shape: tuple[int, int]) -> float:
        height, width = shape
        heights, widths = parts(rows, height), parts(vectors, width)
        sizes = sum(number > 0 for _, number in heights)
        # Rows of two sizes take twice the code.
        return (1 + 0.03 * sizes) * sum(
            cycles(each, other) * number * others
            for each, number in heights
            for other, others in widths
        )

    def parts(count: Size, most: int) -> list[tuple[int, float]]:
        if not isinstance(count, int):
            return [(most, 1 / most)]
        number = max(ceil_div(count, most), 1)
        each, larger = divmod(count, number)
        return [(each + 1, larger), (each, number - larger)]

    shapes = [
        (height, width)
        for width in range(1, MOST_VECTORS + 1)
        for height in range(1, MOST_ROWS + 1)
        if height * width + width < registers
    ]
    return min(shapes, key=total)


@dataclass(frozen=True)
class Tiles:
    """Tiles of one size that follow each other, numbered from `begin` to `end`."""

    begin: Whole
    end: Whole
    first: Whole
    """The place of the first one."""
    size: int
    is_cut: bool = False
    """Whether a tile may reach beyond the end of the loop."""


Block: TypeAlias = tuple[Size, Size]
"""The numbers of the first tile and after the last tile of a part of a loop."""


def tiles_of(count: Whole, most: int) -> list[Tiles]:
    """
    Tiles of up to `most` that cover a loop.

    They are as equal as possible; of a dynamic count, halves follow wholes.
    """
    if isinstance(count, int):
        number = max(ceil_div(count, most), 1)
        each, larger = divmod(count, number)
        middle = larger * (each + 1)
        all = [Tiles(0, larger, 0, each + 1), Tiles(larger, number, middle, each)]
        return [tiles for tiles in all if tiles.begin != tiles.end and tiles.size]
    result: list[Tiles] = []
    begin, first = 0, 0
    while most:
        number = (count - first) // most
        end = begin + number
        result.append(Tiles(begin, end, first, most))
        begin, first = end, first + number * most
        most //= 2
    return result


def steps(all: Sequence[Tiles]) -> Whole:
    """The number of tiles."""
    return all[-1].end if all else 0


def emitted(
    build: LlvmBuilder,
    formula: Callable[..., list[Tiles]],
    count: Size,
    *others: int,
) -> list[Tiles]:
    """The tiles that a formula of this file gives for a size of the program."""
    return [
        replace(
            tiles,
            begin=unwrapped(tiles.begin),
            end=unwrapped(tiles.end),
            first=unwrapped(tiles.first),
        )
        for tiles in formula(
            count if isinstance(count, int) else build.wrap(count), *others
        )
    ]


def has_masks(vector_bytes: int) -> bool:
    """
    Whether a CPU stores through masks about as fast as without them.

    AVX-512 does. With AVX2, masks take vector registers, and AMD's CPUs take dozens of
    cycles for such a store; with NEON, elements are stored one by one.
    """
    return vector_bytes >= 64


def panels_of(count: Whole, lanes: int, most: int) -> list[Tiles]:
    """
    Tiles of `count` columns, of up to `most` vectors, stored through masks.

    They have one size, which takes less code, if few vectors are then empty.
    """
    if isinstance(count, int):
        vectors = ceil_div(count, lanes)
        number = max(ceil_div(vectors, most), 1)
        width = ceil_div(vectors, number)
        if 32 * (number * width - vectors) > vectors:
            return panels_in_place(count, lanes, most)
        most = max(width, 1)
    width = most * lanes
    number = ceil_div(count, width)
    is_cut = not isinstance(count, int) or count % width != 0
    if isinstance(count, int) and not count:
        return []
    return [Tiles(0, number, 0, width, is_cut)]


def panels_in_place(count: Whole, lanes: int, most: int) -> list[Tiles]:
    """
    Tiles of `count` columns, of up to `most` vectors, of which only the last is cut.

    So few are loaded and stored through masks: panels that are not packed are loaded
    through them, too.
    """
    if not isinstance(count, int):
        width = most * lanes
        number = count // width
        end = ceil_div(count, width)
        rest = Tiles(number, end, number * width, width, is_cut=True)
        return [Tiles(0, number, 0, width), rest]
    vectors, rest = divmod(count, lanes)
    wholes = [
        replace(tiles, first=tiles.first * lanes, size=tiles.size * lanes)
        for tiles in tiles_of(vectors, most)
    ]
    if not rest:
        return wholes
    number = steps(wholes)
    last = Tiles(number, number + 1, vectors * lanes, lanes, is_cut=True)
    return [*wholes, last]
