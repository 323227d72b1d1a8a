"""
Ops that write parts of one buffer, in loops that they share.

A pad is such: it copies the input to the middle, and fills or copies the borders. Row
by row, each line of memory comes to the CPU once, not once for each of its parts.
"""

from __future__ import annotations

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


def outline_moves(moves: Sequence[Move], main: LlvmBuilder) -> Outline:
    """A function that is all of them, one after the other or in shared loops."""
    kernel = Outline()
    # Nothing else is written.
    pointers = {buffer.pointer for move in moves for buffer in move.own}
    kernel.aliases = pointers if len(pointers) > 1 else set()
    parts: list[Part] = []
    for move in moves:
        inner = {x: kernel.value(value) for x, value in move.values.items()}
        operands = [inner[x] for x in move.op.operands]
        body = Body(move.op, kernel, operands, inner, 1)
        parts.append(Part(move, body, kernel.sizes(move.firsts)))
    nest(kernel, main, parts, 0)
    return kernel


@dataclass(frozen=True)
class Part:
    """An op in the function of several."""

    move: Move
    body: Body
    offsets: Sequence[Size]
    """Where its operands are, in the loops that are around it."""


def nest(kernel: Outline, main: LlvmBuilder, parts: Sequence[Part], dim: int) -> None:
    """Loops from `dim` on inwards, each of as many ops as may share it."""
    rest = iter(parts)
    for moves in runs([part.move for part in parts], dim):
        together = [next(rest) for _ in moves]
        if len(together) == 1:
            (part,) = together
            # What is known of sizes is known to `main`.
            loops = ordered(merged(main, longer(part.move.loops[dim:])), 1)
            part.body.nest([kernel.loop(it) for it in loops], part.offsets, {})
            continue

        def inside(
            build: LlvmBuilder, place: Size, together: Sequence[Part] = together
        ) -> None:
            moved: list[Part] = []
            for part in together:
                loop = kernel.loop(part.move.loops[dim])
                offsets = loop.moved(build, part.offsets, place)
                moved.append(replace(part, offsets=offsets))
            nest(kernel, main, moved, dim + 1)

        count = kernel.size(moves[0].loops[dim].count)
        if count == 1:
            inside(kernel.build, 0)
        else:
            kernel.build.loop(0, count, 1, inside)
