"""An ATen op that is being lowered, and its arguments by name."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType
from xdsl.ir import Operation, SSAValue

from padc.ir.tcp import Amount, AnyTensor
from padc.ir.torch import (
    AtenOp,
    ListConstructOp,
    NoneType,
    NotConstantError,
    PythonValue,
    ToI64Op,
    VTensorType,
    builtin_type,
    constant_value,
)


@dataclass(frozen=True)
class AtenCall(abc.ABC):
    """An ATen op, with its arguments by name; new ops go before it."""

    op: AtenOp

    @abc.abstractmethod
    def insert(self, op: Operation) -> SSAValue:
        """Insert a new op before the old one, and return its first result."""

    def result_type(self, index: int = 0) -> AnyTensor:
        """The type that PyTorch gives a result: signless, except for `ui8`."""
        type = self.op.results[index].type
        assert isinstance(type, VTensorType)
        return builtin_type(type)

    def constant(self, name: str) -> PythonValue:
        return self.op.constant(name)

    def boolean(self, name: str) -> bool:
        return bool(self.constant(name))

    def is_none(self, name: str) -> bool:
        return isinstance(self.op.arg(name).type, NoneType)

    def elements(self, name: str) -> Sequence[SSAValue]:
        """The elements of a list; NotConstantError if its length is not known."""
        owner = self.op.arg(name).owner
        if not isinstance(owner, ListConstructOp):
            raise NotConstantError(f"{name} is not a list with a known length")
        return owner.elements

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
