"""A buffer, or a view of one, while it is lowered: a pointer, sizes and strides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import Attribute, SSAValue

from padc.passes.buffers_to_llvm.builder import LlvmBuilder, Size


@dataclass(frozen=True)
class Buffer:
    """What a memref is, which LLVM has no value for."""

    pointer: SSAValue
    """Where the first element is."""
    element_type: Attribute
    sizes: Sequence[Size]
    strides: Sequence[Size]
    """How many elements neighbours are apart, in each dimension."""
    memory: SSAValue
    """What it is in: no two of these that are used at once have memory in common."""
    frame: object
    """Stands for the buffer of which it is a part, dimension by dimension."""
    places: Sequence[Size]
    """Where its first element is in the frame."""
    spacing: Sequence[Size]
    """How many elements of the frame neighbours are apart, in each dimension."""

    def element(self, build: LlvmBuilder, places: Sequence[Size]) -> SSAValue:
        """The address of the element at `places`."""
        offset = build.dot(places, self.strides)
        return build.address(self.pointer, offset, self.element_type)


Value: TypeAlias = Buffer | Size
"""What a value of the buffer form is: a buffer, an index or size, or a scalar."""


def whole(
    pointer: SSAValue,
    type: Attribute,
    sizes: Sequence[Size],
    strides: Sequence[Size],
    memory: SSAValue,
) -> Buffer:
    """A buffer that is a frame of its own."""
    rank = len(sizes)
    places, spacing = [0] * rank, [1] * rank
    return Buffer(pointer, type, sizes, strides, memory, object(), places, spacing)


def contiguous(
    build: LlvmBuilder,
    pointer: SSAValue,
    type: Attribute,
    sizes: Sequence[Size],
    memory: SSAValue,
) -> Buffer:
    """A buffer whose elements are next to one another."""
    strides: list[Size] = []
    stride: Size = 1
    for size in reversed(sizes):
        strides.append(stride)
        stride = build.mul(stride, size)
    return whole(pointer, type, sizes, strides[::-1], memory)


def refined(sizes: Sequence[Size], shape: Sequence[int]) -> list[Size]:
    """`sizes`, as integers where a type knows them."""
    return [
        size if static == DYNAMIC_INDEX else static
        for size, static in zip(sizes, shape, strict=True)
    ]
