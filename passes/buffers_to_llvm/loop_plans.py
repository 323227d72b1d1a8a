"""How ops are nested in shared loops."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from padc.passes.buffers_to_llvm.kernel_key import KernelKey
from padc.passes.buffers_to_llvm.llvm_builder import LlvmBuilder, Size
from padc.passes.buffers_to_llvm.loop_groups import most_steps, runs
from padc.passes.buffers_to_llvm.looped_ops import LoopedOp, Move, longer
from padc.passes.buffers_to_llvm.loops import Loop, merged, ordered
from padc.passes.buffers_to_llvm.row_moves import Row, RowCopy, copies_of, row_of

TILE_STEPS = 512
"""
The steps of a tile, whose buffers stay in the first cache.

More would delay the loads from outer caches that overlap with what a tile computes.
"""
TILE_ROWS = 16
"""
The most rows of a tile.

An op computes its rows while each waits for the extreme or the sum of another.
"""


@dataclass(frozen=True)
class Alone:
    """An op with its own loops."""

    op: int
    """The index of the op."""
    loops: Sequence[Loop]


@dataclass(frozen=True)
class Joined:
    """A row that several moves write, without loops."""

    row: Row


@dataclass(frozen=True)
class Together:
    """A loop along a dimension around several ops."""

    ops: Sequence[int]
    dim: int
    count: Size
    tile: int
    """Each op has so many steps before the next one has them."""
    inner: Sequence[Nest]
    copies: Sequence[RowCopy] = ()
    """Copies, after the loop, of rows that its steps store."""


Nest: TypeAlias = Alone | Joined | Together


def tile_of(ops: Sequence[LoopedOp], depth: int) -> int:
    """How many steps of the innermost of `depth` shared loops make a tile."""
    reduces = any(loop.reduces for op in ops for loop in op.loops)
    if not reduces or any(len(run) > 1 for run in runs(ops, depth)):
        return 1
    steps = max(most_steps(op.loops[depth:]) for op in ops)
    return max(int(min(TILE_STEPS // max(steps, 1), TILE_ROWS)), 1)


@dataclass(frozen=True)
class LoopPlanner:
    """Nests ops in loops, each shared by as many of them as possible."""

    shared: Sequence[LoopedOp]
    """The ops with the loops by which they share."""
    ops: Sequence[LoopedOp]
    """The same ops as they are emitted."""
    main: LlvmBuilder

    def plan(self) -> list[Nest]:
        """The nests of all ops."""
        return self.nests(range(len(self.ops)), 0)

    def nests(self, numbers: Sequence[int], dim: int) -> list[Nest]:
        """The loops of some ops from `dim` on inwards."""
        rest = iter(numbers)
        result: list[Nest] = []
        for shared in runs([self.shared[number] for number in numbers], dim):
            together = [next(rest) for _ in shared]
            if len(together) > 1:
                inner = self.nests(together, dim + 1)
                tile = tile_of(shared, dim + 1)
                count = shared[0].loops[dim].count
                result.append(Together(together, dim, count, tile, inner))
                continue
            (number,) = together
            if result and (more := self.with_copies(result[-1], number)) is not None:
                result[-1] = more
            else:
                result.append(self.alone(number, dim))
        return list(self.joined(result, dim))

    def alone(self, number: int, dim: int) -> Alone:
        # Only `main` knows which products of sizes are equal.
        loops = merged(self.main, longer(self.ops[number].loops[dim:]))
        return Alone(number, ordered(loops, 1))

    def joined(self, nests: Sequence[Nest], dim: int) -> Iterator[Nest]:
        """`nests`, with rows of the moves whose only loop is along `dim`."""

        def target(numbered: tuple[int, Nest]) -> object:
            number, nest = numbered
            op = self.ops[nest.op] if isinstance(nest, Alone) else None
            if isinstance(op, Move) and len(op.loops) == dim + 1:
                return op.output.memory
            return number

        for _, group in itertools.groupby(enumerate(nests), target):
            found = [nest for _, nest in group]
            row = None
            if len(found) > 1:
                moves = self.moves(nest.op for nest in found if isinstance(nest, Alone))
                row = row_of(moves, self.main)
            yield from found if row is None else [Joined(row)]

    def with_copies(self, before: Nest, number: int) -> Together | None:
        """The rows `before` and a move that copies some; None if it does not."""
        match before:
            case Together(inner=[Joined(row)], dim=dim):
                moves = self.moves([row.first, number])
            case _:
                return None
        if len(moves) != 2:
            return None
        found = copies_of(row, moves, dim, number)
        if found is None:
            return None
        return replace(before, copies=(*before.copies, *found))

    def moves(self, numbers: Iterator[int] | Sequence[int]) -> dict[int, Move]:
        """Those ops that are moves, by their number."""
        ops = {number: self.ops[number] for number in numbers}
        return {number: op for number, op in ops.items() if isinstance(op, Move)}


def own_loops(plan: Sequence[Nest], tile: int = 1) -> Iterator[tuple[Alone, int]]:
    """The loops of each op inside of those that it shares, and the tile of these."""
    for nest in plan:
        if isinstance(nest, Alone):
            yield nest, tile
        elif isinstance(nest, Together):
            yield from own_loops(nest.inner, nest.tile)


def described(nest: Nest, of: KernelKey) -> Hashable:
    """What two nests have to share to become the same code."""
    match nest:
        case Alone(number, loops):
            return number, of.loops(loops)
        case Joined(row):
            return row
        case Together(numbers, dim, count, tile, inner, copies):
            sizes = dim, of.size(count), tile
            inside = tuple(described(each, of) for each in inner)
            return tuple(numbers), sizes, inside, tuple(copies)
