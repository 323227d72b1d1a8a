"""
Sums of many floats, whose rounding errors do not grow with their number.

The terms are summed in blocks. The sums of blocks are added with the rounding error of
each addition, which is exact: see `added`.

If the innermost loop reduces, a block is a scalar that LLVM vectorizes. Otherwise it is
a row of sums, for up to `ELEMENTS` results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from xdsl.dialects import arith, llvm
from xdsl.dialects.builtin import AnyFloat, Float32Type, Float64Type, FloatAttr
from xdsl.dialects.linalg import ops as linalg
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import OpResult, SSAValue

from padc.passes.buffers_to_llvm.buffer_descriptor import BufferDescriptor, scratch
from padc.passes.buffers_to_llvm.llvm_builder import LlvmBuilder, Size
from padc.passes.buffers_to_llvm.loops import Loop
from padc.passes.buffers_to_llvm.sums.partial_sums import added_up, in_blocks, steps_of
from padc.passes.buffers_to_llvm.work_sharing import ELEMENTS, items_of, split_loop

Add: TypeAlias = "Callable[[Sequence[Size], SSAValue], SSAValue]"
"""A sum plus the term at the offsets of the operands."""

ROW_TERMS = 2048
"""The most terms of a block along a row: a few dozen in each lane of vectors."""
TERMS = 128
"""The most terms of a block that are added one after the other."""
UNROLLED = 4
"""So many terms are summed before they are added to a row of sums."""


def is_sum(op: LinalgStructuredOperation) -> bool:
    """Whether `op` adds a term to its only output, which nothing else uses."""
    block = op.body.block
    if len(op.outputs) != 1:
        return False
    if any(isinstance(inner, linalg.IndexOp) for inner in op.body.walk()):
        return False
    out, end = block.args[-1], block.last_op
    assert isinstance(end, linalg.YieldOp)
    (result,) = end.operands
    return (
        isinstance(out.type, Float32Type | Float64Type)
        and isinstance(result, OpResult)
        and isinstance(add := result.op, arith.AddfOp)
        and [use.operation for use in out.uses] == [add]
        and result.has_one_use()
    )


def is_long(loops: Sequence[Loop]) -> bool:
    """Whether the loops that reduce have more than one block of terms."""
    number = steps_of([loop for loop in loops if loop.reduces])
    return number is None or 2 * number > 3 * most_terms(loops[-1])


def most_terms(innermost: Loop) -> int:
    """The most terms of a block."""
    is_contiguous = all(step in (0, 1) for step in innermost.steps)
    return ROW_TERMS if innermost.reduces and is_contiguous else TERMS


class BlockedSum:
    """Emits the loops of a sum from the first one that reduces on inwards."""

    def __init__(self, build: LlvmBuilder, result: BufferDescriptor, is_row: bool):
        """`is_row` tells whether the innermost loop does not reduce."""
        self.build = build
        self.result = result
        self.type = result.element_type
        # Allocated once, outside of all loops.
        self.scratch = (
            [scratch(build, ELEMENTS, self.type) for _ in range(2)] if is_row else None
        )

    def run(self, loops: Sequence[Loop], offsets: Sequence[Size], add: Add) -> None:
        if self.scratch is None:
            return self.element(loops, offsets, add)
        (*sums, along), (partial, errors) = loops, self.scratch
        count = along.count

        def tile(build: LlvmBuilder, number: Size) -> None:
            place = build.mul(number, ELEMENTS)
            is_whole = isinstance(count, int) and count <= ELEMENTS
            left = count if is_whole else build.sub(count, place)
            part = replace(along, count=build.minimum(left, ELEMENTS))
            at = along.moved(build, offsets, place)
            Row(self, part, partial, errors, add).run(sums, at)

        split_loop(self.build, items_of(self.build, count), tile)

    def element(self, loops: Sequence[Loop], offsets: Sequence[Size], add: Add) -> None:
        """The sum of all terms, for one element of the result."""
        build, zero = self.build, self.number(0.0)

        def block(
            loops: Sequence[Loop],
            offsets: Sequence[Size],
            sums: Sequence[SSAValue],
            _: SSAValue | bool,
        ) -> Sequence[SSAValue]:
            # LLVM vectorizes loops of single terms: it would shuffle several.
            (x,) = added_up(
                build, loops, offsets, [zero], lambda at, x: [add(at, x[0])], 1
            )
            sum, error = sums
            return added(build, sum, error, x)

        address = self.address(offsets)
        start = [self.result.load(build, address), zero]
        most = most_terms(loops[-1])
        sum, error = in_blocks(build, loops, offsets, most, start, block)
        self.result.store(build, corrected(build, sum, error), address)

    def address(self, offsets: Sequence[Size]) -> SSAValue:
        """The address of the element of the result."""
        return self.build.address(self.result.pointer, offsets[-1], self.type)

    def number(self, x: float) -> SSAValue:
        assert isinstance(self.type, AnyFloat)
        return self.build.insert(llvm.ConstantOp(FloatAttr(x, self.type), self.type))


@dataclass(frozen=True)
class Row:
    """The sums for some neighbors in the result."""

    of: BlockedSum
    along: Loop
    """The loop through the neighbors."""
    partial: BufferDescriptor
    """Memory for the sums of a block."""
    errors: BufferDescriptor
    """Memory for the errors of the sums in the result."""
    add: Add

    def run(self, loops: Sequence[Loop], offsets: Sequence[Size]) -> None:
        """Add all terms of `loops` to the result."""
        build, of = self.of.build, self.of
        zero = of.number(0.0)

        def block(
            loops: Sequence[Loop],
            offsets: Sequence[Size],
            _: Sequence[SSAValue],
            __: SSAValue | bool,
        ) -> Sequence[SSAValue]:
            self.each(lambda i: self.store(self.partial, i, zero))
            self.terms(loops, offsets)
            self.each(lambda i: self.add_block(offsets, i))
            return []

        self.each(lambda i: self.store(self.errors, i, zero))
        in_blocks(build, loops, offsets, TERMS, [], block)
        self.each(lambda i: self.correct(offsets, i))

    def each(self, body: Callable[[SSAValue], None]) -> None:
        """Emit a loop over the row."""
        self.of.build.loop(0, self.along.count, 1, lambda _, place: body(place))

    def load(self, memory: BufferDescriptor, place: SSAValue) -> SSAValue:
        build = self.of.build
        return memory.load(build, memory.element(build, [place]))

    def store(self, memory: BufferDescriptor, place: SSAValue, x: SSAValue) -> None:
        build = self.of.build
        memory.store(build, x, memory.element(build, [place]))

    def terms(self, loops: Sequence[Loop], offsets: Sequence[Size]) -> None:
        """Add the terms of a block to its sums, several of each at a time."""
        build, (first, *rest) = self.of.build, loops
        if rest:
            return build.loop(
                0,
                first.count,
                1,
                lambda build, place: self.terms(
                    rest, first.moved(build, offsets, place)
                ),
            )

        def some(number: int) -> Callable[[LlvmBuilder, SSAValue], None]:
            def inside(build: LlvmBuilder, place: SSAValue) -> None:
                places = [build.add(place, i) for i in range(number)]
                each = [first.moved(build, offsets, place) for place in places]
                self.each(lambda i: self.add_terms(each, i))

            return inside

        whole = build.mul(build.floordiv(first.count, UNROLLED), UNROLLED)
        build.loop(0, whole, UNROLLED, some(UNROLLED))
        if whole != first.count:
            build.loop(whole, first.count, 1, some(1))

    def add_terms(self, each: Sequence[Sequence[Size]], place: SSAValue) -> None:
        """Add terms, each at its offsets, to a sum of the block."""
        build = self.of.build
        # Adding to -0 changes nothing.
        total = self.of.number(-0.0)
        for offsets in each:
            total = self.add(self.along.moved(build, offsets, place), total)
        old = self.load(self.partial, place)
        new = build.insert(llvm.FAddOp(old, total))
        self.store(self.partial, place, new)

    def add_block(self, offsets: Sequence[Size], place: SSAValue) -> None:
        """Add a sum of the block to the result."""
        build, of = self.of.build, self.of
        address = of.address(self.along.moved(build, offsets, place))
        old, error = of.result.load(build, address), self.load(self.errors, place)
        sum, error = added(build, old, error, self.load(self.partial, place))
        of.result.store(build, sum, address)
        self.store(self.errors, place, error)

    def correct(self, offsets: Sequence[Size], place: SSAValue) -> None:
        """Add the errors to the result."""
        build, of = self.of.build, self.of
        address = of.address(self.along.moved(build, offsets, place))
        sum, error = of.result.load(build, address), self.load(self.errors, place)
        of.result.store(build, corrected(build, sum, error), address)


def added(
    build: LlvmBuilder, sum: SSAValue, error: SSAValue, x: SSAValue
) -> tuple[SSAValue, SSAValue]:
    """
    `sum + x`, and `error` plus what that addition lost.

    Source: D. Knuth, "The Art of Computer Programming 2" (3rd edition, 1997), 4.2.2,
    theorem B.
    """

    def subtracted(a: SSAValue, b: SSAValue) -> SSAValue:
        return build.insert(llvm.FSubOp(a, b))

    total = build.insert(llvm.FAddOp(sum, x))
    part = subtracted(total, sum)
    lost = build.insert(
        llvm.FAddOp(subtracted(sum, subtracted(total, part)), subtracted(x, part))
    )
    return total, build.insert(llvm.FAddOp(error, lost))


def corrected(build: LlvmBuilder, sum: SSAValue, error: SSAValue) -> SSAValue:
    """`sum + error`; `sum` if it is infinite or NaN, whose error is NaN."""
    total = build.insert(llvm.FAddOp(sum, error))
    is_nan = build.insert(llvm.FCmpOp(error, error, "uno"))
    return build.insert(llvm.SelectOp(is_nan, sum, total))
