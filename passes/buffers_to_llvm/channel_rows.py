"""
Rows of channels that are read at computed places, as in a grid sample of many channels.

The channels of a place are contiguous in what is read, the points in the result. So
some channels of a few points are computed first, each point a row of scratch memory:
LLVM makes vectors of this loop, whose steps have the same places and weights. Then the
rows are transposed in registers and stored. Last blocks begin early enough to be whole:
some elements are computed twice, but never in two items.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, llvm, memref
from xdsl.dialects.builtin import AnyFloat
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import SSAValue

from padc.passes.buffers_to_llvm.bodies import Body, Places
from padc.passes.buffers_to_llvm.buffer_descriptor import (
    BufferDescriptor,
    scratch,
    stored_bytes,
)
from padc.passes.buffers_to_llvm.gathers import differs
from padc.passes.buffers_to_llvm.llvm_builder import LlvmBuilder, Size, predicate
from padc.passes.buffers_to_llvm.loops import Loop, known
from padc.passes.buffers_to_llvm.vector_math import OF_SMALL
from padc.passes.buffers_to_llvm.vectors import MOVED_AS, Vectors, transposed
from padc.passes.buffers_to_llvm.work_sharing import ELEMENTS, share, split_loop

CHANNELS = 64
"""The channels of a point that are computed before they are transposed."""
MOST_IN_RUNS = 4
"""With so few channels, `gathers` computes points in vectors."""
LEAST_LANES = 4
"""The side of the smallest square that is transposed."""


@dataclass(frozen=True)
class ChannelRows:
    """An op whose loads read rows of channels."""

    body: Body
    outer: Sequence[Loop]
    channels: Loop
    points: Loop
    """The loop along contiguous elements of the result."""
    type: AnyFloat
    lanes: int
    """The points of a block, and the channels of a vector."""

    @property
    def width(self) -> int:
        """The channels of a row of scratch memory."""
        return min(CHANNELS, known(self.channels.count))

    def run(self, offsets: Sequence[Size]) -> None:
        """Emit all loops."""
        build = self.body.kernel.build
        items = max(1, known(self.points.count) // ELEMENTS)
        share(build, [*(loop.count for loop in self.outer), items])
        self.body.check(build)
        memory = scratch(build, self.lanes * self.width, self.type)

        def nest(
            loops: Sequence[Loop], offsets: Sequence[Size], places: Places
        ) -> None:
            if not loops:

                def item(build: LlvmBuilder, number: Size) -> None:
                    self.item(memory, number, items, offsets, places)

                return split_loop(build, items, item)
            loop, *rest = loops

            def inside(build: LlvmBuilder, place: Size) -> None:
                nest(rest, *self.moved(loop, place, offsets, places))

            split_loop(build, loop.count, inside)

        nest(self.outer, offsets, {})

    def moved(
        self, loop: Loop, place: Size, offsets: Sequence[Size], places: Places
    ) -> tuple[Sequence[Size], Places]:
        """The offsets and places at one step of a loop."""
        build = self.body.kernel.build
        here: Places = {**places, loop.dims[0]: build.value(place)}
        return loop.moved(build, offsets, place), here

    def item(
        self,
        memory: BufferDescriptor,
        number: Size,
        items: int,
        offsets: Sequence[Size],
        places: Places,
    ) -> None:
        """Emit item `number` of the points; the last one has those left over, too."""
        build, count, width = self.body.kernel.build, self.points.count, self.width
        begin = build.mul(number, ELEMENTS)
        end = build.add(begin, ELEMENTS)
        if isinstance(number, SSAValue):
            last = build.value(items - 1)
            is_last = build.insert(llvm.ICmpOp(number, last, predicate("eq")))
            values = build.value(count), build.value(end)
            end = build.insert(llvm.SelectOp(is_last, *values))
        elif number == items - 1:
            end = count
        channels = known(self.channels.count)

        def points(build: LlvmBuilder, first: Size) -> None:
            first = build.minimum(first, build.sub(end, self.lanes))
            at = self.moved(self.points, first, offsets, places)

            def block(build: LlvmBuilder, channel: Size) -> None:
                channel = build.minimum(channel, channels - width)
                self.rows(memory, first, channel, offsets, places)
                self.squares(memory, self.moved(self.channels, channel, *at)[0])

            if width == channels:
                block(build, 0)
            else:
                build.loop(0, channels, width, block)

        build.loop(begin, end, self.lanes, points)

    def rows(
        self,
        memory: BufferDescriptor,
        point: Size,
        channel: Size,
        offsets: Sequence[Size],
        places: Places,
    ) -> None:
        """Compute the channels from `channel` on of the points from `point` on."""
        build = self.body.kernel.build
        type = self.result.element_type

        def row(build: LlvmBuilder, number: SSAValue) -> None:
            here = build.add(point, number)
            at = self.moved(self.points, here, offsets, places)
            first = build.mul(number, self.width)

            def element(build: LlvmBuilder, step: SSAValue) -> None:
                step_at = self.moved(self.channels, build.add(channel, step), *at)
                (result,) = self.body.results(build, *step_at, {})
                place = build.add(first, step)
                address = build.address(memory.pointer, place, type)
                memory.store(build, result, address)

            build.loop(0, self.width, 1, element)

        build.loop(0, self.lanes, 1, row)

    def squares(self, memory: BufferDescriptor, offsets: Sequence[Size]) -> None:
        """Transpose the rows of scratch memory into the result."""
        build, lanes, width = self.body.kernel.build, self.lanes, self.width
        vectors = Vectors(build, self.type, lanes)

        def square(build: LlvmBuilder, channel: Size) -> None:
            channel = build.minimum(channel, width - lanes)
            rows = [
                vectors.load(
                    memory, memory.element(build, [build.add(channel, i * width)])
                )
                for i in range(lanes)
            ]
            first = self.channels.moved(build, offsets, channel)
            for i, column in enumerate(transposed(build, rows)):
                offset = self.channels.moved(build, first, i)[-1]
                address = vectors.address(self.result.pointer, offset)
                vectors.store(column, self.result, address)

        build.loop(0, width, lanes, square)

    @property
    def result(self) -> BufferDescriptor:
        result = self.body.operands[-1]
        assert isinstance(result, BufferDescriptor)
        return result


def channel_rows(body: Body, loops: Sequence[Loop]) -> ChannelRows | None:
    """`body` in `loops` as rows of channels; None if it is something else."""
    build, op, ops = body.kernel.build, body.op, list(body.op.body.walk())
    if len(loops) < 2 or any(loop.reduces for loop in loops) or body.outputs != 1:
        return None
    if op.body.block.args[-1].first_use is not None:
        return None
    if any(isinstance(x, (*OF_SMALL, arith.DivUIOp)) for x in ops):
        return None
    points = next((loop for loop in loops if loop.steps[-1] == 1), None)
    if points is None:
        return None
    outer = [loop for loop in loops if loop is not points]
    channels = next((loop for loop in outer if reads_along(body, loop, points)), None)
    result = body.operands[-1]
    assert isinstance(result, BufferDescriptor)
    type = MOVED_AS.get(stored_bytes(result.element_type))
    if channels is None or type is None:
        return None
    counts = [points.count, channels.count]
    if any(not isinstance(count, int) for count in counts):
        return None
    lanes = build.vector_bytes // max(4, type.size)
    while lanes > min(map(known, counts)):
        lanes //= 2
    if lanes < LEAST_LANES or known(channels.count) <= MOST_IN_RUNS:
        return None
    outer = [loop for loop in outer if loop is not channels]
    return ChannelRows(body, outer, channels, points, type, lanes)


def reads_along(body: Body, channels: Loop, points: Loop) -> bool:
    """
    Whether all computed loads read neighbours in steps of `channels`.

    Their other indices, and all elements of operands, are the same in these steps.
    """
    inputs = len(body.op.inputs)
    if not inputs or any(channels.steps[:inputs]):
        return False
    loads = [x for x in body.op.body.block.ops if isinstance(x, memref.LoadOp)]
    found = False
    for load in loads:
        *others, last = load.indices
        buffer = body.values[load.memref]
        assert isinstance(buffer, BufferDescriptor)
        is_row = (
            isinstance(last.owner, linalg.IndexOp)
            and last.owner.dim.value.data in channels.dims
            and buffer.strides[-1] == 1
        )
        if not is_row or any(differs(body, x, channels) for x in others):
            return False
        found = found or any(differs(body, x, points) for x in others)
    return found
