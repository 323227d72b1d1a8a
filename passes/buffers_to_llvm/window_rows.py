"""
Rows of pooled windows, in two steps: along the columns, then along the rows.

A window of 3x3 that moves by 2 reads nine elements, and a CPU gathers those of several
windows from places that are not contiguous. Along the columns, the elements are: the
first step reduces 3 rows to one, which the second step reduces by threes.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, llvm
from xdsl.dialects.builtin import i32
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import SSAValue

from padc.passes.buffers_to_llvm.bodies import Body, count
from padc.passes.buffers_to_llvm.buffer_descriptor import BufferDescriptor, scratch
from padc.passes.buffers_to_llvm.llvm_builder import LlvmBuilder, Size
from padc.passes.buffers_to_llvm.loops import Loop, known
from padc.passes.buffers_to_llvm.row_places import Phases, columns_of, rest_of
from padc.passes.buffers_to_llvm.scalars import SUM
from padc.passes.buffers_to_llvm.sums.extremes import Extreme, extreme_of
from padc.passes.buffers_to_llvm.sums.float_sums import is_sum

MOST_COLUMNS = 1024
"""The most columns of a row that stay in the first cache."""
GATHERED = 3
"""An element that is not contiguous takes as long as so many that are."""
GAIN = 1.5
"""Two steps have to be so many times as fast by this count: they store the columns."""


@dataclass(frozen=True)
class WindowRow:
    """A row of windows."""

    body: Body
    extreme: Extreme | None
    """What is sought; None for sums."""
    down: Sequence[Loop]
    """The loops through the rows of a window."""
    across: Loop
    """The loop through the columns of a window."""
    along: Loop
    """The loop through the windows."""
    phases: Phases
    """The columns of the windows."""
    memory: BufferDescriptor
    """Scratch memory for the columns of some rows."""

    def run(self, build: LlvmBuilder, offsets: Sequence[Size]) -> None:
        """Emit both steps; operands are at `offsets`."""
        self.reduce_columns(build, offsets)

        def join(build: LlvmBuilder, number: SSAValue) -> None:
            at = self.along.moved(build, offsets, number)
            old = self.body.load(build, len(at) - 1, at)
            self.window(build, offsets, number, old, 0)

        build.loop(0, self.along.count, 1, join)

    def reduce_columns(
        self, build: LlvmBuilder, offsets: Sequence[Size], row: Size = 0
    ) -> None:
        """Emit the first step, to a row of the memory."""
        phases = self.phases

        def column(group: Size, phase: int) -> None:
            number = phases.column(build.wrap(group), phase).value
            at = [build.add(offsets[0], number), *offsets[1:]]
            values = [
                self.term(build, moved)
                for moved in steps_of_window(build, self.down, at)
            ]
            address = self.place(build, phase, group, row)
            self.memory.store(build, self.joined(build, values), address)

        def columns(build: LlvmBuilder, group: SSAValue) -> None:
            for phase in range(phases.stride):
                column(group, phase)

        overlapping(build, phases.groups, columns)
        for phase in range(phases.left):
            column(phases.groups, phase)

    def reduce_rows(
        self, build: LlvmBuilder, offsets: Sequence[Size], start: SSAValue, row: Size
    ) -> None:
        """Emit the second step, from a row of the memory and `start`."""
        overlapping(
            build,
            count(self.along),
            lambda build, number: self.window(build, offsets, number, start, row),
        )

    def window(
        self,
        build: LlvmBuilder,
        offsets: Sequence[Size],
        number: SSAValue,
        start: SSAValue,
        row: Size,
    ) -> None:
        """Reduce the columns of a window, and join them with `start`."""
        self.body.check(build)
        values = [start if self.extreme is None else self.extreme.key(build, start)]
        for tap in range(count(self.across)):
            groups, phase = self.phases.of_tap(tap * known(self.across.steps[0]))
            address = self.place(build, phase, build.add(number, groups), row)
            values.append(self.memory.load(build, address))
        found, at = self.joined(build, values), self.along.moved(build, offsets, number)
        if self.extreme is not None:
            found = self.extreme.number(build, found)
        self.body.store(build, at, [found])

    def place(self, build: LlvmBuilder, phase: int, group: Size, row: Size) -> SSAValue:
        """The address of a column of a row of the memory."""
        first = build.mul(row, self.phases.elements)
        place = build.add(first, self.phases.place(build.wrap(group), phase).value)
        return self.memory.element(build, [place])

    def term(self, build: LlvmBuilder, offsets: Sequence[Size]) -> SSAValue:
        """An element of the input as what is joined."""
        x = self.body.load(build, 0, offsets)
        return x if self.extreme is None else self.extreme.key(build, x)

    def joined(self, build: LlvmBuilder, values: Sequence[SSAValue]) -> SSAValue:
        def join(a: SSAValue, b: SSAValue) -> SSAValue:
            if self.extreme is None:
                return build.insert(llvm.FAddOp(a, b, SUM))
            return build.insert(llvm.CallIntrinsicOp("llvm.umax.i32", [a, b], [i32]))

        return functools.reduce(join, values)


def overlapping(
    build: LlvmBuilder, count: int, body: Callable[[LlvmBuilder, SSAValue], None]
) -> None:
    """Loop over a row; the first vector overlaps the second (see `LoopNest`)."""
    lanes = build.vector_bytes // 4
    rest = rest_of(count, lanes) if count > lanes else 0
    if rest:
        build.loop(0, lanes, 1, body)
    build.loop(rest, count, 1, body)


def steps_of_window(
    build: LlvmBuilder, loops: Sequence[Loop], offsets: Sequence[Size]
) -> Sequence[Sequence[Size]]:
    """The offsets of the operands at each step of `loops`."""
    result: list[Sequence[Size]] = []
    for numbers in itertools.product(*(range(count(loop)) for loop in loops)):
        at = offsets
        for loop, number in zip(loops, numbers, strict=True):
            at = loop.moved(build, at, number)
        result.append(at)
    return result


def window_row(body: Body, loops: Sequence[Loop], rows: int) -> WindowRow | None:
    """
    The row that the innermost of `loops` make, if two steps are faster.

    There is memory for `rows` of them.
    """
    extreme = extreme_of(body.op)
    if extreme is None and not adds_elements(body):
        return None
    if not loops or loops[-1].reduces:
        return None
    *outer, along = loops
    window = list(itertools.takewhile(lambda loop: loop.reduces, reversed(outer)))
    steps = [loop.steps[0] for loop in (*window, along)]
    counts = [loop.count for loop in (*window, along)]
    if len(window) < 2 or not all(
        isinstance(x, int) and x > 0 for x in (*steps, *counts)
    ):
        return None
    if any(any(loop.steps[-body.outputs :]) for loop in window):
        return None
    across = min(window, key=lambda loop: known(loop.steps[0]))
    down = [loop for loop in reversed(window) if loop is not across]
    stride, step = known(along.steps[0]), known(across.steps[0])
    columns = columns_of(count(along), stride, count(across), step)
    if columns > MOST_COLUMNS or not pays(down, across, along, columns):
        return None
    phases = Phases(columns, stride)
    type = i32 if extreme is not None else body.op.body.block.args[-1].type
    memory = scratch(body.kernel.build, rows * phases.elements, type)
    return WindowRow(body, extreme, down, across, along, phases, memory)


def pays(down: Sequence[Loop], across: Loop, along: Loop, columns: int) -> bool:
    """Whether two steps are faster than one."""
    rows = math.prod(map(count, down))
    each = GATHERED if known(along.steps[0]) > 1 else 1
    windows = each * count(along) * count(across)
    return GAIN * (rows * columns + windows) < rows * windows


def adds_elements(body: Body) -> bool:
    """Whether an op adds elements of its first input, and nothing else."""
    args = body.op.body.block.args
    match list(body.op.body.block.ops):
        case [arith.AddfOp() as add, linalg.YieldOp()]:
            return is_sum(body.op) and set(add.operands) == {args[0], args[-1]}
        case _:
            return False
