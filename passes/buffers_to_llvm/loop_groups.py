"""Which ops share their outer loops, and become one kernel."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import IntegerAttr, MemRefType
from xdsl.ir import SSAValue

from padc.passes.buffers_to_llvm.buffer_descriptor import BufferDescriptor, stored_bytes
from padc.passes.buffers_to_llvm.looped_ops import LoopedOp, Move
from padc.passes.buffers_to_llvm.loops import Loop

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
    # In the order of first uses.
    times: dict[SSAValue, list[int]] = {}
    written: set[SSAValue] = set()
    for time, op in enumerate(ops):
        written.add(op.output.memory)
        for x in op.accesses:
            times.setdefault(x.buffer.memory, []).append(time)
    return all(
        (a not in written and b not in written)
        or min(times[b]) <= max(times[a])
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
