"""A buffer or view while it is lowered: a pointer, sizes and strides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.dialects import llvm, memref
from xdsl.dialects.builtin import DYNAMIC_INDEX, FixedBitwidthType, VectorType
from xdsl.ir import Attribute, SSAValue
from xdsl.utils.exceptions import PassFailedException

from padc.passes.buffers_to_llvm.bounds import Bounds, checked
from padc.passes.buffers_to_llvm.llvm_builder import (
    POINTER,
    LlvmBuilder,
    Size,
    stored_type,
)


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
    bounds: Bounds | None = None
    """Its memory, if loads and stores are checked."""

    def element(self, build: LlvmBuilder, places: Sequence[Size]) -> SSAValue:
        """The address of the element with the indices `places`."""
        offset = build.dot(places, self.strides)
        return build.address(self.pointer, offset, self.element_type)

    def load(self, build: LlvmBuilder, address: SSAValue) -> SSAValue:
        """The element at `address`."""
        size = stored_bytes(self.element_type)
        address = checked(build, address, size, self.bounds, writes=False)
        return build.load(address, self.element_type)

    def store(self, build: LlvmBuilder, value: SSAValue, address: SSAValue) -> None:
        """Store an element at `address`."""
        size = stored_bytes(self.element_type)
        build.store(value, checked(build, address, size, self.bounds, writes=True))

    def load_vector(
        self, build: LlvmBuilder, address: SSAValue, lanes: int
    ) -> SSAValue:
        """The elements from `address` on, as they are stored."""
        bytes = stored_bytes(self.element_type)
        address = checked(build, address, lanes * bytes, self.bounds, writes=False)
        type = VectorType(stored_type(self.element_type), [lanes])
        return build.insert(llvm.LoadOp(address, type, alignment=bytes))

    def store_vector(
        self, build: LlvmBuilder, value: SSAValue, address: SSAValue, lanes: int
    ) -> None:
        """Store elements, as they are in memory, from `address` on."""
        bytes = stored_bytes(self.element_type)
        address = checked(build, address, lanes * bytes, self.bounds, writes=True)
        build.do(llvm.StoreOp(value, address, alignment=bytes))


Value: TypeAlias = BufferDescriptor | Size
"""A value of a function of buffers: a buffer, an index or size, or a scalar."""


def scalar(build: LlvmBuilder, value: Value) -> SSAValue:
    """A value that is no buffer, as an operand of ops."""
    return build.value(size(value))


def size(value: Value) -> Size:
    """
    A value that is no buffer.

    Raises:
        PassFailedException: it is one.
    """
    if isinstance(value, BufferDescriptor):
        raise PassFailedException("a buffer stands where a number is expected")
    return value


def dim(values: Mapping[SSAValue, Value], op: memref.DimOp) -> Size:
    """
    The result of `memref.dim`.

    Raises:
        PassFailedException: the dimension is not a constant below the rank.
    """
    buffer, number = values[op.source], values[op.index]
    assert isinstance(buffer, BufferDescriptor)
    if not isinstance(number, int) or not 0 <= number < len(buffer.sizes):
        raise PassFailedException(
            f"'memref.dim' needs a constant below the rank, {len(buffer.sizes)}"
        )
    return buffer.sizes[number]


def whole(
    pointer: SSAValue,
    type: Attribute,
    sizes: Sequence[Size],
    strides: Sequence[Size],
    memory: SSAValue,
    bounds: Bounds | None,
) -> BufferDescriptor:
    """A buffer that is its own frame."""
    rank = len(sizes)
    places, spacing = [0] * rank, [1] * rank
    return BufferDescriptor(
        pointer, type, sizes, strides, memory, object(), places, spacing, bounds
    )


def contiguous(
    build: LlvmBuilder,
    pointer: SSAValue,
    type: Attribute,
    sizes: Sequence[Size],
    memory: SSAValue,
    bounds: Bounds | None,
) -> BufferDescriptor:
    """A contiguous buffer, in row-major order."""
    strides: list[Size] = []
    stride: Size = 1
    for size in reversed(sizes):
        strides.append(stride)
        stride = build.mul(stride, size)
    return whole(pointer, type, sizes, strides[::-1], memory, bounds)


def scratch(build: LlvmBuilder, count: int, type: Attribute) -> BufferDescriptor:
    """Memory for `count` elements, in a row, until the function returns."""
    stored = stored_type(type)
    memory = build.insert(llvm.AllocaOp(build.value(count), stored, alignment=64))
    # llvmlite types the pointer itself by the type of the elements.
    pointer = build.insert(llvm.BitcastOp(memory, POINTER))
    bounds = bounds_of(build, pointer, type, [count])
    return contiguous(build, pointer, type, [count], pointer, bounds)


def bounds_of(
    build: LlvmBuilder, pointer: SSAValue, type: Attribute, sizes: Sequence[Size]
) -> Bounds | None:
    """The memory of a contiguous buffer, if loads and stores are checked."""
    if build.check is None:
        return None
    total: Size = stored_bytes(type)
    for size in sizes:
        total = build.mul(total, size)
    return Bounds.of(build, pointer, total)


def stored_bytes(type: Attribute) -> int:
    """The size of an element in memory."""
    stored = stored_type(type)
    assert isinstance(stored, FixedBitwidthType)
    return stored.size


def refined(sizes: Sequence[Size], shape: Sequence[int]) -> list[Size]:
    """`sizes`, as integers where `shape` is static."""
    return [
        size if static == DYNAMIC_INDEX else static
        for size, static in zip(sizes, shape, strict=True)
    ]
