"""An ATen op that is being lowered, and its arguments by name."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.hints import isa

from padc.errors import Obstacle
from padc.ir.tcp import Amount, AnyTensor
from padc.ir.torch import (
    AtenOp,
    FromBuiltinTensorOp,
    ListConstructOp,
    ListUnpackOp,
    NoneType,
    NotConstantError,
    PythonValue,
    ToBuiltinTensorOp,
    ToI64Op,
    VTensorType,
    builtin_type,
    constant_value,
)


@dataclass(frozen=True)
class AtenCall(abc.ABC):
    """An ATen op, with its arguments by name; new ops go before it."""

    op: AtenOp

    @property
    def name(self) -> str:
        """The name of the schema: `aten.add.Tensor`."""
        return self.op.schema.name

    @abc.abstractmethod
    def insert(self, op: Operation) -> SSAValue:
        """Insert a new op before the old one, and return its first result."""

    def declared_type(self, index: int = 0) -> VTensorType:
        """The type that PyTorch gives a result."""
        type = self.op.results[index].type
        assert isinstance(type, VTensorType)
        return type

    def result_type(self, index: int = 0) -> AnyTensor:
        """The type of a result as a builtin tensor: signless, except for `ui8`."""
        return builtin_type(self.declared_type(index))

    def result_element_type(self, index: int = 0) -> Attribute:
        """The element type that PyTorch gives a result, with its sign."""
        return self.declared_type(index).element_type

    def constant(self, name: str) -> PythonValue:
        return self.op.constant(name)

    def boolean(self, name: str) -> bool:
        return bool(self.constant(name))

    def is_none(self, name: str) -> bool:
        return isinstance(self.op.arg(name).type, NoneType)

    def has(self, name: str) -> bool:
        """Whether the op has an argument of that name that is not None."""
        return name in self.op.schema.positions and not self.is_none(name)

    def is_tensor(self, name: str) -> bool:
        return self.has(name) and isinstance(self.op.arg(name).type, VTensorType)

    def builtin(self, x: SSAValue) -> SSAValue:
        """A tensor of the torch dialect as a builtin tensor."""
        if isinstance(x.owner, FromBuiltinTensorOp):
            return x.owner.operand
        return self.insert(ToBuiltinTensorOp(x))

    def elements(self, name: str) -> Sequence[SSAValue]:
        """The elements of a list; NotConstantError if its length is not known."""
        owner = self.op.arg(name).owner
        if not isinstance(owner, ListConstructOp):
            raise NotConstantError(f"{name} is not a list with a known length")
        return owner.elements

    def parts(self) -> list[VTensorType]:
        """The types of the elements of the list that the op returns; none if unused."""
        for use in self.op.results[0].uses:
            if not isinstance(use.operation, ListUnpackOp):
                raise Obstacle("a list of tensors that is not unpacked", "unpack it")
            types = list(use.operation.result_types)
            if not isa(types, list[VTensorType]):
                raise Obstacle("a list that is unpacked to other things than tensors")
            return types
        return []

    def count_parts(self, count: int) -> int:
        """The number of `parts`, 0 if unused; Obstacle if these are not `count`."""
        if (parts := len(self.parts())) not in (0, count):
            raise Obstacle(
                f"{count} parts, of which {parts} are unpacked", "unpack all"
            )
        return parts

    def integer(self, name: str) -> int:
        """A known integer."""
        value = self.constant(name)
        if not isinstance(value, int):
            raise Obstacle(f"{name} {value}", "give an integer")
        return value

    def number(self, name: str) -> float:
        """A known number."""
        value = self.constant(name)
        if not isinstance(value, int | float):
            raise Obstacle(f"{name} is {value!r}", "give a number")
        return value

    def amounts(self, name: str) -> list[Amount]:
        """A list of integers, each static or computed when the program runs."""
        return [self.amount(element) for element in self.elements(name)]

    def amount(self, value: SSAValue) -> Amount:
        """An integer, static or as an index."""
        if isinstance(integer := known(value), int):
            return integer
        number = self.insert(ToI64Op(value))
        return self.insert(arith.IndexCastOp(number, IndexType()))


def known(value: SSAValue) -> int | SSAValue:
    """An ATen integer, as a Python number if it is a constant."""
    try:
        constant = constant_value(value)
    except NotConstantError:
        return value
    assert isinstance(constant, int)
    return constant
