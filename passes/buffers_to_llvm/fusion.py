"""
Ops that write parts of one buffer, in loops that they share.

A pad is such: it copies the input to the middle, and fills or copies the borders. Row
by row, each line of memory comes to the CPU once, not once for each of its parts.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.dialects import memref
from xdsl.dialects.linalg import ops as linalg
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineMap

from padc.passes.buffers_to_llvm.buffer import Buffer, Value
from padc.passes.buffers_to_llvm.builder import LlvmBuilder, Size
from padc.passes.buffers_to_llvm.description import Description
from padc.passes.buffers_to_llvm.kernels import (
    Body,
    Kernel,
    Outline,
    captured,
    loops_of,
)
from padc.passes.buffers_to_llvm.loops import Loop, merged, ordered


@dataclass(frozen=True)
class Move:
    """An op that writes each element of a part of a buffer once."""

    op: LinalgStructuredOperation
    values: Mapping[SSAValue, Value]
    """What it uses."""
    loops: Sequence[Loop]
    """One for each dimension of the part."""
    firsts: Sequence[Size]
    """Where each operand starts."""

    @property
    def output(self) -> Buffer:
        (output,) = self.op.outputs
        buffer = self.values[output]
        assert isinstance(buffer, Buffer)
        return buffer

    @property
    def own(self) -> list[Buffer]:
        """Its operands in the memory that it writes to."""
        operands = [self.values[x] for x in self.op.operands]
        memory = self.output.memory
        return [x for x in operands if isinstance(x, Buffer) and x.memory is memory]


def move_of(
    op: LinalgStructuredOperation, values: Mapping[SSAValue, Value], main: LlvmBuilder
) -> Move | None:
    """`op` as one of those that can share loops; None where it is none."""
    rank = len(op.get_iterator_types())
    if len(op.outputs) != 1 or any(
        isinstance(inner, linalg.IndexOp | memref.LoadOp) for inner in op.body.walk()
    ):
        return None
    used = {x: values[x] for x in (*op.operands, *captured(op)) if x in values}
    loops, firsts = loops_of(op, [used[x] for x in op.operands], main)
    move = Move(op, used, loops, firsts)
    for x, map in zip(op.operands, op.get_indexing_maps(), strict=True):
        buffer = used[x]
        if isinstance(buffer, Buffer) and buffer.memory is move.output.memory:
            if map.data != AffineMap.identity(rank):
                return None
            if buffer.frame is not move.output.frame:
                return None
    order = [loop.dims for loop in ordered(longer(loops), 1)]
    if any(loop.reduces for loop in loops) or order != sorted(order):
        return None
    return move


def longer(loops: Sequence[Loop]) -> list[Loop]:
    """Those that may be of more than one step."""
    return [loop for loop in loops if loop.count != 1]


def shares(a: Move, b: Move, dim: int) -> bool:
    """
    Whether two ops may run in one loop along a dimension, step by step.

    Where all that they touch of their buffer is at the same place in that dimension, a
    step of one has no element in common with another step of the other.
    """
    if min(len(a.loops), len(b.loops)) <= dim + 1:
        return False
    first, *others = (
        (x.frame, x.places[dim], x.spacing[dim]) for x in (*a.own, *b.own)
    )
    return a.loops[dim].count == b.loops[dim].count and all(
        other == first for other in others
    )


def runs(moves: Sequence[Move], dim: int) -> list[list[Move]]:
    """Those that share a loop along a dimension, and those between, in their order."""
    result: list[list[Move]] = []
    for move in moves:
        if result and all(shares(move, other, dim) for other in result[-1]):
            result[-1].append(move)
        else:
            result.append([move])
    return result


@dataclass(frozen=True)
class Alone:
    """A move, and the loops that it has for itself."""

    move: int
    """Its number among the moves."""
    loops: Sequence[Loop]


@dataclass(frozen=True)
class Together:
    """A loop, along a dimension, around several moves."""

    moves: Sequence[int]
    dim: int
    count: Size
    inner: Sequence[Nest]


Nest: TypeAlias = Alone | Together


def nests(
    moves: Sequence[Move], numbers: Sequence[int], main: LlvmBuilder, dim: int
) -> list[Nest]:
    """Loops from `dim` on inwards, each of as many of the moves as may share it."""
    rest = iter(numbers)
    result: list[Nest] = []
    for shared in runs([moves[number] for number in numbers], dim):
        together = [next(rest) for _ in shared]
        loops = shared[0].loops[dim:]
        if len(together) > 1:
            inner = nests(moves, together, main, dim + 1)
            result.append(Together(together, dim, loops[0].count, inner))
        else:
            # What is known of sizes is known to `main`.
            own = ordered(merged(main, longer(loops)), 1)
            result.append(Alone(together[0], own))
    return result


def kernel_of_moves(moves: Sequence[Move], main: LlvmBuilder) -> Kernel:
    """The function that is all of them, one after the other or in shared loops."""
    plan = nests(moves, range(len(moves)), main, 0)
    of = Description()

    def described(nest: Nest) -> Hashable:
        match nest:
            case Alone(number, loops):
                return number, of.loops(loops)
            case Together(numbers, dim, count, inner):
                return tuple(numbers), dim, of.size(count), *map(described, inner)

    each = [
        (
            of.op(move.op, move.values),
            of.loops(move.loops),
            of.sizes(move.firsts),
            of.sizes(buffer.pointer for buffer in move.own),
        )
        for move in moves
    ]
    key = *each, *map(described, plan)
    return Kernel(key, of.values, lambda: outline_moves(moves, plan))


def outline_moves(moves: Sequence[Move], plan: Sequence[Nest]) -> Outline:
    kernel = Outline()
    # Nothing else is written.
    pointers = {buffer.pointer for move in moves for buffer in move.own}
    kernel.aliases = pointers if len(pointers) > 1 else set()
    bodies: list[Body] = []
    for move in moves:
        inner = {x: kernel.value(value) for x, value in move.values.items()}
        operands = [inner[x] for x in move.op.operands]
        bodies.append(Body(move.op, kernel, operands, inner, 1))

    def emit(nest: Nest, offsets: Mapping[int, Sequence[Size]]) -> None:
        """A nest, where the operands of each move are at `offsets`."""
        if isinstance(nest, Alone):
            loops = [kernel.loop(loop) for loop in nest.loops]
            return bodies[nest.move].nest(loops, offsets[nest.move], {})

        def inside(build: LlvmBuilder, place: Size) -> None:
            moved: dict[int, Sequence[Size]] = {}
            for number in nest.moves:
                loop = kernel.loop(moves[number].loops[nest.dim])
                moved[number] = loop.moved(build, offsets[number], place)
            for inner in nest.inner:
                emit(inner, moved)

        count = kernel.size(nest.count)
        if count == 1:
            inside(kernel.build, 0)
        else:
            kernel.build.loop(0, count, 1, inside)

    firsts = {i: kernel.sizes(move.firsts) for i, move in enumerate(moves)}
    for nest in plan:
        emit(nest, firsts)
    return kernel
