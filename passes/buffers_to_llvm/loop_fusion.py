"""
Moves to parts of one buffer, in shared loops.

A pad is an example: it copies the input to the interior, and fills or copies the
borders. Row by row, each cache line is loaded once instead of once for each part.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from padc.passes.buffers_to_llvm.bodies import Body
from padc.passes.buffers_to_llvm.buffer_descriptor import BufferDescriptor
from padc.passes.buffers_to_llvm.kernel_key import KernelKey
from padc.passes.buffers_to_llvm.kernels import Kernel, Outline
from padc.passes.buffers_to_llvm.llvm_builder import LlvmBuilder, Size
from padc.passes.buffers_to_llvm.loop_nests import LoopNest
from padc.passes.buffers_to_llvm.loops import Loop, merged, ordered
from padc.passes.buffers_to_llvm.moves import Move, longer
from padc.passes.buffers_to_llvm.op_loops import work_of
from padc.passes.buffers_to_llvm.row_moves import (
    Row,
    RowCopy,
    copies_of,
    emit_row,
    row_of,
)
from padc.passes.buffers_to_llvm.work_sharing import share, split_loop, threads_for


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


@dataclass(frozen=True)
class Rows:
    """A loop along a dimension, whose steps store a row; then copies of such rows."""

    moves: Sequence[int]
    dim: int
    count: Size
    row: Row
    copies: Sequence[RowCopy] = ()


Nest: TypeAlias = Alone | Together | Rows


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
            result.append(shared_loop(moves, together, loops, main, dim))
        elif (more := with_copies(result, moves, together[0])) is not None:
            result[-1] = more
        else:
            # Only `main` knows which products of sizes are equal.
            own = ordered(merged(main, longer(loops)), 1)
            result.append(Alone(together[0], own))
    return result


def shared_loop(
    moves: Sequence[Move],
    numbers: Sequence[int],
    loops: Sequence[Loop],
    main: LlvmBuilder,
    dim: int,
) -> Nest:
    """The loop along `dim`, of moves that share it and have `loops` from there on."""
    count, row = loops[0].count, None
    if all(len(moves[number].loops) == dim + 2 for number in numbers):
        row = row_of(moves, numbers, main)
    if row is not None:
        return Rows(numbers, dim, count, row)
    return Together(numbers, dim, count, nests(moves, numbers, main, dim + 1))


def with_copies(
    before: Sequence[Nest], moves: Sequence[Move], number: int
) -> Rows | None:
    """The rows `before` and a move that copies some of them; None if it does not."""
    if not before or not isinstance(rows := before[-1], Rows):
        return None
    found = copies_of(rows.row, moves, rows.dim, number)
    return None if found is None else replace(rows, copies=(*rows.copies, *found))


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
            case Rows(numbers, dim, count, row, copied):
                elements = row.first, *row.elements
                return tuple(numbers), dim, of.size(count), elements, tuple(copied)

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
        case [Rows(count=count, copies=())]:
            return [count]
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

        def moved(number: int, place: Size) -> Sequence[Size]:
            loop = kernel.loop(moves[number].loops[nest.dim])
            return loop.moved(kernel.build, offsets[number], place)

        def inside(build: LlvmBuilder, place: Size) -> None:
            if isinstance(nest, Rows):
                return row(nest, place, nest.row.first, place)
            here = {number: moved(number, place) for number in nest.moves}
            for inner in nest.inner:
                emit(inner, here)

        def row(nest: Rows, place: Size, target: int, target_place: Size) -> None:
            """Store the row of step `place` where a move writes at `target_place`."""
            build = kernel.build
            sources = {
                number: (by_move[number].body.operands[0], moved(number, place)[0])
                for number in {number for number, _ in nest.row.elements}
            }
            output = by_move[target].body.operands[-1]
            assert isinstance(output, BufferDescriptor)
            at = moved(target, target_place)[-1]
            address = build.address(output.pointer, at, output.element_type)
            emit_row(build, nest.row, sources, address, output.element_type)

        split_loop(kernel.build, kernel.size(nest.count), inside)
        if isinstance(nest, Rows):
            for copied in nest.copies:
                row(nest, copied.step, copied.move, copied.row)

    share(kernel.build, kernel.sizes(shared_counts(plan)))
    firsts = {i: kernel.sizes(move.firsts) for i, move in enumerate(moves)}
    for nest in plan:
        emit(nest, firsts)
