"""Elementwise arithmetic in ATen's ops, on builtin tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import TensorType, i1
from xdsl.ir import Attribute, SSAValue

from padc.ir.tcp import tensor_type
from padc.passes.aten.builder import AtenBuilder, Integer
from padc.passes.aten.elements import COMPARISONS, broadcast, constant

Reals: TypeAlias = npt.NDArray[np.floating[Any]]
Vector: TypeAlias = SSAValue | npt.NDArray[Any]
"""A tensor of rank 1, as an array where all its numbers are known."""


@dataclass(frozen=True)
class Arithmetic:
    """Arithmetic on tensors that broadcast, with constants of one floating type."""

    build: AtenBuilder
    element_type: Attribute

    def constant(self, values: npt.ArrayLike) -> SSAValue:
        """A constant tensor, of integers in int64, of floats in `element_type`."""
        return constant(self.build, values, self.element_type)

    def integers(self, numbers: Sequence[Integer]) -> Vector:
        """A vector of int64."""
        known = [number for number in numbers if isinstance(number, int)]
        if len(known) == len(numbers):
            return np.array(known)
        zero = self.constant([0])
        parts = [
            self.build.elementwise("add.Scalar", zero, other=number)
            for number in numbers
        ]
        return self.build.cat(parts, 0)

    def reals(self, numbers: Sequence[Integer], factor: float = 1.0) -> Vector:
        """A vector of `element_type`: these numbers times `factor`."""
        vector = self.integers(numbers)
        if not isinstance(vector, SSAValue):
            return vector * factor
        vector = self.build.cast(vector, self.element_type)
        return vector if factor == 1 else self.mul(vector, factor)

    def binary(
        self, name: str, x: SSAValue, y: SSAValue | npt.ArrayLike, /, **others: Any
    ) -> SSAValue:
        """`aten.<name>` of two tensors that broadcast; a number is a constant."""
        y = y if isinstance(y, SSAValue) else self.constant(y)
        a, b = tensor_type(x), tensor_type(y)
        shape = broadcast(list(a.get_shape()), list(b.get_shape()))
        type = TensorType(i1 if name in COMPARISONS else a.element_type, shape)
        return self.build.call(name, type, self=x, other=y, **others)

    def where(
        self, condition: SSAValue, x: SSAValue, other: SSAValue | npt.ArrayLike
    ) -> SSAValue:
        """`x` where the condition holds, which has its rank, and `other` elsewhere."""
        other = other if isinstance(other, SSAValue) else self.constant(other)
        type = tensor_type(x)
        shapes = (list(tensor_type(y).get_shape()) for y in (x, condition))
        result = TensorType(type.element_type, broadcast(*shapes))
        arguments = {"condition": condition, "self": x, "other": other}
        return self.build.call("where.self", result, **arguments)

    def add(self, x: SSAValue, y: SSAValue | npt.ArrayLike) -> SSAValue:
        return self.binary("add.Tensor", x, y, alpha=1)

    def sub(self, x: SSAValue, y: SSAValue | npt.ArrayLike) -> SSAValue:
        return self.binary("sub.Tensor", x, y, alpha=1)

    def mul(self, x: SSAValue, y: SSAValue | npt.ArrayLike) -> SSAValue:
        return self.binary("mul.Tensor", x, y)

    def unary(self, name: str, x: SSAValue) -> SSAValue:
        return self.build.call(name, tensor_type(x), self=x)

    def clamp(self, x: SSAValue, low: float, high: Vector) -> SSAValue:
        """`x` from `low` to `high`, along the last dimension."""
        if isinstance(high, SSAValue) or len({*high}) > 1:
            return self.binary("maximum", self.binary("minimum", x, high), low)
        bounds = {"min": low, "max": float(high[0])}
        return self.build.call("clamp", tensor_type(x), self=x, **bounds)

    def reduced(self, name: str, x: SSAValue) -> SSAValue:
        """The "sum" or "prod" along the last dimension."""
        type = tensor_type(x)
        *shape, _ = type.get_shape()
        result = TensorType(type.element_type, shape)
        if name == "sum":
            return self.build.call("sum.dim_IntList", result, self=x, dim=[-1])
        return self.build.call("prod.dim_int", result, self=x, dim=-1)
