"""An ATen op that is being lowered to linalg, and the table of lowerings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.dialects.builtin import UnrealizedConversionCastOp
from xdsl.ir import Attribute, Operation, SSAValue

from padc.errors import Obstacle
from padc.ir.tcp import fill_type
from padc.ir.torch import (
    FromBuiltinTensorOp,
    PythonValue,
    ToBuiltinTensorOp,
    VTensorType,
    builtin_type,
)
from padc.passes.aten.aten_call import AtenCall
from padc.passes.common.linalg_builder import (
    LinalgBuilder,
    signless_type,
)
from padc.passes.common.lowering import LoweringTable, Replacement
from padc.passes.to_linalg.aten.tensors import Operand, converted


@dataclass(frozen=True)
class LinalgCall(AtenCall):
    """An ATen op that is being lowered to linalg."""

    build: LinalgBuilder

    def insert(self, op: Operation) -> SSAValue:
        return self.build.insert(op)

    def tensor(self, name: str) -> SSAValue:
        """A tensor argument, as a tensor of signless elements."""
        return self.as_tensor(self.op.arg(name))

    def operand(self, name: str) -> Operand:
        """A tensor argument, with its element type in PyTorch."""
        return Operand(self.tensor(name), self.element_type(name))

    def optional(self, name: str) -> Operand | None:
        """A tensor argument, or None if it is not given."""
        return self.operand(name) if self.has(name) else None

    def converted(self, name: str, index: int = 0) -> SSAValue:
        """A tensor argument, converted to the element type of a result."""
        return self.as_result(self.operand(name), index)

    def as_result(self, x: Operand, index: int = 0) -> SSAValue:
        """`x`, converted to the element type of a result."""
        return converted(self.build, x, self.result_element_type(index))

    def operands(self, name: str) -> list[Operand]:
        """A list of tensors, with their element types in PyTorch."""
        return [
            Operand(self.as_tensor(x), x.type.element_type)
            for x in self.elements(name)
            if isinstance(x.type, VTensorType)
        ]

    def as_tensor(self, x: SSAValue) -> SSAValue:
        return self.build.signless(self.build.insert(ToBuiltinTensorOp(x)))

    def element_type(self, name: str) -> Attribute:
        """The element type of a tensor argument, with its sign."""
        type = self.op.arg(name).type
        assert isinstance(type, VTensorType)
        return type.element_type

    def signless_result_type(self, index: int = 0) -> Attribute:
        """The element type of a result, without its sign."""
        return fill_type(self.result_element_type(index))

    def in_torch(self, x: SSAValue, type: Attribute) -> SSAValue:
        """Convert a signless tensor to the torch dialect; other values stay."""
        if not isinstance(type, VTensorType):
            return x
        wanted = builtin_type(type)
        x = self.build.cast(x, signless_type(wanted))
        if x.type != wanted:
            x = self.build.insert(UnrealizedConversionCastOp.get([x], [wanted]))
        return self.build.insert(FromBuiltinTensorOp(x))

    def dims(self, name: str, rank: int, *, empty: bool = False) -> list[int]:
        """
        A list of dimensions, or a single one, counted from 0.

        An empty list means all dimensions, unless `empty`.
        """
        value = self.constant(name) if self.has(name) else []
        values: Sequence[PythonValue] = value if isinstance(value, list) else [value]
        if not rank:
            return []
        dims = [dim % rank for dim in values if isinstance(dim, int)]
        return dims if dims or empty else list(range(rank))


def as_number(value: PythonValue) -> float:
    if not isinstance(value, int | float):
        raise Obstacle(f"{value!r} for a number", "give a number")
    return value


Lowering: TypeAlias = Callable[[LinalgCall], Replacement]
"""
Builds what replaces an op's first results, as signless tensors.

Their sizes may be less static than those in the types of the results.
"""

LOWERINGS = LoweringTable[str, Lowering]()
"""By the names of ATen schemas."""

lowers = LOWERINGS.lowers
