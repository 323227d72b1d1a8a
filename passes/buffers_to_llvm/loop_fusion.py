"""
Ops that write parts of one buffer, in shared loops.

A pad is an example: it copies the input to the interior, and fills or copies the
borders. Row by row, each cache line is loaded once instead of once for each part.
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

from padc.passes.buffers_to_llvm.bodies import Body
from padc.passes.buffers_to_llvm.buffer_descriptor import BufferDescriptor, Value
from padc.passes.buffers_to_llvm.kernel_key import KernelKey
from padc.passes.buffers_to_llvm.kernels import Kernel, Outline
from padc.passes.buffers_to_llvm.llvm_builder import LlvmBuilder, Size
from padc.passes.buffers_to_llvm.loop_nests import LoopNest
from padc.passes.buffers_to_llvm.loops import Loop, merged, ordered
from padc.passes.buffers_to_llvm.op_loops import captured, loops_of, work_of
from padc.passes.buffers_to_llvm.work_sharing import share, split_loop, threads_for


@dataclass(frozen=True)
class Move:
    """An op that writes each element of part of a buffer once."""

    op: LinalgStructuredOperation
    values: Mapping[SSAValue, Value]
    """The values that it uses."""
    loops: Sequence[Loop]
    """One for each dimension of the part."""
    firsts: Sequence[Size]
    """The offset of the first element of each operand."""

    @property
    def output(self) -> BufferDescriptor:
        (output,) = self.op.outputs
        buffer = self.values[output]
        assert isinstance(buffer, BufferDescriptor)
        return buffer

    @property
    def own(self) -> list[BufferDescriptor]:
        """Its operands in the memory that it writes."""
        operands = [self.values[x] for x in self.op.operands]
        memory = self.output.memory
        return [
            x
            for x in operands
            if isinstance(x, BufferDescriptor) and x.memory is memory
        ]


def move_of(
    op: LinalgStructuredOperation, values: Mapping[SSAValue, Value], main: LlvmBuilder
) -> Move | None:
    """`op` as a move, which can share loops; None if it is not one."""
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
        if isinstance(buffer, BufferDescriptor) and buffer.memory is move.output.memory:
            # No loop reduces then: the result has all of them.
            if map.data != AffineMap.identity(rank):
                return None
    order = [loop.dims for loop in ordered(longer(loops), 1)]
    return move if order == sorted(order) else None


def longer(loops: Sequence[Loop]) -> list[Loop]:
    """The loops that may have more than one step."""
    return [loop for loop in loops if loop.count != 1]


def shares(a: Move, b: Move, dim: int) -> bool:
    """
    Whether two moves may share the loop along a dimension.

    They may if all their operands in the shared memory have the same offset and stride
    in that dimension: different steps then touch different elements.
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
    """`moves` in their order, grouped by the loop along `dim` that they share."""
    result: list[list[Move]] = []
    for move in moves:
        if result and all(shares(move, other, dim) for other in result[-1]):
            result[-1].append(move)
        else:
            result.append([move])
    return result


@dataclass(frozen=True)
class Alone:
    """A move with its own loops."""

    move: int
    """The index of the move."""
    loops: Sequence[Loop]


@dataclass(frozen=True)
class Together:
    """A loop along a dimension around several moves."""

    moves: Sequence[int]
    dim: int
    count: Size
    inner: Sequence[Nest]


Nest: TypeAlias = Alone | Together


def nests(
    moves: Sequence[Move], numbers: Sequence[int], main: LlvmBuilder, dim: int
) -> list[Nest]:
    """The loops from `dim` on inwards, each shared by as many moves as possible."""
    rest = iter(numbers)
    result: list[Nest] = []
    for shared in runs([moves[number] for number in numbers], dim):
        together = [next(rest) for _ in shared]
        loops = shared[0].loops[dim:]
        if len(together) > 1:
            inner = nests(moves, together, main, dim + 1)
            result.append(Together(together, dim, loops[0].count, inner))
        else:
            # Only `main` knows which products of sizes are equal.
            own = ordered(merged(main, longer(loops)), 1)
            result.append(Alone(together[0], own))
    return result


def kernel_of_moves(moves: Sequence[Move], main: LlvmBuilder) -> Kernel:
    """One kernel for all moves, in shared loops where possible."""
    plan = nests(moves, range(len(moves)), main, 0)
    of = KernelKey()

    def described(nest: Nest) -> Hashable:
        match nest:
            case Alone(number, loops):
                return number, of.loops(loops)
            case Together(numbers, dim, count, inner):
                return tuple(numbers), dim, of.size(count), *map(described, inner)

    check = main.check
    each = [
        (
            of.check(check and check.of(move.op)),
            of.op(move.op, move.values),
            of.loops(move.loops),
            of.sizes(move.firsts),
            of.sizes(buffer.pointer for buffer in move.own),
        )
        for move in moves
    ]
    key = *each, *map(described, plan)
    work: Size = 0
    for move in moves:
        work = main.add(work, work_of(move.op, move.loops, main))
    threads = threads_for(main, work)

    def make() -> Outline:
        kernel = Outline(main, check, threads)
        outline_moves(kernel, moves, plan)
        return kernel

    return Kernel(key, of.values, make, threads)


def shared_counts(plan: Sequence[Nest]) -> list[Size]:
    """The steps of the loops that all moves share."""
    match plan:
        case [Together(count=count, inner=inner)]:
            return [count, *shared_counts(inner)]
        case _:
            return []


def outline_moves(kernel: Outline, moves: Sequence[Move], plan: Sequence[Nest]) -> None:
    """Emit the loops of `moves` in `kernel`."""
    # Only these pointers are written.
    pointers = {buffer.pointer for move in moves for buffer in move.own}
    if len(pointers) > 1:
        kernel.aliases |= pointers
    by_move: list[LoopNest] = []
    for move in moves:
        inner = {x: kernel.value(value) for x, value in move.values.items()}
        operands = [inner[x] for x in move.op.operands]
        by_move.append(LoopNest(Body(move.op, kernel, operands, inner, 1)))

    def emit(nest: Nest, offsets: Mapping[int, Sequence[Size]]) -> None:
        """Emit a nest; the operands of each move are at `offsets`."""
        if isinstance(nest, Alone):
            loops = [kernel.loop(loop) for loop in nest.loops]
            return by_move[nest.move].nest(loops, offsets[nest.move], {})

        def inside(build: LlvmBuilder, place: Size) -> None:
            moved: dict[int, Sequence[Size]] = {}
            for number in nest.moves:
                loop = kernel.loop(moves[number].loops[nest.dim])
                moved[number] = loop.moved(build, offsets[number], place)
            for inner in nest.inner:
                emit(inner, moved)

        split_loop(kernel.build, kernel.size(nest.count), inside)

    share(kernel.build, kernel.sizes(shared_counts(plan)))
    firsts = {i: kernel.sizes(move.firsts) for i, move in enumerate(moves)}
    for nest in plan:
        emit(nest, firsts)
