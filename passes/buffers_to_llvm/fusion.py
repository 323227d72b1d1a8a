"""
Ops that write parts of one buffer, in loops that they share.

A pad is such: it copies the input to the middle, and fills or copies the borders. Row
by row, each line of memory comes to the CPU once, not once for each of its parts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from xdsl.dialects import memref
from xdsl.dialects.linalg import ops as linalg
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineMap

from padc.passes.buffers_to_llvm.buffer import Buffer
from padc.passes.buffers_to_llvm.builder import LlvmBuilder, Size
from padc.passes.buffers_to_llvm.kernels import Body, Outline, Value, captured, loops_of
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
    def buffers(self) -> list[Buffer]:
        return [x for x in self.values.values() if isinstance(x, Buffer)]

    @property
    def output(self) -> Buffer:
        (output,) = self.op.outputs
        buffer = self.values[output]
        assert isinstance(buffer, Buffer)
        return buffer

    @property
    def own(self) -> list[Buffer]:
        """Its operands in the memory that it writes to."""
        return [x for x in self.buffers if x.memory is self.output.memory]


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


def outline_moves(moves: Sequence[Move]) -> Outline:
    """A function that is all of them, one after the other or in shared loops."""
    kernel = Outline()
    pointers: defaultdict[SSAValue, set[SSAValue]] = defaultdict(set)
    for buffer in [buffer for move in moves for buffer in move.buffers]:
        pointers[buffer.memory].add(buffer.pointer)
    kernel.aliases = {
        pointer for same in pointers.values() if len(same) > 1 for pointer in same
    }
    parts: list[Part] = []
    for move in moves:
        inner = {x: kernel.value(value) for x, value in move.values.items()}
        operands = [inner[x] for x in move.op.operands]
        body = Body(move.op, kernel, operands, inner, 1)
        loops = [kernel.loop(loop) for loop in move.loops]
        parts.append(Part(move, body, loops, kernel.sizes(move.firsts)))
    nest(kernel.build, parts, 0)
    return kernel


@dataclass(frozen=True)
class Part:
    """An op in the function of several."""

    move: Move
    body: Body
    loops: Sequence[Loop]
    offsets: Sequence[Size]
    """Where its operands are, in the loops that are around it."""


def nest(build: LlvmBuilder, parts: Sequence[Part], dim: int) -> None:
    """Loops from `dim` on inwards, each of as many ops as may share it."""
    of = {id(part.move): part for part in parts}
    for moves in runs([part.move for part in parts], dim):
        together = [of[id(move)] for move in moves]
        first, *others = together
        if not others:
            rest = merged(build, longer(first.loops[dim:]))
            first.body.nest(ordered(rest, 1), first.offsets, {})
            continue

        def inside(
            build: LlvmBuilder, place: Size, together: Sequence[Part] = together
        ) -> None:
            moved = [
                replace(part, offsets=part.loops[dim].moved(build, part.offsets, place))
                for part in together
            ]
            nest(build, moved, dim + 1)

        if first.loops[dim].count == 1:
            inside(build, 0)
        else:
            build.loop(0, first.loops[dim].count, 1, inside)
