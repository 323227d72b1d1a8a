"""
What becomes of sums of products: what they are added to, and what follows.

The operands of a product are its two inputs and its result; after them may come the
values that the sums start from, and the operands of the op that follows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from xdsl.dialects import llvm
from xdsl.ir import SSAValue

from padc.passes.buffers_to_llvm.buffer_descriptor import BufferDescriptor
from padc.passes.buffers_to_llvm.llvm_builder import Size
from padc.passes.buffers_to_llvm.loops import Loop
from padc.passes.buffers_to_llvm.vectors import Mask, Vectors

Product = TypeVar("Product")
RESULT_OPERAND, START_OPERAND = 2, 3
"""The numbers of the result and of the initial values among the operands."""

Start: TypeAlias = BufferDescriptor | SSAValue
"""The initial value of sums: a buffer, or one number."""
Epilogue: TypeAlias = "Callable[[Sequence[Loop], Sequence[Size]], None]"
"""Runs the op that follows on a tile, whose loops and operands' offsets it takes."""


@dataclass(frozen=True)
class Accumulation:
    """How sums of products are stored."""

    vectors: Vectors
    result: BufferDescriptor
    start: Start | None = None
    """The initial values of the sums; by default the result."""
    epilogue: Epilogue | None = None

    def first(self, offset: Size, step: Size, mask: Mask | None) -> SSAValue | None:
        """
        A vector of initial values at `offset`, `step` elements apart: 0 or 1.

        None if the sums are added to the result.
        """
        vectors, start = self.vectors, self.start
        if start is None:
            return None
        if isinstance(start, SSAValue):
            return vectors.repeat(start)
        if step == 0:
            return vectors.repeated(start, offset)
        address = vectors.address(start.pointer, offset)
        return vectors.load(start, address, mask)

    def add(
        self,
        x: SSAValue,
        address: SSAValue,
        mask: Mask | None,
        first: SSAValue | None,
        is_first: SSAValue | bool,
    ) -> None:
        """
        Add a vector of sums to the one at `address`.

        If the sums are of the first products, they are added to `first`, if given.
        """
        vectors, build, result = self.vectors, self.vectors.build, self.result
        old = first
        if old is None or is_first is not True:
            old = vectors.load(result, address, mask)
            if first is not None and not isinstance(is_first, bool):
                old = build.insert(llvm.SelectOp(is_first, first, old))
        vectors.store(build.insert(llvm.FAddOp(old, x)), result, address, mask)

    def finish(self, loops: Sequence[Loop], offsets: Sequence[Size]) -> None:
        """Run what follows on a tile whose sums are complete."""
        if self.epilogue is not None:
            self.epilogue([loop for loop in loops if loop.count != 1], offsets)


class ProductKernel(Generic[Product]):
    """Emits the loops of a sum of products."""

    def __init__(
        self,
        op: Product,
        operands: Sequence[BufferDescriptor],
        into: Accumulation,
    ):
        self.op = op
        self.operands = operands
        self.into = into
        self.vectors = into.vectors
        self.build = into.vectors.build
