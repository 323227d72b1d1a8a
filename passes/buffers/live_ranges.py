"""Live ranges of buffers, and how buffers never in use together share memory."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects import memref
from xdsl.dialects.builtin import DYNAMIC_INDEX, FixedBitwidthType, i1
from xdsl.ir import Attribute, Block

from padc.ir.arithmetic import Whole, ceil_div
from padc.passes.buffers.views import within
from padc.passes.common.buffer_views import views
from padc.passes.common.memref_builder import memref_type

TOO_LARGE = 2**48
"""More bytes than any machine has."""
ALIGNMENT = 64
"""In bytes: a cache line, and the longest vector."""


def aligned(bytes: Whole) -> Whole:
    """The next multiple of the alignment, from `bytes` on."""
    return ceil_div(bytes, ALIGNMENT) * ALIGNMENT


def element_bytes(type: Attribute) -> int:
    """The size of an element in memory; an i1 takes one byte."""
    if type == i1:
        return 1
    assert isinstance(type, FixedBitwidthType)
    return type.size


@dataclass(frozen=True, eq=False)
class LiveRange:
    """A buffer, and the numbers of the first and the last op that use it."""

    alloc: memref.AllocOp
    first: int
    last: int

    def contains(self, time: int) -> bool:
        return self.first <= time <= self.last

    def overlaps(self, other: LiveRange) -> bool:
        return self.first <= other.last and other.first <= self.last

    def static_bytes(self, guard: int) -> int | None:
        """Its bytes in the arena, with `guard` more, aligned; None if dynamic."""
        type = memref_type(self.alloc.memref)
        total = element_bytes(type.element_type)
        for size in type.get_shape():
            if size == DYNAMIC_INDEX:
                return None
            total *= size
        return aligned(total + guard)


def live_ranges(block: Block, results: Collection[memref.AllocOp]) -> list[LiveRange]:
    """The live range of each buffer that `block` allocates, except `results`."""
    order = {op: i for i, op in enumerate(block.ops)}
    ranges: list[LiveRange] = []
    for alloc in block.ops:
        if isinstance(alloc, memref.AllocOp) and alloc not in results:
            uses = [
                order[within(block, use.operation)]
                for value in views(alloc.memref)
                for use in value.uses
                if not isinstance(use.operation, memref.DeallocOp)
            ]
            last = max([order[alloc], *uses])
            ranges.append(LiveRange(alloc, order[alloc], last))
    return ranges


def placed(bytes: Mapping[LiveRange, int]) -> tuple[dict[LiveRange, int], int]:
    """
    An offset for each buffer, and the size of the arena, in bytes.

    The largest buffer is placed first; each gets the lowest offset that is free during
    its live range.
    """
    offsets: dict[LiveRange, int] = {}
    for live in sorted(bytes, key=lambda live: (-bytes[live], live.first)):
        offset = 0
        others = sorted((offsets[o], bytes[o]) for o in offsets if o.overlaps(live))
        for start, size in others:
            if offset + bytes[live] <= start:
                break
            offset = max(offset, start + size)
        offsets[live] = offset
    total = max((offset + bytes[live] for live, offset in offsets.items()), default=0)
    return offsets, total


def live_bytes(bytes: Mapping[LiveRange, int]) -> int:
    """The largest number of bytes in use at once."""
    return max(
        (
            sum(size for other, size in bytes.items() if other.contains(live.first))
            for live in bytes
        ),
        default=0,
    )


def slots_for(ranges: Sequence[LiveRange]) -> list[list[LiveRange]]:
    """Slots for buffers of dynamic size: those in a slot are never in use at once."""
    slots: list[list[LiveRange]] = []
    for live in ranges:
        free = [s for s in slots if not any(live.overlaps(other) for other in s)]

        def likeness(slot: Sequence[LiveRange]) -> int:
            return sum(
                list(other.alloc.dynamic_sizes) == list(live.alloc.dynamic_sizes)
                for other in slot
            )

        if free:
            max(free, key=likeness).append(live)
        else:
            slots.append([live])
    return slots
