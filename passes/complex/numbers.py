"""Real and complex tensors whose operators insert ATen ops on real tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute

from padc.ir.weights import numpy_dtype
from padc.passes.aten.symbolic_tensor import Operand, SymbolicTensor
from padc.passes.common.broadcast import broadcast

WITHOUT_OVERLOADS = ("atan2", "logical_and", "maximum", "minimum")
"""Binary ops that do not take numbers."""


class RealTensor(SymbolicTensor):
    """
    A real tensor.

    Numbers stay operands of the ops, as they are in the program.
    """

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes; `DYNAMIC_INDEX` for those that vary."""
        return tuple(self.type.get_shape())

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def element_type(self) -> Attribute:
        return self.type.element_type

    def call(
        self,
        name: str,
        shape: Sequence[int] | None = None,
        element_type: Attribute | None = None,
        /,
        **arguments: Any,
    ) -> RealTensor:
        """`aten.<name>`; its result has this shape and type unless others are given."""
        result = TensorType(
            self.element_type if element_type is None else element_type,
            self.shape if shape is None else shape,
        )
        given = {key: unwrapped(x) for key, x in arguments.items()}
        return self.like(self.build.call(name, result, **given))

    def unary(self, name: str, element_type: Attribute | None = None) -> RealTensor:
        """`aten.<name>` of each element."""
        return self.call(name, None, element_type, self=self)

    def binary(self, name: str, other: Operand) -> RealTensor:
        """`aten.<name>` of each element and one of `other`."""
        return self._binary(
            name, other, None if name in WITHOUT_OVERLOADS else "Tensor"
        )

    def select(self, a: Operand, b: Operand) -> RealTensor:
        """`a`, a tensor, if this boolean is true, otherwise `b`."""
        if isinstance(b, SymbolicTensor):
            return super().select(a, b)
        assert isinstance(a, RealTensor)
        shape = broadcast(self.shape, a.shape)
        return a.call("where.ScalarOther", shape, condition=self, self=a, other=b)

    def zeros(self) -> RealTensor:
        return self.unary("zeros_like")

    @property
    def most(self) -> float:
        """The largest finite number of the element type."""
        return float(np.finfo(numpy_dtype(self.element_type)).max)

    def spread(self, shape: Sequence[int]) -> RealTensor:
        """This tensor, repeated to a shape that it broadcasts to."""
        if tuple(shape) == self.shape:
            return self
        return self.call("expand", shape, self=self, size=list(shape))

    def __truediv__(self, other: Operand) -> RealTensor:
        return self.binary("div", other)

    def _scalar(self, other: Operand) -> Any:
        return None if isinstance(other, SymbolicTensor) else other


def unwrapped(x: Any) -> Any:
    """An argument for `AtenBuilder.call`."""
    match x:
        case RealTensor():
            return x.value
        case [RealTensor(), *_]:
            return [each.value for each in x]  # pyright: ignore
        case _:
            return x


Part: TypeAlias = RealTensor | None
"""An imaginary part; None if it is 0."""


@dataclass(frozen=True, eq=False)
class Complex:
    """A complex tensor. Operands broadcast."""

    real: RealTensor
    imag: Part = None

    @property
    def imaginary(self) -> RealTensor:
        """The imaginary part as a tensor."""
        return self.real.zeros() if self.imag is None else self.imag

    def conj(self) -> Complex:
        return Complex(self.real, None if self.imag is None else -self.imag)

    def scaled(self, factor: Operand) -> Complex:
        """This times a real number."""
        imag = None if self.imag is None else self.imag * factor
        return Complex(self.real * factor, imag)

    def __neg__(self) -> Complex:
        return Complex(-self.real, None if self.imag is None else -self.imag)

    def __add__(self, other: Complex | Operand) -> Complex:
        if not isinstance(other, Complex):
            return Complex(self.real + other, self.imag)
        return Complex(self.real + other.real, total(self.imag, other.imag))

    def __sub__(self, other: Complex | Operand) -> Complex:
        if not isinstance(other, Complex):
            return Complex(self.real - other, self.imag)
        return self + -other

    def __mul__(self, other: Complex | Operand) -> Complex:
        if not isinstance(other, Complex):
            return self.scaled(other)
        if other.imag is None:
            return self.scaled(other.real)
        if self.imag is None:
            return other.scaled(self.real)
        return Complex(
            self.real * other.real - self.imag * other.imag,
            self.real * other.imag + self.imag * other.real,
        )

    def __truediv__(self, other: Complex | Operand) -> Complex:
        if not isinstance(other, Complex):
            imag = None if self.imag is None else self.imag / other
            return Complex(self.real / other, imag)
        if other.imag is None:
            imag = None if self.imag is None else self.imag / other.real
            return Complex(self.real / other.real, imag)
        # Scaled, so that no square overflows. 1/0 is infinite, not undefined.
        # An infinite part becomes 1 or -1, a finite one next to it almost 0.
        size = largest(other)
        is_zero, finite = size.equals(0.0), size.clamp(-size.most, size.most)
        c, d = (
            is_zero.select(x.zeros(), (x / finite).clamp(-1.0, 1.0))
            for x in (other.real, other.imag)
        )
        square = (c * c + d * d) * size
        product = self * Complex(c, -d)
        whole = (
            is_zero.select(mine, x)
            for mine, x in (
                (self.real, product.real),
                (self.imaginary, product.imaginary),
            )
        )
        real, imag = (x / square for x in whole)
        return Complex(real, imag)

    def equals(self, other: Complex) -> RealTensor:
        """Whether both parts are equal."""
        equal = self.real.equals(other.real)
        if self.imag is None and other.imag is None:
            return equal
        return equal.binary("logical_and", self.imaginary.equals(other.imaginary))

    def square(self) -> Complex:
        if self.imag is None:
            return Complex(self.real * self.real)
        return Complex(
            self.real * self.real - self.imag * self.imag, self.real * self.imag * 2.0
        )

    def squared_size(self) -> RealTensor:
        """|z|^2."""
        square = self.real * self.real
        return square if self.imag is None else square + self.imag * self.imag

    def size(self) -> RealTensor:
        """
        |z|, scaled so that no square overflows.

        Only 0 and infinities are twice themselves; these are not divided by.
        """
        if self.imag is None:
            return self.real.unary("abs")
        a, b = self.real.unary("abs"), self.imag.unary("abs")
        is_more = a.binary("gt", b)
        most, least = is_more.select(a, b), is_more.select(b, a)
        ratio = (most * 2.0).equals(most).select(least, least / most)
        return most * (ratio * ratio + 1.0).unary("sqrt")

    def angle(self) -> RealTensor:
        return self.imaginary.binary("atan2", self.real)

    def exp(self) -> Complex:
        size, b = self.real.unary("exp"), self.imag
        if b is None:
            return Complex(size)
        made = polar(size, b)
        # An infinite size times a sine that is 0 is not a number.
        return Complex(made.real, b.equals(0.0).select(b, made.imaginary))

    def log(self) -> Complex:
        return Complex(self.size().unary("log"), self.angle())

    def sqrt(self) -> Complex:
        """The root with a real part that is not negative."""
        a, b = self.real, self.imaginary
        # Halves, so that the sum does not overflow; b of the same size gives b.
        root = (a.unary("abs") * 0.5 + self.size() * 0.5).unary("sqrt")
        double = root * 2.0
        is_zero = double.equals(0.0)
        other = b / is_zero.select(double.unary("ones_like"), double)
        is_infinite = b.unary("abs").equals(math.inf)
        other = is_infinite.select(b, other)
        is_left = a.binary("lt", 0.0)
        return Complex(
            is_left.select(other.unary("abs"), root),
            is_left.select(root.binary("copysign", b), other),
        )

    def power(self, exponent: float) -> Complex:
        """z^exponent: by squares if that is a small integer."""
        if not float(exponent).is_integer() or not 0 < abs(exponent) <= 16:
            size = self.size()
            power = size.call("pow.Tensor_Scalar", self=size, exponent=exponent)
            return polar(power, self.angle() * exponent)
        result, base, rest = None, self, abs(int(exponent))
        while rest:
            if rest % 2:
                result = base if result is None else result * base
            rest //= 2
            base = base.square() if rest else base
        assert result is not None
        one = self.real.unary("ones_like")
        return result if exponent > 0 else Complex(one) / result


def total(a: Part, b: Part) -> Part:
    if a is None or b is None:
        return b if a is None else a
    return a + b


def largest(z: Complex) -> RealTensor:
    """The larger size of the two parts."""
    return z.real.unary("abs").binary("maximum", z.imaginary.unary("abs"))


def polar(size: RealTensor, angle: RealTensor) -> Complex:
    return Complex(size * angle.unary("cos"), size * angle.unary("sin"))
