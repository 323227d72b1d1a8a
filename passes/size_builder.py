"""
Building arithmetic on sizes and places.

They are `Amount`s, integers or values of type index: arithmetic on integers is done
here, and only what is dynamic becomes ops.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.builder import Builder
from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, IntegerAttr
from xdsl.ir import Attribute, Operation, SSAValue

from padc.ir.tcp import Amount, fill_constant

_FOLDS: dict[type[Operation], Callable[[int, int], int]] = {
    arith.AddiOp: lambda a, b: a + b,
    arith.SubiOp: lambda a, b: a - b,
    arith.MuliOp: lambda a, b: a * b,
    arith.FloorDivSIOp: lambda a, b: a // b,
    arith.MaxSIOp: max,
    arith.MinSIOp: min,
}
_NEUTRAL: dict[type[Operation], int] = {
    arith.AddiOp: 0,
    arith.SubiOp: 0,
    arith.MuliOp: 1,
    arith.FloorDivSIOp: 1,
}


@dataclass(frozen=True)
class SizeBuilder:
    """Inserts ops at the place of `builder`."""

    builder: Builder

    def insert(self, op: Operation) -> SSAValue:
        return self.builder.insert(op).results[0]

    def index(self, amount: Amount) -> SSAValue:
        """A value of type index."""
        if isinstance(amount, SSAValue):
            return amount
        return self.insert(arith.ConstantOp(IntegerAttr(amount, IndexType())))

    def _folded(
        self, op: type[arith.SignlessIntegerBinaryOperation], a: Amount, b: Amount
    ) -> Amount:
        if isinstance(a, int) and isinstance(b, int):
            return _FOLDS[op](a, b)
        if isinstance(b, int) and b == _NEUTRAL.get(op):
            return a
        if op is arith.MuliOp and (a == 0 or b == 0):
            return 0
        return self.insert(op(self.index(a), self.index(b)))

    def add(self, a: Amount, b: Amount) -> Amount:
        return self._folded(arith.AddiOp, a, b)

    def sub(self, a: Amount, b: Amount) -> Amount:
        return self._folded(arith.SubiOp, a, b)

    def mul(self, a: Amount, b: Amount) -> Amount:
        return self._folded(arith.MuliOp, a, b)

    def floordiv(self, a: Amount, b: Amount) -> Amount:
        return self._folded(arith.FloorDivSIOp, a, b)

    def maximum(self, a: Amount, b: Amount) -> Amount:
        return self._folded(arith.MaxSIOp, a, b)

    def minimum(self, a: Amount, b: Amount) -> Amount:
        return self._folded(arith.MinSIOp, a, b)

    def constant(self, value: float, type: Attribute) -> SSAValue:
        """A scalar; integers are the bit pattern of `value`."""
        return self.insert(fill_constant(value, type))

    # Of pads: lists of one amount or size for each dimension.

    def added(self, amounts: Sequence[Amount]) -> list[Amount]:
        """What amounts add: those that crop, nothing."""
        return [self.maximum(amount, 0) for amount in amounts]

    def removed(self, amounts: Sequence[Amount]) -> list[Amount]:
        """What amounts crop, as negative numbers: those that add, nothing."""
        return [self.minimum(amount, 0) for amount in amounts]

    def padded(
        self,
        lower: Sequence[Amount],
        sizes: Sequence[Amount],
        upper: Sequence[Amount],
    ) -> list[Amount]:
        """The sizes with what is added below and above."""
        return [
            self.add(self.add(low, size), high)
            for low, size, high in zip(lower, sizes, upper, strict=True)
        ]

    def spread(
        self, sizes: Sequence[Amount], interior: Sequence[Amount]
    ) -> list[Amount]:
        """The sizes with what is inserted between neighbours."""
        return [
            size
            if amount == 0
            else self.add(size, self.mul(self.maximum(self.sub(size, 1), 0), amount))
            for size, amount in zip(sizes, interior, strict=True)
        ]

    def cropped(
        self,
        lower: Sequence[Amount],
        sizes: Sequence[Amount],
        upper: Sequence[Amount],
    ) -> tuple[list[Amount], list[Amount]]:
        """Where what negative amounts leave begins, and its sizes."""
        offsets = [self.sub(0, amount) for amount in self.removed(lower)]
        left = [
            # All is cropped from below, so nothing is from above.
            0
            if isinstance(size, int) and size == offset
            else self.add(self.sub(size, offset), high)
            for offset, size, high in zip(
                offsets, sizes, self.removed(upper), strict=True
            )
        ]
        return offsets, left


def never_crops(*amounts: Amount) -> bool:
    """Whether amounts are known to crop nothing."""
    return all(isinstance(amount, int) and amount >= 0 for amount in amounts)
