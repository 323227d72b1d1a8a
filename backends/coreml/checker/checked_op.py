# pyright: reportUnknownMemberType=false
"""The ops of a saved function as the rules see them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from padc.backends.coreml.evaluator.package import Message, Package, value_type
from padc.backends.coreml.evaluator.values.types import (
    StringType,
    TensorType,
    ValueType,
)
from padc.errors import InvalidProgramError, UnsupportedError

Shape = tuple[int | None, ...]


def read_type(message: Message) -> ValueType | None:
    """The declared type; None if it is damaged or unknown."""
    try:
        return value_type(message)
    except (InvalidProgramError, UnsupportedError):
        return None


@dataclass(frozen=True)
class Value:
    """A value as its definition declares it."""

    name: str
    """Its name; "" for an inline constant."""
    type: ValueType | None
    is_constant: bool = False
    constant: Message | None = None
    """The `Value` message of a constant, unless `constexpr_` ops compute it."""

    @property
    def element_type(self) -> str | None:
        """Core ML's name of the element type of a tensor or string; None for others."""
        if isinstance(self.type, StringType):
            return "string"
        return self.type.dtype.name if isinstance(self.type, TensorType) else None


@dataclass
class Shapes:
    """The shapes of a function's values, for some shapes of its inputs."""

    package: Package
    computed: dict[str, Shape] = field(default_factory=dict[str, Shape])

    def of(self, value: Value) -> Shape | None:
        """The computed shape, or else the declared one; None unless it is a tensor."""
        if (shape := self.computed.get(value.name)) is not None:
            return shape
        return value.type.shape if isinstance(value.type, TensorType) else None


@dataclass(frozen=True)
class Op:
    """An op, with its inputs looked up. Its attributes count as inputs."""

    type: str
    inputs: dict[str, list[Value]]
    outputs: list[Value]
    shapes: Shapes

    @property
    def name(self) -> str:
        return self.outputs[0].name if self.outputs else ""

    def shape(self, name: str) -> Shape | None:
        """The shape of an input; None if it is not given, or not a tensor."""
        values = self.inputs.get(name)
        return self.shapes.of(values[0]) if values else None

    def array(self, name: str) -> npt.NDArray[Any] | None:
        """An input's values, flat; None if it is not given, or not constant."""
        values = self.inputs.get(name, [])
        arrays: list[Any] = [self._constant(value) for value in values]
        known: list[Any] = [a.reshape(-1) for a in arrays if isinstance(a, np.ndarray)]
        return np.concatenate(known) if len(known) == len(values) > 0 else None

    def integers(self, name: str) -> list[int] | None:
        """`array` as a list; None unless it has ints or bools."""
        array = self.array(name)
        if array is None or array.dtype.kind not in "ib":
            return None
        return [int(item) for item in array]

    def text(self, name: str, default: str) -> str:
        """A constant string."""
        for value in self.inputs.get(name, ()):
            text = self._constant(value)
            return text if isinstance(text, str) else default
        return default

    def _constant(self, value: Value) -> object:
        try:
            message = value.constant
            return None if message is None else self.shapes.package.constant(message)
        except (InvalidProgramError, UnsupportedError):
            return None  # Reported where the constant is defined.
