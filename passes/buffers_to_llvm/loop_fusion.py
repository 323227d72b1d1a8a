"""
Ops in shared loops, as one kernel.

A pad is an example: it copies the input to the interior, and fills or copies the
borders. Row by row, each cache line is loaded once instead of once for each part.

A softmax is another: it finds the greatest element of a row, its powers, their sum, and
the quotients. Tile by tile of a few rows, all but the first are computed from the first
cache, and one tile of powers is enough (see `private_buffers`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from xdsl.ir import SSAValue

from padc.ir.arithmetic import ceil_div
from padc.passes.buffers_to_llvm.bodies import Body
from padc.passes.buffers_to_llvm.buffer_descriptor import (
    BufferDescriptor,
    Value,
    scratch,
    stored_bytes,
)
from padc.passes.buffers_to_llvm.kernel_key import KernelKey
from padc.passes.buffers_to_llvm.kernels import Kernel, Outline
from padc.passes.buffers_to_llvm.llvm_builder import LlvmBuilder, Size
from padc.passes.buffers_to_llvm.loop_groups import shared_depth
from padc.passes.buffers_to_llvm.loop_nests import LoopNest, nest_of
from padc.passes.buffers_to_llvm.loop_plans import (
    Alone,
    Joined,
    LoopPlanner,
    Nest,
    Together,
    described,
    own_loops,
    tile_of,
)
from padc.passes.buffers_to_llvm.looped_ops import LoopedOp
from padc.passes.buffers_to_llvm.loops import Loop, known
from padc.passes.buffers_to_llvm.op_loops import work_of
from padc.passes.buffers_to_llvm.private_buffers import (
    PrivateBuffer,
    private_buffers,
    with_private,
)
from padc.passes.buffers_to_llvm.row_moves import Row, emit_row
from padc.passes.buffers_to_llvm.row_sums import Stored
from padc.passes.buffers_to_llvm.work_sharing import share, split_loop, threads_for


def kernel_of_ops(
    ops: Sequence[LoopedOp], values: Mapping[SSAValue, Value], main: LlvmBuilder
) -> Kernel:
    """One kernel for all `ops` of a group; `values` are those of the function."""
    depth = shared_depth(ops)
    tile = tile_of(ops, depth)
    private = private_buffers(ops, depth, tile, values)
    shared = ops
    ops = [with_private(op, private, main) for op in ops]
    plan = LoopPlanner(shared, ops, main).plan()
    of, check = KernelKey(), main.check
    memories = {memory: number for number, memory in enumerate(private)}
    each = [
        (
            of.check(check and check.of(op.op)),
            of.op(op.op, op.values),
            of.loops(op.loops),
            of.sizes(op.firsts),
            of.sizes(buffer.pointer for buffer in op.own),
            *(
                (memories[x.buffer.memory], private[x.buffer.memory].offset(x.buffer))
                if x.buffer.memory in private
                else None
                for x in op.accesses
            ),
        )
        for op in ops
    ]
    sizes = tuple(buffer.elements for buffer in private.values())
    key = *each, sizes, *(described(nest, of) for nest in plan)
    work: Size = 0
    for op in ops:
        work = main.add(work, work_of(op.op, op.loops, main))
    threads = threads_for(main, work)

    def make() -> Outline:
        kernel = Outline(main, check, threads)
        FusedLoops(kernel, ops, plan, private, depth).emit()
        return kernel

    return Kernel(key, of.values, make, threads)


def aliases_of(
    ops: Sequence[LoopedOp], private: Mapping[SSAValue, PrivateBuffer]
) -> set[SSAValue]:
    """The pointers to memory that is written through another pointer."""
    pointers: dict[SSAValue, set[SSAValue]] = {}
    for op in ops:
        for x in op.accesses:
            pointers.setdefault(x.buffer.memory, set()).add(x.buffer.pointer)
    found: set[SSAValue] = set()
    for memory in {op.output.memory for op in ops}:
        if memory not in private and len(pointers[memory]) > 1:
            found |= pointers[memory]
    return found


LINE = 64
"""The bytes of a cache line on most CPUs."""
PREFETCHED = 1 << 13
"""The most bytes of a row that is prefetched: a part of the first cache."""

Offsets: TypeAlias = Mapping[int, Sequence[Size]]
"""The offsets of the operands of each op, by its index."""
Unit: TypeAlias = Callable[[Offsets, Size], None]
"""Emits loops of ops; takes offsets, and the number of the step in its tile."""


class FusedLoops:
    """The loops of ops, inside of a kernel."""

    def __init__(
        self,
        kernel: Outline,
        ops: Sequence[LoopedOp],
        plan: Sequence[Nest],
        private: Mapping[SSAValue, PrivateBuffer],
        depth: int,
    ):
        """The buffers are `private` to a step of `depth` loops, or a tile."""
        self.depth = depth
        self.kernel = kernel
        self.build = kernel.build
        self.ops = ops
        self.plan = plan
        self.private = private
        kernel.aliases |= aliases_of(ops, private)
        self.scratch = {
            memory: scratch(self.build, x.elements, x.element_type)
            for memory, x in private.items()
        }
        self.by_op: dict[int, tuple[LoopNest, Sequence[Loop]]] = {}
        for alone, tile in own_loops(plan):
            op = ops[alone.op]
            inner = {x: self.value(each) for x, each in op.values.items()}
            loops = [kernel.loop(loop) for loop in alone.loops]
            body = Body(op.op, kernel, self.operands(alone.op), inner, 1)
            self.by_op[alone.op] = nest_of(body, loops, tile), loops

    def value(self, value: Value) -> Value:
        """A value of the caller in the kernel."""
        if not isinstance(value, BufferDescriptor) or value.memory not in self.private:
            return self.kernel.value(value)
        offset = self.private[value.memory].offset(value)
        memory = self.scratch[value.memory]
        pointer = self.build.address(memory.pointer, offset, value.element_type)
        return replace(value, pointer=pointer, bounds=memory.bounds)

    def operands(self, number: int) -> list[Value]:
        """The operands of an op in the kernel."""
        op = self.ops[number]
        return [self.value(op.values[x]) for x in op.op.operands]

    def emit(self) -> None:
        """Emit all loops; those that all ops share may be split."""
        share(self.build, self.shared_counts(self.plan))
        firsts = {i: self.kernel.sizes(op.firsts) for i, op in enumerate(self.ops)}
        for nest in self.plan:
            self.nest(nest, firsts)

    def shared_counts(self, plan: Sequence[Nest]) -> list[Size]:
        """The steps of the loops that all ops share."""
        match plan:
            case [Together(copies=()) as nest]:
                return [self.tiles(nest), *self.shared_counts(nest.inner)]
            case _:
                return []

    def tiles(self, nest: Together) -> Size:
        count = self.build.wrap(self.kernel.size(nest.count))
        return ceil_div(count, nest.tile).value

    def nest(self, nest: Nest, offsets: Offsets) -> None:
        if isinstance(nest, Alone):
            own, loops = self.by_op[nest.op]
            return own.nest(loops, offsets[nest.op], {})
        if isinstance(nest, Joined):
            return self.row(nest.row, offsets, nest.row.first, offsets)
        loops = {i: self.kernel.loop(self.ops[i].loops[nest.dim]) for i in nest.ops}

        def step(build: LlvmBuilder, place: Size) -> None:
            at = {i: x.moved(build, offsets[i], place) for i, x in loops.items()}
            for unit in self.prefetching(nest.inner):
                unit(at, 0)

        def tile(build: LlvmBuilder, number: Size) -> None:
            first = build.mul(number, nest.tile)
            by_tile = loops
            if nest.dim == self.depth - 1:
                by_tile = {i: self.outside(i, loop) for i, loop in loops.items()}
            begin = {i: x.moved(build, offsets[i], first) for i, x in by_tile.items()}
            count = loops[nest.ops[0]].steps_of_block(build, first, nest.tile)
            for unit in self.prefetching(nest.inner):

                def row(build: LlvmBuilder, place: Size, unit: Unit = unit) -> None:
                    at = {i: x.moved(build, begin[i], place) for i, x in loops.items()}
                    unit(at, place)

                build.loop(0, count, 1, row)

        split_loop(self.build, self.tiles(nest), step if nest.tile == 1 else tile)
        self.copies(nest, offsets)

    def row(self, row: Row, offsets: Offsets, target: int, to: Offsets) -> None:
        """Store the row of ops at `offsets` where the op `target` writes, at `to`."""
        numbers = {number for number, _ in row.elements}
        sources = {x: (self.operands(x)[0], offsets[x][0]) for x in numbers}
        output = self.operands(target)[-1]
        assert isinstance(output, BufferDescriptor)
        if self.build.check is not None:
            self.build.check = self.build.check.of(self.ops[target].op)
        emit_row(self.build, row, sources, output, to[target][-1])

    def copies(self, nest: Together, offsets: Offsets) -> None:
        """Store again the rows of a loop that are copied after it."""

        def moved(op: int, place: int) -> Sequence[Size]:
            loop = self.kernel.loop(self.ops[op].loops[nest.dim])
            return loop.moved(self.build, offsets[op], place)

        for copied in nest.copies:
            (joined,) = nest.inner
            assert isinstance(joined, Joined)
            at = {op: moved(op, copied.step) for op in nest.ops}
            to = {copied.move: moved(copied.move, copied.row)}
            self.row(joined.row, at, copied.move, to)

    def outside(self, op: int, loop: Loop) -> Loop:
        """`loop` without its steps in private buffers, which hold one tile."""
        operands = [self.ops[op].values[x] for x in self.ops[op].op.operands]
        steps = [
            0 if isinstance(x, BufferDescriptor) and x.memory in self.private else step
            for x, step in zip(operands, loop.steps, strict=True)
        ]
        return replace(loop, steps=tuple(steps))

    def prefetching(self, nests: Sequence[Nest]) -> list[Unit]:
        """
        What emits `nests`; before the last of other rows, the last row is prefetched.

        That is the row which the last op writes: its cache lines arrive while the row
        before it is computed. Stores would wait for them.
        """
        units, ends, end = [*self.units(nests)], list[int](), 0
        for _, count in units:
            ends.append(end := end + count)
        emit = [unit for unit, _ in units]
        *before, last = nests
        rows = [
            i for i, nest in enumerate(before) if isinstance(nest, Alone) and nest.loops
        ]
        if rows and isinstance(last, Alone) and self.writes_row(last):
            place = next(i for i, end in enumerate(ends) if rows[-1] < end)
            if place < len(emit) - 1:
                unit = emit[place]

                def both(offsets: Offsets, step: Size) -> None:
                    self.prefetch(last, offsets[last.op])
                    unit(offsets, step)

                emit[place] = both
        return emit

    def prefetch(self, row: Alone, offsets: Sequence[Size]) -> None:
        """Prefetch the elements that an op writes in its only loop."""
        output = self.operands(row.op)[-1]
        assert isinstance(output, BufferDescriptor)
        type = output.element_type
        elements = LINE // stored_bytes(type)

        def line(build: LlvmBuilder, number: Size) -> None:
            place = build.add(offsets[-1], build.mul(number, elements))
            build.prefetch(build.address(output.pointer, place, type))

        self.build.loop(0, ceil_div(known(row.loops[0].count), elements), 1, line)

    def writes_row(self, nest: Alone) -> bool:
        """Whether an op writes a row that is worth prefetching."""
        match nest.loops:
            case [Loop(count=int() as count, steps=[*_, 1], reduces=False)]:
                output = self.ops[nest.op].output
                bytes = count * stored_bytes(output.element_type)
                is_short = bytes <= PREFETCHED and self.build.check is None
                return is_short and self.only_writes(nest.op)
            case _:
                return False

    def only_writes(self, number: int) -> bool:
        """Whether an op writes memory outside of the kernel that no op uses before."""
        memory = self.ops[number].output.memory
        return memory not in self.private and not any(
            x.buffer.memory is memory and (i != number or not x.writes)
            for i, op in enumerate(self.ops)
            for x in op.accesses
        )

    def units(self, nests: Sequence[Nest]) -> Iterator[tuple[Unit, int]]:
        """
        What emits `nests`: one after the other, except some that are joined.

        Each unit has the number of nests that it emits; 0 if the next one ends them.
        """
        left = [*nests]
        while left:
            joined = self.stored_and_summed(left) or self.started_windows(left)
            if joined is not None:
                (*first, last), count = joined
                yield from ((unit, 0) for unit in first)
                yield last, count
                del left[:count]
            else:
                first = left.pop(0)
                yield lambda offsets, _, first=first: self.nest(first, offsets), 1

    def stored_and_summed(
        self, nests: Sequence[Nest]
    ) -> tuple[Sequence[Unit], int] | None:
        """
        Joins an op and a sum over what it stores in one loop, if they may be joined.

        The op that writes the first value of the sum may be between them. Returns what
        emits the loop, and how many of `nests` it takes.
        """
        match nests:
            case [Alone() as move, Alone(loops=[]) as start, Alone() as sum, *_]:
                count = 3
            case [Alone() as move, Alone() as sum, *_]:
                start, count = None, 2
            case _:
                return None
        own, loops = self.by_op[sum.op]
        stored, others = self.by_op[move.op]
        term = self.ops[sum.op].term_of(self.ops[move.op])
        if term is None or len(loops) != 1 or len(others) != 1 or stored.in_place():
            return None
        # Both have as many steps: the term is what is stored, at the same places.
        (loop,), (other,) = loops, others
        if not own.is_sum_of_row(loop):
            return None
        if start is not None and not self.ops[sum.op].starts_from(self.ops[start.op]):
            return None

        def emit(offsets: Offsets, _: Size) -> None:
            first = None if start is None else self.result(start.op, offsets)
            terms = Stored(stored.body, other, offsets[move.op], term)
            own.sum_row(loop, offsets[sum.op], terms, first)

        return [emit], count

    def started_windows(
        self, nests: Sequence[Nest]
    ) -> tuple[Sequence[Unit], int] | None:
        """
        Joins a row of windows and the op that writes its first values, if possible.

        Returns what emits each of the two steps, and 2, how many of `nests` they take.
        The steps are apart: the second one loads elements from several vectors of the
        first one, which wait in the CPU's queue of stores until they are in the cache.
        """
        match nests:
            case [Alone() as start, Alone() as op, *_]:
                windows = self.by_op[op.op][0].windows
            case _:
                return None
        # Outside of the innermost loops, the same: rows of windows.
        is_row = not any(loop.reduces is False for loop in op.loops[:-1])
        if windows is None or not is_row:
            return None
        if not self.ops[op.op].starts_from(self.ops[start.op]):
            return None

        def columns(offsets: Offsets, row: Size) -> None:
            windows.reduce_columns(self.build, offsets[op.op], row)

        def rows(offsets: Offsets, row: Size) -> None:
            first = self.result(start.op, offsets)
            windows.reduce_rows(self.build, offsets[op.op], first, row)

        return [columns, rows], 2

    def result(self, op: int, offsets: Offsets) -> SSAValue:
        """What an op stores, which is the same everywhere."""
        body = self.by_op[op][0].body
        (value,) = body.results(self.build, offsets[op], {}, {})
        return value
