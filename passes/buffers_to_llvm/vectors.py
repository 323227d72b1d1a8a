"""Vectors of floats while LLVM ops are built: loads, stores, masks, shuffles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias, cast

from xdsl.dialects import llvm
from xdsl.dialects.builtin import (
    AnyFloat,
    DenseArrayBase,
    FloatAttr,
    VectorType,
    f16,
    f32,
    f64,
    i1,
    i32,
)
from xdsl.ir import Attribute, SSAValue

from padc.passes.buffers_to_llvm.bounds import checked
from padc.passes.buffers_to_llvm.buffer_descriptor import BufferDescriptor
from padc.passes.buffers_to_llvm.llvm_builder import LlvmBuilder, Size

AnyVector: TypeAlias = VectorType[Attribute]
MOVED_AS: dict[int, AnyFloat] = {2: f16, 4: f32, 8: f64}
"""By the bytes of an element, the float type as which it is moved."""


def vector_type(x: SSAValue) -> AnyVector:
    """The type of a vector; xDSL's `isa` would build a constraint at each call."""
    return cast(AnyVector, x.type)


def shuffled(
    build: LlvmBuilder, a: SSAValue, b: SSAValue, lanes: Sequence[int]
) -> SSAValue:
    """The elements at `lanes` of `a` followed by `b`, vectors of any elements."""
    type = VectorType(vector_type(a).element_type, [len(lanes)])
    mask = DenseArrayBase.from_list(i32, lanes)
    return build.insert(llvm.ShuffleVectorOp(a, b, mask, type))


def joined(build: LlvmBuilder, parts: Sequence[SSAValue]) -> SSAValue:
    """One vector after the other, as one; their number is a power of 2."""
    while len(parts) > 1:
        (width,) = vector_type(parts[0]).get_shape()
        pairs = zip(parts[::2], parts[1::2], strict=True)
        parts = [shuffled(build, a, b, range(2 * width)) for a, b in pairs]
    return parts[0]


def transposed(build: LlvmBuilder, rows: Sequence[SSAValue]) -> list[SSAValue]:
    """
    The columns of the square matrix with these rows.

    Or of several squares side by side, each in its place. Each stage swaps, in blocks
    of twice `size`, the two blocks off the diagonal.
    """
    rows, size = list(rows), 1
    (lanes,) = vector_type(rows[0]).get_shape()
    while size < len(rows):
        low = [i + (lanes - size) * bool(i & size) for i in range(lanes)]
        high = [place + size for place in low]
        for i in range(len(rows)):
            if not i & size:
                a, b = rows[i], rows[i + size]
                rows[i] = shuffled(build, a, b, low)
                rows[i + size] = shuffled(build, a, b, high)
        size *= 2
    return rows


@dataclass(frozen=True)
class Mask:
    """Which lanes of a vector are loaded or stored: the first `left` of them."""

    lanes: SSAValue
    left: Size
    """May be negative, or more than there are."""


@dataclass(frozen=True)
class Vectors:
    """Builds ops on vectors of `lanes` floats of `type`."""

    build: LlvmBuilder
    type: AnyFloat
    lanes: int

    @property
    def vector(self) -> VectorType:
        return VectorType(self.type, [self.lanes])

    @property
    def suffix(self) -> str:
        return f"v{self.lanes}f{self.type.size * 8}"

    def zero(self) -> SSAValue:
        return self.build.known(("zero", self.vector), self._zero)

    def _zero(self) -> SSAValue:
        zero = llvm.ConstantOp(FloatAttr(0.0, self.type), self.type)
        return self.repeat(self.build.insert(zero))

    def _undefined(self) -> SSAValue:
        return self.build.insert(llvm.UndefOp(self.vector))

    def repeat(self, x: SSAValue) -> SSAValue:
        """The vector whose elements are all `x`."""
        build = self.build
        undefined = build.known(("undefined", self.vector), self._undefined)
        first = build.insert(llvm.InsertElementOp(undefined, x, build.value(0)))
        return self.shuffle(first, first, [0] * self.lanes)

    def shuffle(self, a: SSAValue, b: SSAValue, places: Sequence[int]) -> SSAValue:
        """The elements at `places` of `a` followed by `b`."""
        return shuffled(self.build, a, b, places)

    def address(self, pointer: SSAValue, offset: Size) -> SSAValue:
        return self.build.address(pointer, offset, self.type)

    def repeated(self, buffer: BufferDescriptor, offset: Size) -> SSAValue:
        """The element at `offset`, in each lane."""
        address = self.address(buffer.pointer, offset)
        return self.repeat(buffer.load(self.build, address))

    def bytes(self, mask: Mask | None) -> Size:
        """The number of bytes of a vector that are loaded or stored."""
        build, size = self.build, self.type.size
        if mask is None or build.check is None:
            return size * self.lanes
        return build.mul(build.minimum(build.maximum(mask.left, 0), self.lanes), size)

    def load(
        self,
        buffer: BufferDescriptor,
        address: SSAValue,
        mask: Mask | None = None,
    ) -> SSAValue:
        """An unaligned vector of `buffer`; masked lanes are 0 and not read."""
        build, size, bytes = self.build, self.type.size, self.bytes(mask)
        address = checked(build, address, bytes, buffer.bounds, writes=False)
        if mask is None:
            return build.insert(llvm.LoadOp(address, self.vector, alignment=size))
        name = f"llvm.masked.load.{self.suffix}.p0"
        args = [address, build.number(size), mask.lanes, self.zero()]
        return build.insert(llvm.CallIntrinsicOp(name, args, [self.vector]))

    def store(
        self,
        x: SSAValue,
        buffer: BufferDescriptor,
        address: SSAValue,
        mask: Mask | None = None,
    ) -> None:
        """Store an unaligned vector in `buffer`, except masked lanes."""
        build, size, bytes = self.build, self.type.size, self.bytes(mask)
        address = checked(build, address, bytes, buffer.bounds, writes=True)
        if mask is None:
            return build.do(llvm.StoreOp(x, address, alignment=size))
        name = f"llvm.masked.store.{self.suffix}.p0"
        args = [x, address, build.number(size), mask.lanes]
        build.do(llvm.CallIntrinsicOp(name, args, []))

    def mask(self, first: int, end: Size | None) -> Mask | None:
        """The mask of the lanes from `first` on before `end`; None if it is full."""
        if end is None or (isinstance(end, int) and end >= first + self.lanes):
            return None
        build, lanes = self.build, self.lanes
        # The intrinsic takes a negative number as a large unsigned one.
        end = build.maximum(end, 0)
        name = f"llvm.get.active.lane.mask.v{lanes}i1.i64"
        args = [build.value(first), build.value(end)]
        type = VectorType(i1, [lanes])
        lanes_on = build.insert(llvm.CallIntrinsicOp(name, args, [type]))
        return Mask(lanes_on, build.add(end, -first))

    def sum(self, x: SSAValue) -> SSAValue:
        """The sum of the elements of `x`, in each lane."""
        build, size = self.build, self.lanes // 2
        while size:
            places = [(i + size) % self.lanes for i in range(self.lanes)]
            x = build.insert(llvm.FAddOp(x, self.shuffle(x, x, places)))
            size //= 2
        return x
