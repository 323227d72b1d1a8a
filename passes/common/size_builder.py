"""
Building arithmetic on sizes and places.

They are `Amount`s, integers or values of type index: arithmetic on integers is done
here, and only what is dynamic becomes ops.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from xdsl.builder import Builder
from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, IntegerAttr
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint

from padc.ir import arithmetic
from padc.ir.arithmetic import IntegerBuilder, maximum, minimum
from padc.ir.padding import padded_size
from padc.ir.tcp import Amount, fill_constant

_OPS: dict[arithmetic.Operation, type[arith.SignlessIntegerBinaryOperation]] = {
    "add": arith.AddiOp,
    "sub": arith.SubiOp,
    "mul": arith.MuliOp,
    "floordiv": arith.FloorDivSIOp,
    "max": arith.MaxSIOp,
    "min": arith.MinSIOp,
}


@dataclass(frozen=True)
class SizeBuilder(IntegerBuilder):
    """Inserts ops at the place of `builder`."""

    builder: Builder
    depth: int = 0
    """The number of loops around the ops."""

    def inside(self, block: Block) -> Self:
        """A builder at the end of the body of a new loop."""
        builder = Builder(InsertPoint.at_end(block))
        return replace(self, builder=builder, depth=self.depth + 1)

    def evaluate(self, operation: arithmetic.Operation, a: Amount, b: Amount) -> Amount:
        return self.insert(_OPS[operation](self.index(a), self.index(b)))

    def insert(self, op: Operation) -> SSAValue:
        return self.builder.insert(op).results[0]

    def index(self, amount: Amount) -> SSAValue:
        """A value of type index."""
        if isinstance(amount, SSAValue):
            return amount
        return self.insert(arith.ConstantOp(IntegerAttr(amount, IndexType())))

    def constant(self, value: float, type: Attribute) -> SSAValue:
        """A scalar; integers are the bit pattern of `value`."""
        return self.insert(fill_constant(value, type))

    # Of pads: lists of one amount or size for each dimension.

    def added(self, amounts: Sequence[Amount]) -> list[Amount]:
        """The elements that amounts add: 0 for those that crop."""
        return [maximum(self.wrap(amount), 0).value for amount in amounts]

    def removed(self, amounts: Sequence[Amount]) -> list[Amount]:
        """The amounts that crop, which are negative; 0 for the others."""
        return [minimum(self.wrap(amount), 0).value for amount in amounts]

    def padded(
        self,
        lower: Sequence[Amount],
        sizes: Sequence[Amount],
        upper: Sequence[Amount],
        interior: Sequence[Amount] | None = None,
    ) -> list[Amount]:
        """The sizes after a pad."""
        interior = [0] * len(sizes) if interior is None else interior
        return [
            padded_size(
                self.wrap(size),
                self.wrap(low),
                self.wrap(high),
                between if isinstance(between, int) else self.wrap(between),
            ).value
            for low, size, high, between in zip(
                lower, sizes, upper, interior, strict=True
            )
        ]

    def cropped(
        self,
        lower: Sequence[Amount],
        sizes: Sequence[Amount],
        upper: Sequence[Amount],
    ) -> tuple[list[Amount], list[Amount]]:
        """The offsets and sizes of the elements that negative amounts leave."""
        offsets = [-self.wrap(amount) for amount in self.removed(lower)]
        left = [
            # All is cropped from below, so nothing is from above.
            0
            if isinstance(size, int) and size == offset.value
            else (self.wrap(size) - offset + self.wrap(high)).value
            for offset, size, high in zip(
                offsets, sizes, self.removed(upper), strict=True
            )
        ]
        return [offset.value for offset in offsets], left


def never_crops(*amounts: Amount) -> bool:
    """Whether amounts are known to crop nothing."""
    return all(isinstance(amount, int) and amount >= 0 for amount in amounts)
