"""Tensors as operands of formulas: elementwise arithmetic in ATen's ops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import (
    AnyFloat,
    DenseIntOrFPElementsAttr,
    IntegerType,
    Signedness,
    TensorType,
    i1,
)
from xdsl.ir import Attribute, SSAValue

from padc.ir.tcp import AnyTensor, tensor_type
from padc.ir.torch import LiteralOp, ToBuiltinTensorOp
from padc.passes.aten.builder import AtenBuilder, Integer, TorchInteger

Operand: TypeAlias = "Elements | TorchInteger | int | float | npt.NDArray[Any]"
"""What a tensor is combined with: numbers and arrays are constants."""

COMPARISONS = ("eq.Tensor", "gt.Tensor", "le.Tensor")
SI64 = IntegerType(64, Signedness.SIGNED)


@dataclass(frozen=True, eq=False)
class Elements:
    """A tensor; its operators insert ops that compute element by element."""

    value: SSAValue
    build: AtenBuilder

    # numpy must leave `array * elements` to the operators of this class.
    __array_ufunc__ = None

    @property
    def type(self) -> AnyTensor:
        return tensor_type(self.value)

    def __add__(self, other: Operand) -> Elements:
        return self._binary("add", other, alpha=1)

    def __radd__(self, other: Operand) -> Elements:
        return self + other

    def __sub__(self, other: Operand) -> Elements:
        return self._binary("sub", other, alpha=1)

    def __rsub__(self, other: Operand) -> Elements:
        if (number := self._scalar(other)) is not None:
            return self._with_scalar("rsub", number)
        return self._operand(other) - self

    def __mul__(self, other: Operand) -> Elements:
        return self._binary("mul", other)

    def __rmul__(self, other: Operand) -> Elements:
        return self * other

    def __mod__(self, other: Operand) -> Elements:
        return self._binary("remainder", other)

    def __abs__(self) -> Elements:
        return self.unary("abs")

    def clamp(self, low: int | float, high: TorchInteger | int | float) -> Elements:
        """Each element, or the bound that it exceeds."""
        most = high.value if isinstance(high, TorchInteger) else high
        return self.like(self.build.elementwise("clamp", self.value, min=low, max=most))

    def unary(self, name: str) -> Elements:
        """`aten.<name>` of each element."""
        return self.like(self.build.elementwise(name, self.value))

    def like(self, value: SSAValue) -> Elements:
        """Another tensor, whose ops go to the same place."""
        return replace(self, value=value)

    def _binary(self, name: str, other: Operand, **others: Any) -> Elements:
        if (number := self._scalar(other)) is not None:
            return self._with_scalar(name, number)
        y = self._operand(other)
        shape = broadcast(self.type.get_shape(), y.type.get_shape())
        element_type = i1 if name in COMPARISONS else self.type.element_type
        result = TensorType(element_type, shape)
        arguments = {"self": self.value, "other": y.value, **others}
        return self.like(self.build.call(f"{name}.Tensor", result, **arguments))

    def _scalar(self, other: Operand) -> Integer | None:
        """An integer that ops on integers take as it is."""
        if isinstance(self.type.element_type, AnyFloat):
            return None
        if isinstance(other, TorchInteger):
            return other.value
        return other if isinstance(other, int) else None

    def _with_scalar(self, name: str, number: Integer) -> Elements:
        name = f"{name}.Scalar"
        return self.like(self.build.elementwise(name, self.value, other=number))

    def _operand(self, x: Operand) -> Elements:
        if isinstance(x, Elements):
            return x
        assert not isinstance(x, TorchInteger)
        return self.like(constant(self.build, x, self.type.element_type))


def constant(
    build: AtenBuilder, values: npt.ArrayLike, element_type: Attribute
) -> SSAValue:
    """A constant tensor: of integers in int64, of floats in `element_type`."""
    array = np.asarray(values)
    type: Any = SI64 if array.dtype.kind == "i" else element_type
    value = DenseIntOrFPElementsAttr.from_list(
        TensorType(type, array.shape), array.ravel().tolist()
    )
    literal = build.insert(LiteralOp(value))
    return build.insert(ToBuiltinTensorOp(literal))


def broadcast(a: Sequence[int], b: Sequence[int]) -> list[int]:
    """The shape of two tensors that broadcast; dynamic sizes are taken not to be 1."""
    rank = max(len(a), len(b))
    a, b = [1] * (rank - len(a)) + [*a], [1] * (rank - len(b)) + [*b]
    return [y if x == 1 else x for x, y in zip(a, b, strict=True)]
