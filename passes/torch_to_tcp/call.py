"""An ATen op that is being lowered, and the table of how each is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.builder import Builder
from xdsl.dialects.builtin import (
    ComplexType,
    NameLoc,
    StringAttr,
)
from xdsl.ir import Operation, SSAValue

from padc.errors import Obstacle
from padc.ir.padding import Amounts
from padc.ir.tcp import tensor_type
from padc.ir.torch import ToBuiltinTensorOp, VTensorType
from padc.passes.aten.builder import AtenBuilder
from padc.passes.aten.call import AtenCall


@dataclass(frozen=True)
class Lowered(AtenCall):
    """An ATen op that is being lowered to `tcp`."""

    builder: Builder

    def insert(self, op: Operation) -> SSAValue:
        """Put a new op before the old one, at its source line, and by its name."""
        op.location = NameLoc(StringAttr(self.op.schema.name), self.op.location)
        return self.builder.insert(op).results[0]

    def insert_valid(self, op: Operation) -> SSAValue:
        """Put a new op in; VerifyException, which says why, if it is not valid."""
        op.verify_()
        return self.insert(op)

    def tensor(self, name: str) -> SSAValue:
        """A tensor argument, as a builtin tensor; `Obstacle` where that is complex."""
        x = self.op.arg(name)
        if isinstance(x.type, VTensorType) and isinstance(
            x.type.element_type, ComplexType
        ):
            raise Obstacle("complex tensors", "convert real and imaginary parts apart")
        return self.insert(ToBuiltinTensorOp(x))

    def optional_tensor(self, name: str) -> SSAValue | None:
        """A tensor argument that may be None."""
        is_tensor = isinstance(self.op.arg(name).type, VTensorType)
        return self.tensor(name) if is_tensor else None

    def integers(self, name: str, count: int) -> list[int]:
        """A list of integers; one stands for `count` of them."""
        values = self.constant(name)
        assert isinstance(values, list)
        values = values * count if len(values) == 1 else values
        return [value for value in values if isinstance(value, int)]

    def pad(
        self, x: SSAValue, fill: float | int, amounts: Sequence[Amounts]
    ) -> SSAValue:
        """`x` padded by static amounts in its last dimensions; `x` itself by none."""
        leading = [Amounts(0, 0)] * (tensor_type(x).get_num_dims() - len(amounts))
        return AtenBuilder(self.op).pad(x, [*leading, *amounts], fill)


Lowering: TypeAlias = Callable[[Lowered], SSAValue | Sequence[SSAValue] | None]
"""
Builds what computes an op's first results; None where the op must stay.

Results that it does not compute must not be used.
"""

LOWERINGS: dict[str, Lowering] = {}


def lowers(*names: str) -> Callable[[Lowering], Lowering]:
    """Register the lowering of the ATen ops `names`."""

    def register(lowering: Lowering) -> Lowering:
        LOWERINGS.update(dict.fromkeys(names, lowering))
        return lowering

    return register


def last_dims(x: SSAValue, count: int) -> list[int]:
    rank = tensor_type(x).get_num_dims()
    return list(range(rank - count, rank))
