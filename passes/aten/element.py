"""The elements that the body of an elementwise ATen op computes with, on every path."""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import Any, Self

from xdsl.ir import Attribute

from padc.errors import Obstacle
from padc.ir.element_types import is_float

ROUNDINGS = ("ceil", "floor", "round", "trunc")
"""Functions that leave integers as they are."""


@dataclass(frozen=True, eq=False)
class Element(abc.ABC):
    """
    An element of a tensor; its operators insert ops.

    The native path implements it by a number in a loop's body, Core ML by a whole
    tensor. Another operand is an element of the same type or a constant.
    """

    build: Any
    """Inserts the ops."""
    value: Any
    """The operands of the ops."""
    type: Attribute
    """The element type in PyTorch, with its sign."""

    # numpy must leave operators on its scalars and an element to this class.
    __array_ufunc__ = None

    @property
    def is_float(self) -> bool:
        return is_float(self.type)

    @abc.abstractmethod
    def constant(self, x: float, /) -> Self:
        """A constant of this type."""

    @abc.abstractmethod
    def boolean(self, x: bool, /) -> Self:
        """A constant boolean."""

    @abc.abstractmethod
    def lifted(self, x: Any, /) -> Self:
        """An operand as an element of this type."""

    @abc.abstractmethod
    def to(self, type: Attribute, /) -> Self:
        """This element converted as in C; a boolean is whether it is not 0."""

    @abc.abstractmethod
    def __add__(self, other: Any, /) -> Self: ...

    @abc.abstractmethod
    def __sub__(self, other: Any, /) -> Self: ...

    @abc.abstractmethod
    def __mul__(self, other: Any, /) -> Self: ...

    @abc.abstractmethod
    def __truediv__(self, other: Any, /) -> Self: ...

    def __radd__(self, other: float, /) -> Self:
        return self.constant(other) + self

    def __rsub__(self, other: float, /) -> Self:
        return self.constant(other) - self

    def __rmul__(self, other: float, /) -> Self:
        return self.constant(other) * self

    def __rtruediv__(self, other: float, /) -> Self:
        return self.constant(other) / self

    @abc.abstractmethod
    def __neg__(self) -> Self: ...

    @abc.abstractmethod
    def __abs__(self) -> Self: ...

    @abc.abstractmethod
    def __and__(self, other: Any, /) -> Self: ...

    @abc.abstractmethod
    def __or__(self, other: Any, /) -> Self: ...

    @abc.abstractmethod
    def __xor__(self, other: Any, /) -> Self: ...

    @abc.abstractmethod
    def __invert__(self) -> Self: ...

    @abc.abstractmethod
    def compare(self, other: Any, predicate: str, /) -> Self:
        """A boolean; a comparison with NaN is false, except "ne"."""

    def __lt__(self, other: Any, /) -> Self:
        return self.compare(other, "lt")

    def __le__(self, other: Any, /) -> Self:
        return self.compare(other, "le")

    def __gt__(self, other: Any, /) -> Self:
        return self.compare(other, "gt")

    def __ge__(self, other: Any, /) -> Self:
        return self.compare(other, "ge")

    def equals(self, other: Any, /) -> Self:
        return self.compare(other, "eq")

    def differs(self, other: Any, /) -> Self:
        return self.compare(other, "ne")

    def is_nan(self) -> Self:
        return self.differs(self) if self.is_float else self.boolean(False)

    @abc.abstractmethod
    def select(self, a: Any, b: Any, /) -> Self:
        """`a` if this boolean is true, otherwise `b`; at least one is an element."""

    @abc.abstractmethod
    def maximum(self, other: Any, /) -> Self:
        """The greater one; NaN if either is NaN."""

    @abc.abstractmethod
    def minimum(self, other: Any, /) -> Self:
        """The smaller one; NaN if either is NaN."""

    @abc.abstractmethod
    def shifted(self, other: Any, left: bool) -> Self:
        """Shifted by a number of bits; a shift by all or more loses all bits."""

    @abc.abstractmethod
    def rest(self, other: Any, /) -> Self:
        """C's remainder, with the sign of the dividend; 0 for an integer by 0."""

    @abc.abstractmethod
    def quotient(self, other: Any, /) -> Self:
        """C's integer quotient, rounded towards 0; the divisor 0 counts as 1."""

    def apply(self, name: str, /, *others: Any) -> Self:
        """A function of floats by its C name; integers are unchanged by roundings."""
        if self.is_float:
            return self.function(name, *map(self.lifted, others))
        if name in ROUNDINGS:
            return self
        raise Obstacle(f"{name} of integers", "declare a result of floats")

    @abc.abstractmethod
    def function(self, name: str, /, *others: Any) -> Self:
        """A function of floats by its C name; the others are elements of this type."""
