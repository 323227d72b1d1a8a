"""Tests of types, for code that tests every value: xDSL's `isa` is ten times slower."""

from __future__ import annotations

from typing import TypeAlias

from typing_extensions import TypeIs
from xdsl.dialects.builtin import IntegerType, Signedness, TensorType
from xdsl.ir import Attribute

AnyInteger: TypeAlias = IntegerType[int, Signedness]
AnyTensor: TypeAlias = TensorType[Attribute]


def is_integer(type: Attribute) -> TypeIs[AnyInteger]:
    return isinstance(type, IntegerType)


def is_tensor(type: Attribute) -> TypeIs[AnyTensor]:
    """Whether a type is MLIR's own tensor type."""
    return isinstance(type, TensorType)
