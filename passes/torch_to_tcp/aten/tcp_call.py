"""The table of lowerings to `tcp`, and the call that each lowering takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.builder import Builder
from xdsl.dialects.builtin import ComplexType
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint

from padc.errors import Obstacle
from padc.ir.padding import Amounts
from padc.ir.tcp import tensor_type
from padc.ir.torch import VTensorType
from padc.passes.aten.aten_call import AtenCall
from padc.passes.aten.builder import AtenBuilder
from padc.passes.common.lowering import LoweringTable, Replacement, source_of


@dataclass(frozen=True)
class TcpCall(AtenCall):
    """An ATen op that is being lowered to `tcp`; new ops go before it."""

    def insert(self, op: Operation) -> SSAValue:
        """Insert an op with the source line and the name of the ATen op."""
        op.location = source_of(self.op)
        return Builder(InsertPoint.before(self.op)).insert(op).results[0]

    def insert_valid(self, op: Operation) -> SSAValue:
        """Insert an op; VerifyException if it is invalid."""
        op.verify_()
        return self.insert(op)

    def tensor(self, name: str) -> SSAValue:
        """A tensor argument as a builtin tensor; `Obstacle` if it is complex."""
        x = self.op.arg(name)
        if isinstance(x.type, VTensorType) and isinstance(
            x.type.element_type, ComplexType
        ):
            raise Obstacle("complex tensors", "convert real and imaginary parts apart")
        return self.builtin(x)

    def optional_tensor(self, name: str) -> SSAValue | None:
        """A tensor argument as a builtin tensor, or None."""
        is_tensor = isinstance(self.op.arg(name).type, VTensorType)
        return self.tensor(name) if is_tensor else None

    def integers(self, name: str, count: int) -> list[int]:
        """A list of integers; a single one is repeated `count` times."""
        values = self.constant(name)
        assert isinstance(values, list)
        values = values * count if len(values) == 1 else values
        return [value for value in values if isinstance(value, int)]

    def pad(
        self, x: SSAValue, fill: float | int, amounts: Sequence[Amounts]
    ) -> SSAValue:
        """Pad the last dimensions of `x` by static amounts; `x` if all are 0."""
        leading = [Amounts(0, 0)] * (tensor_type(x).get_num_dims() - len(amounts))
        return AtenBuilder(self.op).pad(x, [*leading, *amounts], fill)


Lowering: TypeAlias = Callable[[TcpCall], Replacement]
"""Builds builtin tensors, which replace an op's first results."""

LOWERINGS = LoweringTable[str, Lowering]()
"""By the names of ATen schemas."""

lowers = LOWERINGS.lowers


def last_dims(x: SSAValue, count: int) -> list[int]:
    rank = tensor_type(x).get_num_dims()
    return list(range(rank - count, rank))
