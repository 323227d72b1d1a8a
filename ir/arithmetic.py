"""
What Python's operators lack for formulas that are written once and evaluated on many
kinds of numbers.

The formulas of `padc.ir.padding` and `padc.ir.resampling` use operators, `abs`, and the
functions of this file. Their operands are Python's numbers, numpy arrays, or symbolic:
SSA values, whose operators insert ops, and z3's terms: where a test proves a formula,
the code that is proved is the code that compiles. A symbolic operand has the operators,
and methods with the names of these functions.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from xdsl.ir import SSAValue

Whole: TypeAlias = Any
"""An integer of any kind: an `int`, an array of integers, or a symbolic integer."""

Real: TypeAlias = Any
"""A real number of any kind: a `float`, an array of floats, or a symbolic number."""

Condition: TypeAlias = Any
"""A truth value of any kind: a `bool`, an array of `bool`, or a symbolic one."""

_NUMPY = (np.ndarray, np.generic)


def maximum(a: Real, b: Real) -> Real:
    """The larger of two numbers."""
    if hasattr(a, "maximum"):
        return a.maximum(b)
    if hasattr(b, "maximum"):
        return b.maximum(a)
    return np.maximum(a, b) if _has_array(a, b) else max(a, b)


def minimum(a: Real, b: Real) -> Real:
    """The smaller of two numbers."""
    if hasattr(a, "minimum"):
        return a.minimum(b)
    if hasattr(b, "minimum"):
        return b.minimum(a)
    return np.minimum(a, b) if _has_array(a, b) else min(a, b)


def clamp(x: Real, low: Real, high: Real) -> Real:
    """`x`, or the bound that it exceeds; `high` where the bounds cross."""
    if hasattr(x, "clamp"):
        return x.clamp(low, high)
    return minimum(maximum(x, low), high)


def floor(x: Real) -> Real:
    """The largest whole number that is at most `x`, as a number of the same kind."""
    return x.floor() if hasattr(x, "floor") else np.floor(x)


def whole(x: Real) -> Whole:
    """A real number truncated to an integer."""
    if hasattr(x, "whole"):
        return x.whole()
    return x.astype(np.int64) if _has_array(x) else int(x)


def ceil_div(a: Whole, b: Whole) -> Whole:
    """The quotient by a positive number, rounded up."""
    return (a + (b - 1)) // b


def sine(x: Real) -> Real:
    """The sine of an angle."""
    return x.sine() if hasattr(x, "sine") else np.sin(x)


def multiply_add(a: Real, b: Real, c: Real) -> Real:
    """`a * b + c`, rounded once. `b` has at most 12 bits, which may be relied on."""
    for operand in (a, b):
        if hasattr(operand, "multiply_add"):
            return operand.multiply_add(a, b, c)
    # The product of float32 numbers is exact in float64.
    result = np.multiply(a, b, dtype=np.float64) + c
    return result.astype(np.result_type(a, b))


def select(condition: Condition, a: Real, b: Real) -> Real:
    """`a` where the condition holds, otherwise `b`."""
    if hasattr(condition, "select"):
        return condition.select(a, b)
    if isinstance(condition, np.ndarray):
        return np.where(cast(npt.NDArray[np.bool], condition), a, b)
    return a if condition else b


def is_zero(x: Real) -> bool:
    """Whether `x` is known to be 0: adding it takes no op."""
    x = unwrapped(x)
    return isinstance(x, int) and x == 0


def _has_array(*operands: object) -> bool:
    return any(isinstance(operand, _NUMPY) for operand in operands)


Integer: TypeAlias = "int | SSAValue"
"""An integer that is known, or a value that a program computes when it runs."""


class IntegerBuilder(abc.ABC):
    """
    Arithmetic on integers in a program.

    What is known is computed here, and what has no effect is left out; `evaluate` says
    how a program computes the rest.
    """

    depth: int = 0
    """The number of loops around the place where the program computes."""

    @abc.abstractmethod
    def evaluate(self, operation: Operation, a: Integer, b: Integer) -> Integer:
        """The result of an operation on two integers, not both of which are known."""

    def wrap(self, value: Integer) -> SymbolicInteger:
        """An integer as an operand of formulas."""
        return SymbolicInteger(value, self)

    def add(self, a: Integer, b: Integer) -> Integer:
        return self.binary("add", a, b)

    def sub(self, a: Integer, b: Integer) -> Integer:
        return self.binary("sub", a, b)

    def mul(self, a: Integer, b: Integer) -> Integer:
        return self.binary("mul", a, b)

    def floordiv(self, a: Integer, b: Integer) -> Integer:
        return self.binary("floordiv", a, b)

    def maximum(self, a: Integer, b: Integer) -> Integer:
        return self.binary("max", a, b)

    def minimum(self, a: Integer, b: Integer) -> Integer:
        return self.binary("min", a, b)

    def binary(self, operation: Operation, a: Integer, b: Integer) -> Integer:
        if isinstance(b, int):
            if isinstance(a, int):
                return COMPUTED[operation](a, b)
            if (operation, b) in _KEEP_LEFT:
                return a
            if b == 0 and operation == "mul":
                return 0
        elif isinstance(a, int):
            if (operation, a) in _KEEP_RIGHT:
                return b
            if a == 0 and operation == "mul":
                return 0
        return self.evaluate(operation, a, b)


@dataclass(frozen=True, eq=False)
class SymbolicInteger:
    """An integer as an operand of formulas: its operators are those of its builder."""

    value: Integer
    build: IntegerBuilder

    def _binary(self, operation: Operation, other: Any, swapped: bool = False) -> Any:
        build, value = self.build, other
        if isinstance(other, SymbolicInteger):
            value = other.value
            # A value of a loop's body and one from outside meet in the body.
            build = build if build.depth >= other.build.depth else other.build
        elif not isinstance(other, int):
            return NotImplemented
        a, b = (value, self.value) if swapped else (self.value, value)
        return SymbolicInteger(build.binary(operation, a, b), build)

    def __add__(self, other: Any) -> Any:
        return self._binary("add", other)

    def __radd__(self, other: Any) -> Any:
        return self._binary("add", other, swapped=True)

    def __sub__(self, other: Any) -> Any:
        return self._binary("sub", other)

    def __rsub__(self, other: Any) -> Any:
        return self._binary("sub", other, swapped=True)

    def __mul__(self, other: Any) -> Any:
        return self._binary("mul", other)

    def __rmul__(self, other: Any) -> Any:
        return self._binary("mul", other, swapped=True)

    def __floordiv__(self, other: Any) -> Any:
        return self._binary("floordiv", other)

    def __rfloordiv__(self, other: Any) -> Any:
        return self._binary("floordiv", other, swapped=True)

    def __mod__(self, other: Any) -> Any:
        return self - self // other * other

    def __neg__(self) -> Any:
        return 0 - self

    def __abs__(self) -> Any:
        return self.maximum(-self)

    def maximum(self, other: Any) -> Any:
        return self._binary("max", other)

    def minimum(self, other: Any) -> Any:
        return self._binary("min", other)


def unwrapped(x: Any) -> Any:
    """The integer of a `SymbolicInteger`; other operands of formulas as they are."""
    return x.value if isinstance(x, SymbolicInteger) else x


Operation: TypeAlias = Literal["add", "sub", "mul", "floordiv", "max", "min"]
"""The name of a binary operation on symbolic integers."""

COMPUTED: dict[Operation, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b,
    "max": max,
    "min": min,
}
"""The result of each operation on two known integers."""

_KEEP_LEFT = {("add", 0), ("sub", 0), ("mul", 1), ("floordiv", 1)}
"""Operations and right operands that have no effect."""
_KEEP_RIGHT = {("add", 0), ("mul", 1)}
"""Operations and left operands that have no effect."""
