"""Tensors of a Core ML program, whose operators insert `mil` ops."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, cast

import numpy as np
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    TensorType,
    f16,
    i1,
    i32,
)
from xdsl.ir import Attribute, SSAValue

from padc.errors import Obstacle
from padc.ir import mil, mil_types
from padc.ir.element_types import is_float, is_integer, is_unsigned, width
from padc.ir.tcp import tensor_type
from padc.passes.aten.element import Element
from padc.passes.common.broadcast import broadcast
from padc.passes.common.mil_builder import MilBuilder
from padc.passes.torch_to_mil.aten.functions import FUNCTIONS

Operand: TypeAlias = "Tensor | float | np.generic"
"""The right side of an operator: a tensor of the same type, or a constant."""

INT32 = np.iinfo(np.int32)


def computed_type(type: Attribute) -> Attribute:
    """
    The element type in which Core ML computes with PyTorch's `type`.

    Integers are int32. Raises Obstacle for what Core ML lacks.
    """
    mil_types.element_type_name(type)
    return type if type == i1 or is_float(type) else i32


@dataclass(frozen=True, eq=False)
class Tensor(Element):
    """
    A tensor with elements of PyTorch's type `type`, or a constant number.

    Its value is of the type that `computed_type` gives. Operands broadcast as in
    PyTorch.
    """

    build: MilBuilder
    value: SSAValue | np.generic
    type: Attribute

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes; `DYNAMIC_INDEX` for those that vary."""
        if isinstance(self.value, SSAValue):
            return tuple(tensor_type(self.value).get_shape())
        return ()

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def ssa(self) -> SSAValue:
        """The tensor as a value of the IR."""
        if isinstance(self.value, SSAValue):
            return self.value
        return self.build.constant(np.asarray(self.value))

    def like(self, value: SSAValue | np.generic) -> Tensor:
        """Another tensor of the same type."""
        return replace(self, value=value)

    def constant(self, x: float) -> Tensor:
        """
        `x` as a number of this type: rounded, or the lowest bits of a narrow integer.

        Raises Obstacle for an integer outside of int32.
        """
        if is_narrow(self.type) and not isinstance(x, np.generic):
            least, _ = limits(self.type)
            x = (int(x) - least) % 2 ** width(self.type) + least
        return self.like(number(x, computed_type(self.type)))

    def boolean(self, x: bool) -> Tensor:
        return Tensor(self.build, np.bool_(x), i1)

    def lifted(self, x: Operand) -> Tensor:
        """An operand as a tensor of this type."""
        return x if isinstance(x, Tensor) else self.constant(x)  # pyright: ignore[reportArgumentType]

    def emit(
        self,
        name: str,
        shape: Sequence[int],
        type: Attribute | None = None,
        /,
        **inputs: Any,
    ) -> Tensor:
        """
        The result of `mil.<name>`, of `shape`; of this type unless another is given.

        Inputs that are Tensors are passed as their values.
        """
        type = self.type if type is None else type
        given = {key: as_input(x) for key, x in inputs.items()}
        if not any(isinstance(x, SSAValue | list) for x in given.values()):
            first = next(key for key, x in inputs.items() if isinstance(x, Tensor))
            given[first] = inputs[first].ssa
        like = TensorType(computed_type(type), ())
        return Tensor(self.build, self.build.emit(name, like, shape, **given), type)

    def emit_all(
        self, name: str, shapes: Sequence[Sequence[int]], /, **inputs: Any
    ) -> list[Tensor]:
        """The results of `mil.<name>`, of `shapes` and this type."""
        given = {key: as_input(x) for key, x in inputs.items()}
        like = TensorType(computed_type(self.type), ())
        made = self.build.emit_all(name, like, shapes, **given)
        return [self.like(value) for value in made]

    def unary(self, name: str, **constants: Any) -> Tensor:
        """`mil.<name>` of each element."""
        if isinstance(self.value, np.generic) and name in FOLDED:
            return self.like(FOLDED[name](self.value))
        return self.emit(name, self.shape, x=self, **constants)

    def binary(
        self, name: str, other: Operand, type: Attribute | None = None
    ) -> Tensor:
        """`mil.<name>` of each element and one of `other`."""
        y = self.lifted(other)
        numbers = self.value, y.value
        if name in FOLDED and all(isinstance(x, np.generic) for x in numbers):
            with np.errstate(all="ignore"):
                return self.like(FOLDED[name](*numbers))
        return self.emit(name, broadcast(self.shape, y.shape), type, x=self, y=y)

    def __add__(self, other: Operand) -> Tensor:
        if self.type == i1:
            return self | other
        return self.wrapped(self.binary("add", other))

    def __sub__(self, other: Operand) -> Tensor:
        return self.wrapped(self.binary("sub", other))

    def __mul__(self, other: Operand) -> Tensor:
        if self.type == i1:
            return self & other
        return self.wrapped(self.binary("mul", other))

    def __truediv__(self, other: Operand) -> Tensor:
        if not self.is_float:  # PyTorch's ops that divide integers make them floats.
            raise Obstacle(f"a quotient of {self.type}", "convert it to float first")
        return self.binary("real_div", other)

    def __floordiv__(self, other: Operand) -> Tensor:
        return self.binary("floor_div", other)

    def __mod__(self, other: Operand) -> Tensor:
        return self.binary("mod", other)

    def __neg__(self) -> Tensor:
        return self * -1

    def __abs__(self) -> Tensor:
        return self if is_unsigned(self.type) else self.wrapped(self.unary("abs"))

    def __and__(self, other: Operand) -> Tensor:
        y = self.lifted(other)
        return self.binary("logical_and", y) if self.type == i1 else self.common_bits(y)

    def __or__(self, other: Operand) -> Tensor:
        y = self.lifted(other)
        if self.type == i1:
            return self.binary("logical_or", y)
        # Without the common bits no sum carries, so none overflows.
        return self - self.common_bits(y) + y

    def __xor__(self, other: Operand) -> Tensor:
        y = self.lifted(other)
        if self.type == i1:
            return self.binary("logical_xor", y)
        common = self.common_bits(y)
        return (self - common) + (y - common)

    def __invert__(self) -> Tensor:
        if self.type == i1:
            return self.unary("logical_not")
        return -1 - self if not is_unsigned(self.type) else self.largest() - self

    def largest(self) -> Tensor:
        """The largest number of an unsigned type."""
        return self.constant(2 ** width(self.type) - 1)

    def common_bits(self, other: Tensor) -> Tensor:
        """`self & other` of integers, bit by bit: Core ML has no such op."""
        bits = min(width(self.type) - (not is_unsigned(self.type)), 31)
        known = other.value if not isinstance(other.value, SSAValue) else None
        total = self.constant(0)
        for number in range(bits):
            if known is None:
                total = total + self.bit(number) * other.bit(number) * (1 << number)
            elif int(known) >> number & 1:
                total = total + self.bit(number) * (1 << number)
        if is_unsigned(self.type) or (known is not None and int(known) >= 0):
            return total
        # The sign has the weight of all other bits, and one.
        sign = ((self < 0) & (other < 0)).to(self.type)
        return total - sign * (2**bits - 1) - sign

    def bit(self, number: int) -> Tensor:
        """A bit of an integer: 0 or 1."""
        shifted = self if number == 0 else self.binary("floor_div", 1 << number)
        return shifted.binary("mod", 2)

    def shifted(self, other: Operand, left: bool) -> Tensor:
        """Shifted by a number of bits; a shift by all or more loses all bits."""
        bits, amount = width(self.type), self.lifted(other)
        outside = (amount < 0) | (amount >= bits)
        most = min(bits, 32) - 1
        power = self.constant(2).binary("pow", amount.maximum(0).minimum(most - 1))
        # 2^31 does not fit int32: the last bit is shifted on its own.
        rest = (amount >= most).to(self.type) + 1
        if left:
            return outside.select(0, self * power * rest)
        there = self.binary("floor_div", power).binary("floor_div", rest)
        return outside.select((self < 0).select(self.constant(-1), 0), there)

    def compare(self, other: Operand, predicate: str) -> Tensor:
        """A boolean; a comparison with NaN is false, except "ne"."""
        if self.type == i1:
            return self.in_int32().compare(self.lifted(other).in_int32(), predicate)
        if (bound := self.bound(other)) is not None:
            is_above = bound == INT32.max
            holds = ("le", "lt", "ne") if is_above else ("ge", "gt", "ne")
            name = "le" if is_above else "ge"
            found = self.compare(bound, name)
            return found if predicate in holds else ~found
        return self.binary(COMPARISONS[predicate], other, i1)

    def bound(self, other: Operand) -> int | None:
        """The end of int32 next to an integer beyond it; None for one in its range."""
        if self.is_float or is_narrow(self.type) or not isinstance(other, int):
            return None
        if INT32.min <= other <= INT32.max:
            return None
        return INT32.max if other > 0 else INT32.min

    def in_int32(self) -> Tensor:
        """Booleans as integers."""
        return self.to(i32)

    def select(self, a: Operand, b: Operand) -> Tensor:
        """`a` if this boolean is true, otherwise `b`; at least one is a Tensor."""
        typed = a if isinstance(a, Tensor) else b
        assert isinstance(typed, Tensor)
        x, y = typed.lifted(a), typed.lifted(b)
        if not isinstance(self.value, SSAValue):
            return x if self.value else y
        both = broadcast(x.shape, y.shape)
        shape = broadcast(self.shape, both)
        if both != shape:
            # pymil takes the shape of the result from `a` and `b` alone.
            x = x.spread(self)
        return typed.emit("select", shape, cond=self, a=x, b=y)

    def spread(self, condition: Tensor) -> Tensor:
        """This tensor, repeated to the shape of booleans that it broadcasts to."""
        shape = broadcast(self.shape, condition.shape)
        if not isinstance(self.value, SSAValue) and DYNAMIC_INDEX not in shape:
            return self.like(self.build.constant(np.full(shape, self.value)))
        if self.type == i1:
            return (condition | True) & self
        return (condition | True).to(self.type) * self

    def maximum(self, other: Operand) -> Tensor:
        """The greater one; NaN if either is NaN."""
        return self.extremum("maximum", other)

    def minimum(self, other: Operand) -> Tensor:
        """The smaller one; NaN if either is NaN."""
        return self.extremum("minimum", other)

    def extremum(self, name: str, other: Operand) -> Tensor:
        is_maximum = name == "maximum"
        if self.bound(other) == (INT32.min if is_maximum else INT32.max):
            return self
        y = self.lifted(other)
        if not isinstance(y.value, SSAValue) and y.value != y.value:
            return self + y  # a bound that is NaN
        if self.type == i1:
            return self | y if is_maximum else self & y
        # The result is this tensor where one of the two is NaN.
        result = y.binary(name, self) if is_maximum else self.binary(name, y)
        if not self.is_float or not isinstance(y.value, SSAValue):
            return result
        return y.is_nan().select(y, result)

    def rest(self, other: Operand) -> Tensor:
        """C's remainder, with the sign of the dividend; 0 for an integer by 0."""
        if self.is_float:
            rest = abs(self).binary("mod", abs(self.lifted(other)))
            return (self < 0).select(-rest, rest)
        divisor = self.divisor(other)
        rest = self.binary("mod", divisor)
        if is_unsigned(self.type):
            return rest
        return self.is_rounded_down(divisor, rest).select(rest - divisor, rest)

    def quotient(self, other: Operand) -> Tensor:
        """C's integer quotient, rounded towards 0; the divisor 0 counts as 1."""
        divisor = self.divisor(other)
        quotient = self.binary("floor_div", divisor)
        if is_unsigned(self.type):
            return quotient
        rest = self.binary("mod", divisor)
        return quotient + self.is_rounded_down(divisor, rest).to(self.type)

    def is_rounded_down(self, divisor: Tensor, rest: Tensor) -> Tensor:
        """Whether the quotient rounded down is not the one rounded towards 0."""
        return rest.differs(0) & ((self < 0) ^ (divisor < 0))

    def divisor(self, other: Operand) -> Tensor:
        """An integer divisor, where 0 is 1."""
        y = self.lifted(other)
        if isinstance(y.value, SSAValue):
            return y.equals(0).select(1, y)
        return y if y.value else self.constant(1)

    def function(self, name: str, /, *others: Any) -> Tensor:
        """A function of `FUNCTIONS`, or the op of this name."""
        if (function := FUNCTIONS.get(name)) is not None:
            return cast(Tensor, function(self, *others))
        if name == "log":
            # By default Core ML adds 1e-45, so that the logarithm of 0 is -103.
            return self.unary(name, epsilon=0.0)
        return self.binary(name, others[0]) if others else self.unary(name)

    def to(self, type: Attribute) -> Tensor:
        """This tensor converted as in C; a boolean is whether an element is not 0."""
        if self.type == type:
            return self
        if not isinstance(self.value, SSAValue):
            value = self.value.item()
            if not is_float(type):
                value = bool(value) if type == i1 else int(value)
            return replace(self, type=type).constant(value)
        if type == i1:
            return self.differs(0)
        element = computed_type(type)
        x = self
        if element != computed_type(self.type):
            x = self.emit(
                "cast", self.shape, type, x=self, dtype=mil_types.ELEMENT_TYPES[element]
            )
        x = replace(x, type=type)
        if is_float(type) or includes(type, self.type):
            return x
        return x.wrapped(x)

    def wrapped(self, x: Tensor) -> Tensor:
        """The lowest bits of `x`, which is the result of arithmetic on this type."""
        if not is_narrow(self.type):
            return x
        span = x.like(np.int32(2 ** width(self.type)))
        if is_unsigned(self.type):
            return x.binary("mod", span)
        half = x.like(np.int32(2 ** (width(self.type) - 1)))
        return x.binary("add", half).binary("mod", span).binary("sub", half)


FOLDED: Mapping[str, Callable[..., np.generic]] = {
    "abs": np.abs,
    "add": np.add,
    "mul": np.multiply,
    "real_div": np.divide,
    "sign": np.sign,
    "sub": np.subtract,
}
"""Ops on constants that are computed here, in the constants' type."""


def as_input(x: Any) -> Any:
    """The operand of `mil.op` for an input that may be a Tensor, or a list of them."""
    match x:
        case Tensor():
            return x.value
        case [Tensor(), *_]:
            tensors: Sequence[Tensor] = x
            return [each.ssa for each in tensors]
        case _:
            return x


COMPARISONS = {
    "eq": "equal",
    "ge": "greater_equal",
    "gt": "greater",
    "le": "less_equal",
    "lt": "less",
    "ne": "not_equal",
}


def number(x: float | np.generic, element: Attribute) -> np.generic:
    """A constant of an element type in which Core ML computes."""
    x = cast(float, x.item() if isinstance(x, np.generic) else x)
    if element == i1:
        return np.bool_(x)
    if element == i32:
        if not INT32.min <= x <= INT32.max:
            raise Obstacle(
                f"{x} does not fit Core ML's int32",
                "use a smaller number: torch.iinfo(torch.int32) has its limits",
            )
        return np.int32(x)
    with np.errstate(over="ignore"):
        return np.float16(x) if element == f16 else np.float32(x)


def is_narrow(type: Attribute) -> bool:
    """Whether arithmetic on an integer type is done in a wider one."""
    return is_integer(type) and type != i1 and width(type) < 32


def includes(type: Attribute, other: Attribute) -> bool:
    """Whether an integer type has all numbers of another type."""
    if is_float(other):
        return width(type) >= 32
    if other == i1 or width(type) >= 32:
        return True
    least, greatest = limits(type)
    low, high = limits(other)
    return least <= low and high <= greatest


def limits(type: Attribute) -> tuple[int, int]:
    """The least and the greatest number of an integer type."""
    if is_unsigned(type):
        return 0, 2 ** width(type) - 1
    half = 2 ** (width(type) - 1)
    return -half, half - 1


def as_number(x: Tensor) -> Tensor:
    """Booleans as integers: Core ML neither reduces, gathers nor scatters booleans."""
    return x.to(i32) if x.type == i1 else x


def is_constant(*tensors: Tensor | None) -> bool:
    """Whether Core ML knows all tensors before the program runs."""
    return all(x is None or mil.is_constant(x.ssa) for x in tensors)
