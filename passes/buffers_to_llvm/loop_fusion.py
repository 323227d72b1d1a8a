"""
Ops in shared loops, as one kernel.

A pad is an example: it copies the input to the interior, and fills or copies the
borders. Row by row, each cache line is loaded once instead of once for each part.

A softmax is another: it finds the greatest element of a row, its powers, their sum, and
the quotients. Row by row, all but the first are computed from the first cache, and one
row of powers is enough (see `private_buffers`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import IntegerAttr, MemRefType
from xdsl.ir import SSAValue

from padc.passes.buffers_to_llvm.bodies import Body
from padc.passes.buffers_to_llvm.buffer_descriptor import (
    BufferDescriptor,
    Value,
    stored_bytes,
)
from padc.passes.buffers_to_llvm.kernel_key import KernelKey
from padc.passes.buffers_to_llvm.kernels import Kernel, Outline
from padc.passes.buffers_to_llvm.llvm_builder import LlvmBuilder, Size, stored_type
from padc.passes.buffers_to_llvm.loop_nests import LoopNest, nest_of
from padc.passes.buffers_to_llvm.looped_ops import LoopedOp, Move, longer
from padc.passes.buffers_to_llvm.loops import Loop, merged, ordered
from padc.passes.buffers_to_llvm.op_loops import work_of
from padc.passes.buffers_to_llvm.private_buffers import (
    PrivateBuffer,
    private_buffers,
    with_private,
)
from padc.passes.buffers_to_llvm.work_sharing import share, split_loop, threads_for

FEWEST_STEPS = 16
"""The fewest steps of shared loops that several threads share well."""
FEWEST_INNER = 32
"""The fewest steps inside of them; shorter rows are faster in one loop."""
STEP_BYTES = 1 << 19
"""The most bytes of a step whose buffers stay in the second cache of most CPUs."""


def shares(a: LoopedOp, b: LoopedOp, dim: int) -> bool:
    """
    Whether two ops may share the loop along a dimension.

    They may if different steps touch different elements of the memory that one of them
    writes.
    """
    if min(len(a.loops), len(b.loops)) <= dim + 1:
        return False
    loops = [a.loops[dim], b.loops[dim]]
    if any(loop.reduces for loop in loops) or loops[0].count != loops[1].count:
        return False
    if not (a.may_be_outer(dim) and b.may_be_outer(dim)):
        return False
    return all(
        x.along(dim) is not None and x.along(dim) == y.along(dim)
        for x, y in itertools.product(a.accesses, b.accesses)
        if x.buffer.memory is y.buffer.memory and (x.writes or y.writes)
    )


def runs(ops: Sequence[LoopedOp], dim: int) -> list[list[LoopedOp]]:
    """`ops` in their order, grouped by the loop along `dim` that they share."""
    result: list[list[LoopedOp]] = []
    for op in ops:
        if (
            result
            and all(shares(op, other, dim) for other in result[-1])
            and are_apart([*result[-1], op])
        ):
            result[-1].append(op)
        else:
            result.append([op])
    return result


def groups(ops: Sequence[LoopedOp]) -> Iterator[list[LoopedOp]]:
    """`ops` in their order; those of a group become one kernel."""
    for run in runs(ops, 0):
        for group in connected(run):
            if pays(group):
                yield group
            else:
                yield from of_one_memory(group)


def connected(ops: Sequence[LoopedOp]) -> Iterator[list[LoopedOp]]:
    """`ops`, split where none uses what one on the other side writes."""
    begin = 0
    for end in range(1, len(ops) + 1):
        before, after = written_and_used(ops[begin:end]), written_and_used(ops[end:])
        if not (before[0] & after[1] or before[1] & after[0]):
            yield list(ops[begin:end])
            begin = end


def written_and_used(ops: Sequence[LoopedOp]) -> tuple[set[SSAValue], set[SSAValue]]:
    """The memory that `ops` write, and all that they use."""
    return (
        {op.output.memory for op in ops},
        {x.buffer.memory for op in ops for x in op.accesses},
    )


def of_one_memory(ops: Sequence[LoopedOp]) -> Iterator[list[LoopedOp]]:
    """`ops`, grouped as moves to the same memory."""

    def target(numbered: tuple[int, LoopedOp]) -> object:
        number, op = numbered
        return op.output.memory if isinstance(op, Move) else number

    for _, group in itertools.groupby(enumerate(ops), target):
        yield [op for _, op in group]


def pays(ops: Sequence[LoopedOp]) -> bool:
    """Whether there are enough steps for threads, and few enough bytes for a cache."""
    if len(list(of_one_memory(ops))) == 1:
        return True
    depth = shared_depth(ops)
    inner = max(most_steps(op.loops[depth:]) for op in ops)
    if inner < FEWEST_INNER or most_steps(ops[0].loops[:depth]) < FEWEST_STEPS:
        return False
    bytes: dict[SSAValue, float] = {}
    for op in ops:
        for place, x in enumerate(op.op.operands):
            if isinstance(buffer := op.values[x], BufferDescriptor):
                used = [loop for loop in op.loops[depth:] if loop.steps[place] != 0]
                total = stored_bytes(buffer.element_type) * most_steps(used)
                bytes[buffer.memory] = max(bytes.get(buffer.memory, 0), total)
    return sum(each for each in bytes.values() if each < math.inf) <= STEP_BYTES


def most_steps(loops: Sequence[Loop]) -> float:
    """The steps of `loops`, which are nested; infinity if they are not known."""
    return math.prod(
        loop.count if isinstance(loop.count, int) else math.inf for loop in loops
    )


def shared_depth(ops: Sequence[LoopedOp]) -> int:
    """How many outermost loops all `ops` share."""
    depth = 0
    while len(runs(ops, depth)) == 1:
        depth += 1
    return depth


def are_apart(ops: Sequence[LoopedOp]) -> bool:
    """
    Whether no memory that `ops` write overlaps other memory that they use.

    What is in use at once does not overlap. Of two places in the arena, the one may
    come after the other's last use.
    """
    times: dict[SSAValue, list[int]] = {}
    written: set[SSAValue] = set()
    for time, op in enumerate(ops):
        written.add(op.output.memory)
        for x in op.accesses:
            times.setdefault(x.buffer.memory, []).append(time)
    return all(
        (a not in written and b not in written)
        or (min(times[a]) <= max(times[b]) and min(times[b]) <= max(times[a]))
        or are_disjoint(a, b)
        for a, b in itertools.combinations(times, 2)
    )


def are_disjoint(a: SSAValue, b: SSAValue) -> bool:
    """Whether two different buffers are known to be in different memory."""
    if not isinstance(a.owner, memref.ViewOp) or not isinstance(b.owner, memref.ViewOp):
        return True
    first, second = place_of(a.owner), place_of(b.owner)
    if first is None or second is None:
        return False
    return first[1] <= second[0] or second[1] <= first[0]


def place_of(view: memref.ViewOp) -> tuple[int, int] | None:
    """The first byte of a view, and the one after it; None if they are not known."""
    type = view.result.type
    assert isinstance(type, MemRefType)
    match view.byte_shift.owner:
        case arith.ConstantOp(value=IntegerAttr() as number) if type.has_static_shape():
            begin = number.value.data
            bytes = stored_bytes(type.element_type) * type.element_count()
            return begin, begin + bytes
        case _:
            return None


@dataclass(frozen=True)
class Alone:
    """An op with its own loops."""

    op: int
    """The index of the op."""
    loops: Sequence[Loop]


@dataclass(frozen=True)
class Together:
    """A loop along a dimension around several ops."""

    ops: Sequence[int]
    dim: int
    count: Size
    inner: Sequence[Nest]


Nest: TypeAlias = Alone | Together


def nests(
    ops: Sequence[LoopedOp],
    loops: Sequence[Sequence[Loop]],
    numbers: Sequence[int],
    main: LlvmBuilder,
    dim: int = 0,
) -> list[Nest]:
    """
    The loops from `dim` on inwards, each shared by as many ops as possible.

    `loops` are those of each op as they are emitted.
    """
    rest = iter(numbers)
    result: list[Nest] = []
    for shared in runs([ops[number] for number in numbers], dim):
        together = [next(rest) for _ in shared]
        if len(together) > 1:
            inner = nests(ops, loops, together, main, dim + 1)
            count = shared[0].loops[dim].count
            result.append(Together(together, dim, count, inner))
        else:
            (number,) = together
            # Only `main` knows which products of sizes are equal.
            own = ordered(merged(main, longer(loops[number][dim:])), 1)
            result.append(Alone(number, own))
    return result


def kernel_of_ops(
    ops: Sequence[LoopedOp], values: Mapping[SSAValue, Value], main: LlvmBuilder
) -> Kernel:
    """One kernel for all `ops` of a group; `values` are those of the function."""
    private: Mapping[SSAValue, PrivateBuffer] = {}
    shared = ops
    if main.check is None:
        private = private_buffers(ops, shared_depth(ops), values)
        ops = [with_private(op, private, main) for op in ops]
    plan = nests(shared, [op.loops for op in ops], range(len(ops)), main)
    of = KernelKey()

    def described(nest: Nest) -> Hashable:
        match nest:
            case Alone(number, loops):
                return number, of.loops(loops)
            case Together(numbers, dim, count, inner):
                return tuple(numbers), dim, of.size(count), *map(described, inner)

    check = main.check
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
    key = *each, sizes, *map(described, plan)
    work: Size = 0
    for op in ops:
        work = main.add(work, work_of(op.op, op.loops, main))
    threads = threads_for(main, work)

    def make() -> Outline:
        kernel = Outline(main, check, threads)
        outline_ops(kernel, ops, plan, private)
        return kernel

    return Kernel(key, of.values, make, threads)


def shared_counts(plan: Sequence[Nest]) -> list[Size]:
    """The steps of the loops that all ops share."""
    match plan:
        case [Together(count=count, inner=inner)]:
            return [count, *shared_counts(inner)]
        case _:
            return []


def own_loops(plan: Sequence[Nest]) -> Iterator[Alone]:
    """The loops of each op inside of those that it shares."""
    for nest in plan:
        if isinstance(nest, Alone):
            yield nest
        else:
            yield from own_loops(nest.inner)


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


def outline_ops(
    kernel: Outline,
    ops: Sequence[LoopedOp],
    plan: Sequence[Nest],
    private: Mapping[SSAValue, PrivateBuffer],
) -> None:
    """Emit the loops of `ops` in `kernel`."""
    build = kernel.build
    kernel.aliases |= aliases_of(ops, private)
    scratch = {
        memory: build.scratch(buffer.elements, stored_type(buffer.element_type))
        for memory, buffer in private.items()
    }

    def value(value: Value) -> Value:
        """A value of the caller in the kernel."""
        if not isinstance(value, BufferDescriptor) or value.memory not in private:
            return kernel.value(value)
        offset = private[value.memory].offset(value)
        pointer = build.address(scratch[value.memory], offset, value.element_type)
        return replace(value, pointer=pointer)

    by_op: dict[int, tuple[LoopNest, Sequence[Loop]]] = {}
    for alone in own_loops(plan):
        op = ops[alone.op]
        inner = {x: value(each) for x, each in op.values.items()}
        loops = [kernel.loop(loop) for loop in alone.loops]
        body = Body(op.op, kernel, [inner[x] for x in op.op.operands], inner, 1)
        by_op[alone.op] = nest_of(body, loops), loops

    def emit(nest: Nest, offsets: Mapping[int, Sequence[Size]]) -> None:
        """Emit a nest; the operands of each op are at `offsets`."""
        if isinstance(nest, Alone):
            own, loops = by_op[nest.op]
            return own.nest(loops, offsets[nest.op], {})

        def inside(build: LlvmBuilder, place: Size) -> None:
            moved: dict[int, Sequence[Size]] = {}
            for number in nest.ops:
                loop = kernel.loop(ops[number].loops[nest.dim])
                moved[number] = loop.moved(build, offsets[number], place)
            for inner in nest.inner:
                emit(inner, moved)

        split_loop(kernel.build, kernel.size(nest.count), inside)

    share(build, kernel.sizes(shared_counts(plan)))
    firsts = {i: kernel.sizes(op.firsts) for i, op in enumerate(ops)}
    for nest in plan:
        emit(nest, firsts)
