"""Tensors as operands of formulas: elementwise arithmetic in ATen's ops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self, TypeAlias

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import (
    AnyFloat,
    DenseIntOrFPElementsAttr,
    IntegerType,
    Signedness,
    TensorType,
    f32,
    f64,
    i1,
    i64,
)
from xdsl.ir import Attribute, SSAValue

from padc.ir.arithmetic import SymbolicInteger, unwrapped
from padc.ir.tcp import AnyTensor, tensor_type
from padc.ir.torch import LiteralOp, ToBuiltinTensorOp
from padc.passes.aten.builder import AtenBuilder, Integer
from padc.passes.common.broadcast import broadcast

Known: TypeAlias = int | float | np.floating[Any] | npt.NDArray[Any]
Operand: TypeAlias = "SymbolicTensor | SymbolicInteger | SSAValue | Known"
"""
The other operand of a tensor's operators; what is known becomes a constant.

An SSA value is a number of the torch dialect, which a program computes.
"""

BOOLEAN = ("eq", "ge", "gt", "le", "logical_and", "lt", "ne")
"""The binary ops here whose results are booleans."""

SI64 = IntegerType(64, Signedness.SIGNED)


@dataclass(frozen=True, eq=False)
class SymbolicTensor:
    """A tensor; its operators insert ops that compute element by element."""

    value: SSAValue
    build: AtenBuilder

    # numpy must leave `array * elements` to the operators of this class.
    __array_ufunc__ = None

    @property
    def type(self) -> AnyTensor:
        return tensor_type(self.value)

    def __add__(self, other: Operand) -> Self:
        return self._binary("add", other, alpha=1)

    def __radd__(self, other: Operand) -> Self:
        return self + other

    def __sub__(self, other: Operand) -> Self:
        return self._binary("sub", other, alpha=1)

    def __rsub__(self, other: Operand) -> Self:
        if (number := self._scalar(other)) is not None:
            return self._with_scalar("rsub", number)
        return self._operand(other) - self

    def __mul__(self, other: Operand) -> Self:
        return self._binary("mul", other)

    def __rmul__(self, other: Operand) -> Self:
        return self * other

    def __mod__(self, other: Operand) -> Self:
        return self._binary("remainder", other)

    def __neg__(self) -> Self:
        return self.unary("neg")

    def __abs__(self) -> Self:
        return self.unary("abs")

    def __truediv__(self, other: Operand) -> Self:
        return self._binary("div", self._operand(other))

    def __rtruediv__(self, other: Operand) -> Self:
        if isinstance(other, (int, float)) and other == 1:
            return self.unary("reciprocal")
        return self._operand(other) / self

    def __floordiv__(self, other: SymbolicInteger | int) -> Self:
        number = other if isinstance(other, SymbolicInteger) else self.build.wrap(other)
        divisor = integers(self.build, [number.value])
        return self._binary("div", divisor, "Tensor_mode", rounding_mode="floor")

    def __gt__(self, other: Operand) -> Self:
        return self._binary("gt", other)

    def __lt__(self, other: Operand) -> Self:
        return self._operand(other) > self

    def __le__(self, other: Operand) -> Self:
        return self._binary("le", other)

    def equals(self, other: Operand) -> Self:
        """The elements that are equal, as booleans."""
        return self._binary("eq", other)

    def select(self, a: Operand, b: Operand) -> Self:
        """`a` where these booleans are true, `b` elsewhere."""
        typed = next((x for x in (a, b) if isinstance(x, SymbolicTensor)), None)
        if typed is None:
            assert isinstance(a, np.floating)
            type = f64 if a.dtype == np.float64 else f32
            typed = self.like(constant(self.build, float(a), type))
        x, y = typed._operand(a), typed._operand(b)
        shape: Sequence[int] = []
        for operand in (self, x, y):
            shape = broadcast(shape, operand.type.get_shape())
        result = TensorType(x.type.element_type, shape)
        arguments = {"condition": self.value, "self": x.value, "other": y.value}
        return self.like(self.build.call("where.self", result, **arguments))

    def maximum(self, other: Operand) -> Self:
        if isinstance(other, (SymbolicTensor, np.ndarray)):
            return self._binary("maximum", other, None)
        return self._bounded(min=other)

    def minimum(self, other: Operand) -> Self:
        if isinstance(other, (SymbolicTensor, np.ndarray)):
            return self._binary("minimum", other, None)
        return self._bounded(max=other)

    def clamp(self, low: Operand, high: Operand) -> Self:
        """Each element, or the bound that it exceeds."""
        if isinstance(high, np.ndarray) and (high == high.flat[0]).all():
            high = high.flat[0]
        if isinstance(high, (SymbolicTensor, np.ndarray)):
            return self._binary("minimum", high, None)._binary("maximum", low, None)
        return self._bounded(min=low, max=high)

    def _bounded(self, **bounds: Any) -> Self:
        is_float = isinstance(self.type.element_type, AnyFloat)
        numbers = {name: unwrapped(bound) for name, bound in bounds.items()}
        if is_float:
            numbers = {name: float(number) for name, number in numbers.items()}
        return self.like(self.build.elementwise("clamp", self.value, **numbers))

    def multiply_add(self, a: Operand, b: Operand, c: Operand) -> SymbolicTensor:
        """
        `a * b + c`, rounded once where `b` has at most 12 bits, in float32.

        With `a` in two parts, the first product is exact, and for products below 2^12
        the second one too.
        """
        if self.type.element_type == f64:
            return self._operand(a) * b + c
        upper, lower = halves(a)
        return b * upper + c + b * lower

    def floor(self) -> Self:
        return self.unary("floor")

    def sine(self) -> Self:
        return self.unary("sin")

    def whole(self) -> Self:
        return self.cast(i64)

    def cast(self, element_type: Attribute) -> Self:
        return self.like(self.build.cast(self.value, element_type))

    def unsqueeze(self, dim: int) -> Self:
        return self.like(self.build.unsqueeze(self.value, dim))

    def reduced(self, name: Literal["sum", "prod"]) -> Self:
        """The sum or product along the last dimension."""
        *shape, _ = self.type.get_shape()
        result = TensorType(self.type.element_type, shape)
        if name == "sum":
            y = self.build.call("sum.dim_IntList", result, self=self.value, dim=[-1])
        else:
            y = self.build.call("prod.dim_int", result, self=self.value, dim=-1)
        return self.like(y)

    def unary(self, name: str) -> Self:
        """`aten.<name>` of each element."""
        return self.like(self.build.elementwise(name, self.value))

    def like(self, value: SSAValue) -> Self:
        """Another tensor, whose ops go to the same place."""
        return replace(self, value=value)

    def _binary(
        self, name: str, other: Operand, overload: str | None = "Tensor", **others: Any
    ) -> Self:
        if (number := self._scalar(other)) is not None:
            return self._with_scalar(name, number)
        y = self._operand(other)
        shape = broadcast(self.type.get_shape(), y.type.get_shape())
        element_type = i1 if name in BOOLEAN else self.type.element_type
        result = TensorType(element_type, shape)
        arguments = {"self": self.value, "other": y.value, **others}
        full = name if overload is None else f"{name}.{overload}"
        return self.like(self.build.call(full, result, **arguments))

    def _scalar(self, other: Operand) -> Any:
        """A number that ops take as it is; None if they take a constant tensor."""
        if isinstance(other, SSAValue):
            return other
        if isinstance(self.type.element_type, AnyFloat):
            return None
        if isinstance(other, SymbolicInteger):
            return other.value
        return other if isinstance(other, int) else None

    def _with_scalar(self, name: str, number: Any) -> Self:
        element_type = i1 if name in BOOLEAN else self.type.element_type
        result = TensorType(element_type, self.type.get_shape())
        y = self.build.call(f"{name}.Scalar", result, self=self.value, other=number)
        return self.like(y)

    def _operand(self, x: Operand) -> Self:
        if isinstance(x, SymbolicTensor):
            return self.like(x.value)
        assert not isinstance(x, (SymbolicInteger, SSAValue))
        if isinstance(self.type.element_type, AnyFloat):
            x = np.asarray(x, np.float64)
        return self.like(constant(self.build, x, self.type.element_type))


def halves(x: Any) -> tuple[Any, Any]:
    """
    Two numbers of at most 12 bits that add up to one of float32.

    Source: T. J. Dekker, "A floating-point technique for extending the available
    precision" (Numerische Mathematik 18, 1971), 5.
    """
    wide = x * (2.0**12 + 1)
    upper = wide - (wide - x)
    return upper, x - upper


def integers(
    build: AtenBuilder, numbers: Sequence[Integer]
) -> SymbolicTensor | npt.NDArray[np.int64]:
    """A vector of int64; an array if all its numbers are known."""
    known = [number for number in numbers if isinstance(number, int)]
    if len(known) == len(numbers):
        return np.array(known)
    zero = constant(build, [0], i64)
    parts = [build.elementwise("add.Scalar", zero, other=number) for number in numbers]
    return SymbolicTensor(build.cat(parts, 0), build)


def make_real(build: AtenBuilder, element_type: Attribute) -> Callable[[Any], Any]:
    """Makes integers real numbers of a type: tensors, or numpy's if they are known."""
    dtype = np.float64 if element_type == f64 else np.float32

    def real(x: Any) -> Any:
        if isinstance(x, SymbolicInteger):
            known = isinstance(x.value, int)
            x = x.value if known else integers(build, [x.value])
        return (
            x.cast(element_type)
            if isinstance(x, SymbolicTensor)
            else np.asarray(x, dtype)[()]
        )

    return real


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
