"""
Buffers of a kernel that only its own ops use.

If each step of the shared loops uses elements of its own, one step's elements are
enough: they are in memory of the kernel, and stay in the first or second cache.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from xdsl.dialects import memref
from xdsl.ir import Attribute, SSAValue

from padc.passes.buffers_to_llvm.buffer_descriptor import (
    BufferDescriptor,
    Value,
    stored_bytes,
)
from padc.passes.buffers_to_llvm.llvm_builder import LlvmBuilder, Size
from padc.passes.buffers_to_llvm.looped_ops import LoopedOp
from padc.passes.buffers_to_llvm.loops import known
from padc.passes.buffers_to_llvm.op_loops import loops_of
from padc.passes.common.buffer_views import users

MOST_BYTES = 1 << 18
"""The most bytes of the private buffers of a kernel, which are on its stack."""


@dataclass(frozen=True)
class PrivateBuffer:
    """The elements of a buffer that one step of the shared loops uses."""

    element_type: Attribute
    elements: int
    strides: Sequence[int]
    """The distance of neighbors in each dimension; 0 in those of the shared loops."""

    @property
    def bytes(self) -> int:
        return self.elements * stored_bytes(self.element_type)

    def offset(self, x: BufferDescriptor) -> int:
        """Where the first element of a view is."""
        return dot(x.places, self.strides)

    def view(self, x: BufferDescriptor) -> BufferDescriptor:
        """`x` with the strides in this buffer."""
        strides = [
            known(spacing) * stride
            for spacing, stride in zip(x.spacing, self.strides, strict=True)
        ]
        return replace(x, strides=strides)


def dot(places: Sequence[Size], strides: Sequence[int]) -> int:
    return sum(known(a) * b for a, b in zip(places, strides, strict=True))


def private_buffers(
    ops: Sequence[LoopedOp], depth: int, tile: int, values: Mapping[SSAValue, Value]
) -> dict[SSAValue, PrivateBuffer]:
    """
    The buffers that need only one step of `depth` loops, by their memory.

    Of the innermost of these loops, they need `tile` steps.
    """
    found: dict[SSAValue, PrivateBuffer] = {}
    left = MOST_BYTES
    for memory in dict.fromkeys(op.output.memory for op in ops):
        buffer = private_buffer(memory, ops, depth, tile, values)
        if buffer is not None and buffer.bytes <= left:
            found[memory] = buffer
            left -= buffer.bytes
    return found


def private_buffer(
    memory: SSAValue,
    ops: Sequence[LoopedOp],
    depth: int,
    tile: int,
    values: Mapping[SSAValue, Value],
) -> PrivateBuffer | None:
    view, root = memory.owner, values.get(memory)
    if not isinstance(view, memref.ViewOp) or not isinstance(root, BufferDescriptor):
        return None
    inside = {op.op for op in ops}
    if any(user not in inside for user in users(memory)):
        return None
    accesses = [x for op in ops for x in op.accesses if x.buffer.memory is memory]
    if any(x.buffer.frame is not root.frame for x in accesses):
        return None
    sizes, repeated = list(root.sizes), set[int]()
    for loop in range(depth):
        (along, *others) = {x.along(loop) for x in accesses}
        place = accesses[0].dimension(loop)
        if along is None or others or place is None:
            return None
        x = accesses[0].buffer
        if tile > 1 and loop == depth - 1:
            if (x.places[place], x.spacing[place]) != (0, 1):
                return None
            sizes[place] = tile
            continue
        sizes[place] = 1
        repeated.add(place)
    numbers = [
        number for x in accesses for number in (*x.buffer.places, *x.buffer.spacing)
    ]
    if not all(isinstance(number, int) for number in (*sizes, *numbers)):
        return None
    shape = [known(size) for size in sizes]
    strides = [
        0 if place in repeated else math.prod(shape[place + 1 :])
        for place in range(len(shape))
    ]
    return PrivateBuffer(root.element_type, math.prod(shape), strides)


def with_private(
    op: LoopedOp, private: Mapping[SSAValue, PrivateBuffer], main: LlvmBuilder
) -> LoopedOp:
    """`op` with steps in private buffers."""
    values = {
        x: private[value.memory].view(value)
        if isinstance(value, BufferDescriptor) and value.memory in private
        else value
        for x, value in op.values.items()
    }
    loops, firsts = loops_of(op.op, [values[x] for x in op.op.operands], main)
    return replace(op, values=values, loops=loops, firsts=firsts)
