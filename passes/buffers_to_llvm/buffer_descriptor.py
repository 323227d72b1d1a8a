"""A buffer or view while it is lowered: a pointer, sizes and strides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import Attribute, SSAValue

from padc.passes.buffers_to_llvm.llvm_builder import LlvmBuilder, Size


@dataclass(frozen=True)
class BufferDescriptor:
    """The parts of a memref, for which LLVM has no single value."""

    pointer: SSAValue
    """The address of the first element."""
    element_type: Attribute
    sizes: Sequence[Size]
    strides: Sequence[Size]
    """The distance of neighbors in memory, in elements, in each dimension."""
    memory: SSAValue
    """The allocation: two that are in use at once are disjoint."""
    frame: object
    """Identifies the buffer whose dimensions this is a subview of."""
    places: Sequence[Size]
    """The indices of the first element in the frame."""
    spacing: Sequence[Size]
    """The distance of neighbors in the frame, in each dimension."""

    def element(self, build: LlvmBuilder, places: Sequence[Size]) -> SSAValue:
        """The address of the element with the indices `places`."""
        offset = build.dot(places, self.strides)
        return build.address(self.pointer, offset, self.element_type)


Value: TypeAlias = BufferDescriptor | Size
"""A value of a function of buffers: a buffer, an index or size, or a scalar."""


def whole(
    pointer: SSAValue,
    type: Attribute,
    sizes: Sequence[Size],
    strides: Sequence[Size],
    memory: SSAValue,
) -> BufferDescriptor:
    """A buffer that is its own frame."""
    rank = len(sizes)
    places, spacing = [0] * rank, [1] * rank
    return BufferDescriptor(
        pointer, type, sizes, strides, memory, object(), places, spacing
    )


def contiguous(
    build: LlvmBuilder,
    pointer: SSAValue,
    type: Attribute,
    sizes: Sequence[Size],
    memory: SSAValue,
) -> BufferDescriptor:
    """A contiguous buffer, in row-major order."""
    strides: list[Size] = []
    stride: Size = 1
    for size in reversed(sizes):
        strides.append(stride)
        stride = build.mul(stride, size)
    return whole(pointer, type, sizes, strides[::-1], memory)


def refined(sizes: Sequence[Size], shape: Sequence[int]) -> list[Size]:
    """`sizes`, as integers where `shape` is static."""
    return [
        size if static == DYNAMIC_INDEX else static
        for size, static in zip(sizes, shape, strict=True)
    ]
