"""The loops of a linalg op around its body, in the form that is fastest for it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, llvm
from xdsl.dialects.builtin import (
    FixedBitwidthType,
    IntegerAttr,
    i1,
    i32,
)
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.dialects.linalg.attrs import IteratorType
from xdsl.ir import Operation, SSAValue

from padc.passes.buffers_to_llvm.bodies import Body, Places, count, quotient_of
from padc.passes.buffers_to_llvm.buffer_descriptor import BufferDescriptor, stored_bytes
from padc.passes.buffers_to_llvm.gathers import Gathers, gathers_of
from padc.passes.buffers_to_llvm.llvm_builder import LlvmBuilder, Size, predicate
from padc.passes.buffers_to_llvm.looped_ops import copies
from padc.passes.buffers_to_llvm.loops import Loop
from padc.passes.buffers_to_llvm.row_places import rest_of
from padc.passes.buffers_to_llvm.row_sums import Stored, SummedRow
from padc.passes.buffers_to_llvm.sums.extremes import Extreme, extreme_of
from padc.passes.buffers_to_llvm.sums.float_sums import BlockedSum, is_long, is_sum
from padc.passes.buffers_to_llvm.vector_math import OF_SMALL
from padc.passes.buffers_to_llvm.window_rows import WindowRow, window_row
from padc.passes.buffers_to_llvm.work_sharing import (
    ELEMENTS,
    items_of,
    share,
    split_elements,
    split_loop,
    split_range,
)

WINDOW = 128
"""The most ops of the steps of a window that are joined for each output."""
REPEATS = 8
"""The most steps of an innermost loop that are joined since they read one element."""
SHORT_ROW = 64
"""The most vectors of a row whose last elements matter."""
COPIED_BYTES = 1 << 15
"""The least bytes of a contiguous copy that C's memcpy makes faster than a loop."""


@dataclass
class LoopNest:
    """The loops of a linalg op around its body, inside a kernel."""

    body: Body
    extreme: Extreme | None = None
    """The extreme that the reduction loops compute, if any."""
    sum: BlockedSum | None = None
    """The blocked sum that the reduction loops compute, if any."""
    windows: WindowRow | None = None
    """The rows of windows that the innermost loops are, if two steps are faster."""
    gathers: Gathers | None = None
    """How elements are loaded from places that are data, if they are."""

    @property
    def build(self) -> LlvmBuilder:
        return self.body.kernel.build

    @property
    def op(self) -> LinalgStructuredOperation:
        return self.body.op

    def share(self, loops: Sequence[Loop]) -> None:
        """Split `loops`, which `nest` then emits, if the work is shared."""
        build = self.build
        counts = [loop.count for loop in loops if not loop.reduces]
        if loops and not loops[-1].reduces:
            steps = build.floordiv(counts[-1], self.repeats(loops[-1]))
            counts[-1] = items_of(build, steps)
        share(build, counts)

    def nest(
        self, loops: Sequence[Loop], offsets: Sequence[Size], places: Places
    ) -> None:
        """Emit the loops from here on inwards; operands are at `offsets`."""
        build = self.build
        if not loops:
            return self.body.elements(build, offsets, places)
        loop, *rest = loops
        if loop.reduces and self.sum is not None:
            self.body.check(build)
            return self.sum.run(loops, offsets, self.body.add)
        if self.extreme is not None and not rest and is_row(loop):
            return self.row(build, self.extreme, loop, offsets)
        if not rest and self.is_sum_of_row(loop) and self.rest_of_row(loop):
            return self.sum_row(loop, offsets)
        if self.windows is not None and loops[0].reduces and build.span is None:
            return self.windows.run(build, offsets)
        if self.is_window(loops):
            return self.window(loops, offsets, places)

        def inside(build: LlvmBuilder, place: Size) -> None:
            here = {**places, loop.dims[0]: build.value(place)}
            self.nest(rest, loop.moved(build, offsets, place), here)

        if loop.reduces:
            build.loop(0, loop.count, 1, inside)
        elif rest:
            split_loop(build, loop.count, inside)
        elif self.is_long_copy(loop):
            self.copy(loop, offsets)
        elif any(isinstance(x, OF_SMALL) for x in self.op.body.walk()):
            self.of_small(loop, offsets, places)
        elif (number := self.repeats(loop)) > 1:
            self.repeated(loop, number, offsets, places)
        elif self.gathers is not None:
            self.gathers.run(loop, offsets, places)
        elif (left := self.rest_of_row(loop)) and not self.in_place():
            # Some elements are computed twice, which changes nothing. The next op finds
            # them stored if they are the first ones of the row.
            build.loop(0, self.lanes, 1, inside)
            build.loop(left, loop.count, 1, inside)
        else:
            split_elements(build, loop.count, inside)

    @property
    def lanes(self) -> int:
        """The elements of a vector of the widest type that the op computes with."""
        values = [x for op in self.op.body.walk() for x in (*op.operands, *op.results)]
        widths = [x.type.size for x in values if isinstance(x.type, FixedBitwidthType)]
        return self.build.vector_bytes // max(4, *widths)

    def rest_of_row(self, loop: Loop) -> int:
        """
        How many elements of an innermost loop are left over from whole vectors.

        LLVM would compute those one by one, which takes as long as whole vectors. The
        result is 0 if no elements are left over, or if the row is too long for these to
        matter.
        """
        count, lanes = loop.count, self.lanes
        if self.build.span is not None or not isinstance(count, int):
            return 0
        return rest_of(count, lanes) if lanes < count <= SHORT_ROW * lanes else 0

    def in_place(self) -> bool:
        """Whether the op reads memory that it writes."""
        inputs, outs = self.body.operands[: -self.body.outputs], self.op.outputs
        written = {
            x.memory
            for x in self.body.operands[-len(outs) :]
            if isinstance(x, BufferDescriptor)
        }
        block = self.op.body.block
        return any(x.first_use is not None for x in block.args[-len(outs) :]) or any(
            isinstance(x, BufferDescriptor) and x.memory in written for x in inputs
        )

    def repeats(self, loop: Loop) -> int:
        """
        How many steps of an innermost loop in a row read one element.

        Their numbers divided by a constant are the same. It is 1 if that is not used.
        """
        kinds = self.op.get_iterator_types()
        if any(kind.data is IteratorType.REDUCTION for kind in kinds):
            return 1
        ops = list(self.op.body.walk())
        found = [n for x in ops if (n := divisor_of(x, loop.dims[0])) is not None]
        if not found or not isinstance(loop.count, int) or loop.count % found[0]:
            return 1
        # Those with code for small arguments are faster in blocks, see `of_small`.
        has_small = any(isinstance(x, OF_SMALL) for x in ops)
        return 1 if has_small or found[0] > REPEATS else found[0]

    def repeated(
        self, loop: Loop, number: int, offsets: Sequence[Size], places: Places
    ) -> None:
        """Emit an innermost loop, `number` steps at a time: they share a load."""
        (dim,) = loop.dims

        def inside(build: LlvmBuilder, place: Size) -> None:
            first = build.mul(place, number)
            for step in range(number):
                at = build.value(build.add(first, step))
                here: Places = {dim: at, (dim, number): build.value(place)}
                moved = loop.moved(build, offsets, at)
                self.body.element(build, moved, {**places, **here})

        assert isinstance(loop.count, int)
        split_elements(self.build, loop.count // number, inside)

    def is_window(self, loops: Sequence[Loop]) -> bool:
        """Whether all `loops` but the innermost reduce to one element, in few ops."""
        *window, along = loops
        if not window or along.reduces:
            return False
        for loop in window:
            stays = not any(loop.steps[-self.body.outputs :])
            if not (loop.reduces and stays and isinstance(loop.count, int)):
                return False
        ops = list(self.op.body.walk())
        # Those with code for small arguments are faster in blocks, see `of_small`.
        has_small = any(isinstance(x, OF_SMALL) for x in ops)
        number = math.prod(map(count, window)) * len(ops)
        return 0 < number <= WINDOW and not has_small

    def window(
        self, loops: Sequence[Loop], offsets: Sequence[Size], places: Places
    ) -> None:
        """Emit a loop along the outputs, in which all steps of a window are joined."""
        *window, along = loops
        ranges = [range(count(loop)) for loop in window]

        def inside(build: LlvmBuilder, place: Size) -> None:
            first = along.moved(build, offsets, place)
            here = {**places, along.dims[0]: build.value(place)}
            steps: list[tuple[Sequence[Size], Places]] = []
            for numbers in itertools.product(*ranges):
                at = first
                for loop, number in zip(window, numbers, strict=True):
                    at = loop.moved(build, at, number)
                    here[loop.dims[0]] = build.value(number)
                steps.append((at, dict(here)))
            if self.extreme is None:
                self.body.store(build, first, self.body.joined(build, steps))
            else:
                values = [self.body.load(build, 0, at) for at, _ in steps]
                found = self.extreme.of_values(build, values)
                self.body.join(build, self.extreme.op, found, first)

        split_elements(self.build, along.count, inside)

    def is_long_copy(self, loop: Loop) -> bool:
        """
        Whether an innermost loop copies many contiguous elements.

        Checked code copies element by element.
        """
        if not isinstance(loop.count, int) or self.build.check is not None:
            return False
        if not copies(self.op):
            return False
        source, result = self.body.operands
        return (
            isinstance(source, BufferDescriptor)
            and isinstance(result, BufferDescriptor)
            and source.memory is not result.memory
            and tuple(loop.steps) == (1, 1)
            and loop.count * stored_bytes(result.element_type) >= COPIED_BYTES
        )

    def copy(self, loop: Loop, offsets: Sequence[Size]) -> None:
        """Copy the elements of an innermost loop: memcpy knows the CPU's caches."""
        build, (source, result) = self.build, self.body.operands
        assert isinstance(source, BufferDescriptor)
        assert isinstance(result, BufferDescriptor)

        def part(first: Size, number: Size) -> None:
            addresses = [
                build.address(x.pointer, build.add(offset, first), x.element_type)
                for x, offset in zip((result, source), offsets[::-1], strict=True)
            ]
            bytes = build.mul(number, stored_bytes(result.element_type))
            is_volatile = build.insert(llvm.ConstantOp(IntegerAttr(0, i1), i1))
            args = [*addresses, build.value(bytes), is_volatile]
            build.do(llvm.CallIntrinsicOp("llvm.memcpy.p0.p0.i64", args, []))

        split_range(build, loop.count, part)

    def of_small(self, loop: Loop, offsets: Sequence[Size], places: Places) -> None:
        """
        Emit an innermost loop with sines or remainders, in blocks of `ELEMENTS`.

        A loop finds out whether a block has large arguments of them. If not, faster
        code computes the block.
        """

        def block(build: LlvmBuilder, number: Size) -> None:
            begin = build.mul(number, ELEMENTS)
            left = build.sub(loop.count, begin)
            if isinstance(loop.count, int) and loop.count <= ELEMENTS:
                left = loop.count
            count = build.minimum(left, ELEMENTS)

            def at(place: SSAValue) -> tuple[list[Size], Places]:
                here = build.value(build.add(begin, place))
                moved = loop.moved(build, offsets, here)
                return moved, {**places, loop.dims[0]: here}

            def found(place: SSAValue, carried: Sequence[SSAValue]) -> list[SSAValue]:
                build.large_arguments = []
                self.body.results(build, *at(place), {})
                (result,) = carried
                for is_large in build.large_arguments:
                    bit = build.insert(llvm.ZExtOp(is_large, i32))
                    result = build.insert(llvm.OrOp(result, bit))
                build.large_arguments = None
                return [result]

            def computed(is_small: bool) -> None:
                build.large_arguments = [] if is_small else None
                build.loop(
                    0,
                    count,
                    1,
                    lambda build, place: self.body.element(build, *at(place)),
                )
                build.large_arguments = None

            (large,) = build.carry(count, [build.number(0)], found)
            none = build.insert(llvm.ICmpOp(large, build.number(0), predicate("eq")))
            build.either(none, lambda: computed(True), lambda: computed(False))

        split_loop(self.build, items_of(self.build, loop.count), block)

    def row(
        self, build: LlvmBuilder, extreme: Extreme, loop: Loop, offsets: Sequence[Size]
    ) -> None:
        """Join the extreme of a row with the one so far."""
        self.body.check(build)
        x = self.body.operands[0]
        assert isinstance(x, BufferDescriptor)
        ranges: list[tuple[Size, Size]] = [(0, loop.count)]
        if rest := self.rest_of_row(loop):
            ranges = [(0, self.lanes), (rest, count(loop) - rest)]
        first = self.body.load(build, len(offsets) - 1, offsets)
        found = extreme.of_row(build, x, offsets[0], ranges, first)
        self.body.store(build, offsets, [found])

    def is_sum_of_row(self, loop: Loop) -> bool:
        """Whether a loop adds contiguous elements."""
        is_contiguous = all(step in (0, 1) for step in loop.steps)
        return self.sum is None and is_sum(self.op) and is_row(loop) and is_contiguous

    def sum_row(
        self,
        loop: Loop,
        offsets: Sequence[Size],
        stored: Stored | None = None,
        first: SSAValue | None = None,
    ) -> None:
        """Add the elements of a row to `first`, or to the result."""
        if first is None:
            first = self.body.load(self.build, len(offsets) - 1, offsets)
        row = SummedRow(self.body, loop, offsets, stored)
        sums = row.sums(first, self.rest_of_row(loop), self.lanes)
        self.body.store(self.build, offsets, sums)


def nest_of(body: Body, loops: Sequence[Loop], rows: int = 1) -> LoopNest:
    """
    `loops` around `body`; its memory is allocated here, outside of them.

    Loops outside of `loops` run over tiles of `rows` steps.
    """
    nest = LoopNest(body, extreme_of(body.op), gathers=gathers_of(body, loops))
    if loops and is_sum(body.op) and is_long(loops):
        result = body.operands[-1]
        assert isinstance(result, BufferDescriptor)
        nest.sum = BlockedSum(body.kernel.build, result, not loops[-1].reduces)
    else:
        nest.windows = window_row(body, loops, rows)
    return nest


def divisor_of(op: Operation, dim: int) -> int | None:
    """The constant by which `op` divides the number of a loop, if it does."""
    if not isinstance(op, arith.DivUIOp):
        return None
    found, divisor = quotient_of(op)
    return divisor if found == dim else None


def is_row(loop: Loop) -> bool:
    """Whether a loop reduces contiguous elements of the first input to one output."""
    return loop.reduces and loop.steps[0] == 1 and loop.steps[-1] == 0
