"""Numbers in the body of a loop: Python's operators on them insert ops."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import (
    AnyFloat,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    UnitAttr,
    f16,
    f32,
    f64,
    i1,
    i32,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.hints import isa

from padc.errors import Obstacle
from padc.ir.arith import FITS, NOT_POSITIVE, RemFOp
from padc.ir.arithmetic import SymbolicInteger, unwrapped
from padc.ir.element_types import is_float, is_half, is_unsigned, width
from padc.ir.tcp import Amount, fill_type
from padc.passes.aten.element import Element
from padc.passes.common.linalg_builder import LinalgBuilder

Value: TypeAlias = "Number | float"
"""A number, or a constant."""

Operand: TypeAlias = "Value | SymbolicInteger | np.floating[Any]"
"""The right side of an operator: a number of the same type, a size, or a constant."""

LARGEST_INDEX = 2.0**30
"""More than any position: floats are clamped to it before they become integers."""

FUNCTIONS: Mapping[str, type[Operation]] = {
    "acos": math.AcosOp,
    "acosh": math.AcoshOp,
    "asin": math.AsinOp,
    "asinh": math.AsinhOp,
    "atan": math.AtanOp,
    "atan2": math.Atan2Op,
    "atanh": math.AtanhOp,
    "ceil": math.CeilOp,
    "copysign": math.CopySignOp,
    "cos": math.CosOp,
    "cosh": math.CoshOp,
    "erf": math.ErfOp,
    "exp": math.ExpOp,
    "exp2": math.Exp2Op,
    "expm1": math.ExpM1Op,
    "floor": math.FloorOp,
    "log": math.LogOp,
    "log10": math.Log10Op,
    "log1p": math.Log1pOp,
    "log2": math.Log2Op,
    "pow": math.PowFOp,
    "round": math.RoundEvenOp,
    "sin": math.SinOp,
    "sinh": math.SinhOp,
    "sqrt": math.SqrtOp,
    "tan": math.TanOp,
    "tanh": math.TanhOp,
    "trunc": math.TruncOp,
}
"""Functions of floats."""


ROUNDED: Mapping[Attribute, type[np.floating[Any]]] = {f16: np.float16, f32: np.float32}
"""Types whose constants are rounded here; a value too large becomes infinite."""


def limits(type: Attribute) -> tuple[float, float]:
    """The least and the greatest number of a type."""
    if is_float(type):
        return -np.inf, np.inf
    if is_unsigned(type):
        return 0, 2 ** width(type) - 1
    return -(2 ** (width(type) - 1)), 2 ** (width(type) - 1) - 1


def constant(build: LinalgBuilder, x: float, type: Attribute) -> Number:
    """
    `x` as a number of `type`: rounded, or its lowest bits.

    Raises Obstacle for an integer from NaN or infinity, which PyTorch refuses too.
    """
    signless = fill_type(type)
    if isinstance(signless, AnyFloat):
        if (dtype := ROUNDED.get(signless)) is not None:
            with np.errstate(over="ignore"):
                x = float(dtype(x))
        value = FloatAttr(float(x), signless)
    elif type == i1:
        value = IntegerAttr(int(bool(x)), i1)
    else:
        assert isa(signless, IntegerType)
        # numpy takes no integers beyond 64 bits, as products of others may be.
        if not isinstance(x, int) and not np.isfinite(x):
            raise Obstacle(f"{x} is not an integer")
        bits = 2 ** width(type)
        whole = int(x) % bits
        value = IntegerAttr(whole - bits if whole >= bits // 2 else whole, signless)
    return Number(build, build.insert(arith.ConstantOp(value)), type)


def lifted(
    build: LinalgBuilder, x: Number | float | np.floating[Any], type: Attribute
) -> Number:
    """A constant or number, as a number of `type`."""
    return x if isinstance(x, Number) else constant(build, float(x), type)


def from_size(build: LinalgBuilder, size: Amount, type: Attribute) -> Number:
    """A size or index as a number of `type`."""
    if isinstance(size, int):
        return constant(build, size, type)
    value = size
    if value.type != i64:
        value = build.insert(arith.IndexCastOp(value, i64))
    return Number(build, value, i64).to(type)


def make_real(
    build: LinalgBuilder, type: AnyFloat
) -> Callable[[SymbolicInteger | float], Number | np.floating[Any]]:
    """Converts integers to floats of `type`; known ones become numpy's."""

    def real(x: SymbolicInteger | float) -> Number | np.floating[Any]:
        known: SSAValue | float = unwrapped(x)
        if isinstance(known, SSAValue):
            return from_size(build, known, type)
        return np.float64(known) if type == f64 else np.float32(known)

    return real


@dataclass(frozen=True, eq=False)
class Number(Element):
    """
    A number of the element type `type`, with its sign, in the body of a loop.

    Arithmetic is that of C; of booleans a sum is "or" and a product "and".
    """

    build: LinalgBuilder
    value: SSAValue
    type: Attribute

    def constant(self, x: float) -> Number:
        return constant(self.build, x, self.type)

    def boolean(self, x: bool) -> Number:
        return constant(self.build, x, i1)

    def lifted(self, x: Operand) -> Number:
        """An operand as a number of this type."""
        match x:
            case Number():
                return x
            case SymbolicInteger():
                return from_size(self.build, x.value, self.type)
            case _:
                return self.constant(float(x) if isinstance(x, np.floating) else x)

    def deeper(self, other: Number) -> Number:
        """The number inside of more loops, where ops on both are inserted."""
        return self if self.build.depth >= other.build.depth else other

    def insert(self, op: Operation) -> Number:
        """The result of `op`, which is of this type."""
        return Number(self.build, self.build.insert(op), self.type)

    def binary(
        self,
        other: Operand,
        floating: type[Operation] | None,
        signed: type[Operation],
        unsigned: type[Operation] | None = None,
    ) -> Number:
        op = signed
        if self.is_float:
            assert floating is not None
            op = floating
        elif unsigned is not None and is_unsigned(self.type):
            op = unsigned
        other = self.lifted(other)
        operands = [self.value, other.value]
        return self.deeper(other).insert(
            op.create(operands=operands, result_types=[self.value.type])
        )

    def __add__(self, other: Operand) -> Number:
        whole = arith.OrIOp if self.type == i1 else arith.AddiOp
        return self.binary(other, arith.AddfOp, whole)

    def __sub__(self, other: Operand) -> Number:
        return self.binary(other, arith.SubfOp, arith.SubiOp)

    def __mul__(self, other: Operand) -> Number:
        return self.binary(other, arith.MulfOp, arith.MuliOp)

    def __truediv__(self, other: Operand) -> Number:
        if not self.is_float:
            raise Obstacle(f"it divides numbers of {self.type}, not floats")
        return self.binary(other, arith.DivfOp, arith.DivSIOp)

    def __neg__(self) -> Number:
        if self.is_float:
            return self.insert(arith.NegfOp(self.value))
        return self.constant(0) - self

    def __and__(self, other: Operand) -> Number:
        return self.binary(other, None, arith.AndIOp)

    def __or__(self, other: Operand) -> Number:
        return self.binary(other, None, arith.OrIOp)

    def __xor__(self, other: Operand) -> Number:
        return self.binary(other, None, arith.XOrIOp)

    def __invert__(self) -> Number:
        return self ^ (1 if self.type == i1 else -1)

    def shifted(self, other: Operand, left: bool) -> Number:
        """Shifted by a number of bits; a shift of 64 or more loses all bits."""
        bits, amount = width(self.type), self.lifted(other)
        outside = (amount < 0) | (amount >= bits)
        if left:
            there = self.binary(outside.select(0, amount), None, arith.ShLIOp)
            return outside.select(self.constant(0), there)
        amount = outside.select(bits - 1, amount)
        there = self.binary(amount, None, arith.ShRSIOp, arith.ShRUIOp)
        if is_unsigned(self.type):
            return outside.select(self.constant(0), there)
        return there

    def compare(self, other: Operand, predicate: str) -> Number:
        """A boolean; a comparison with NaN is false, except "ne"."""
        other = self.lifted(other)
        if self.is_float:
            full = f"{'u' if predicate == 'ne' else 'o'}{predicate}"
            op = arith.CmpfOp(self.value, other.value, full)
        else:
            sign = "u" if is_unsigned(self.type) else "s"
            full = predicate if predicate in ("eq", "ne") else f"{sign}{predicate}"
            op = arith.CmpiOp(self.value, other.value, full)
        build = self.deeper(other).build
        return Number(build, build.insert(op), i1)

    def select(self, a: Operand, b: Operand) -> Number:
        """`a` if this boolean is true, otherwise `b`; at least one is a Number."""
        typed = self.typed(a, b)
        x, y = typed.lifted(a), typed.lifted(b)
        inner = self.deeper(x).deeper(y)
        result = inner.build.insert(arith.SelectOp(self.value, x.value, y.value))
        return Number(inner.build, result, typed.type)

    def typed(self, a: Operand, b: Operand) -> Number:
        """A number of the operands' type; at least one operand has a type."""
        for x in (a, b):
            if isinstance(x, Number):
                return x
        assert isinstance(a, np.floating)
        return constant(self.build, float(a), f64 if a.dtype == np.float64 else f32)

    def maximum(self, other: Operand) -> Number:
        """The greater one; NaN if either is NaN."""
        return self.binary(other, arith.MaximumfOp, arith.MaxSIOp, arith.MaxUIOp)

    def minimum(self, other: Operand) -> Number:
        """The smaller one; NaN if either is NaN."""
        return self.binary(other, arith.MinimumfOp, arith.MinSIOp, arith.MinUIOp)

    def clamp(self, low: Operand, high: Operand) -> Number:
        """The number, or the bound that it exceeds; `low` if it is NaN."""
        if not self.is_float:
            return self.maximum(low).minimum(high)
        x = (self > low).select(self, low)
        return (x < high).select(x, high)

    def multiply_add(self, a: Operand, b: Operand, c: Operand) -> Number:
        """`a * b + c` of floats, rounded once."""
        x, y, z = (self.lifted(operand) for operand in (a, b, c))
        inner = x.deeper(y).deeper(z)
        return inner.insert(math.FmaOp(x.value, y.value, z.value))

    def floor(self) -> Number:
        return self.apply("floor")

    def sine(self) -> Number:
        return self.apply("sin")

    def whole(self) -> Number:
        """A float truncated to an i32; NaN becomes negative."""
        return self.clamp(-LARGEST_INDEX, LARGEST_INDEX).truncated()

    def truncated(self) -> Number:
        """A float that is known to fit into an i32, truncated to one."""
        op = arith.FPToSIOp(self.value, i32)
        op.attributes[FITS] = UnitAttr()
        return Number(self.build, self.build.insert(op), i32)

    def decay(self) -> Number:
        """The exponential of a float that is known to be at most 0, or NaN."""
        op = math.ExpOp(self.value)
        op.attributes[NOT_POSITIVE] = UnitAttr()
        return Number(self.build, self.build.insert(op), self.type)

    def __abs__(self) -> Number:
        if self.is_float:
            return self.insert(math.AbsFOp(self.value))
        return self if is_unsigned(self.type) else self.maximum(-self)

    def function(self, name: str, /, *others: Any) -> Number:
        """A function of `FUNCTIONS`."""
        operands = [self.value, *(other.value for other in others)]
        op = FUNCTIONS[name]
        return self.insert(op.create(operands=operands, result_types=[self.value.type]))

    def rest(self, other: Operand) -> Number:
        """C's remainder, with the sign of the dividend; 0 for an integer by 0."""
        if self.is_float:
            return self.binary(other, RemFOp, arith.RemSIOp)
        divisor = self.divisor(other)
        return self.binary(divisor, None, arith.RemSIOp, arith.RemUIOp)

    def quotient(self, other: Operand) -> Number:
        """C's integer quotient, rounded towards 0; the divisor 0 counts as 1."""
        quotient = self.binary(self.divisor(other), None, arith.DivSIOp, arith.DivUIOp)
        if is_unsigned(self.type):
            return quotient
        if not isinstance(other, Number):
            return -self if other == -1 else quotient
        return other.equals(-1).select(-self, quotient)

    def divisor(self, other: Operand) -> Number:
        """A divisor on which the CPU does not trap: not 0, nor -1 if that overflows."""
        if not isinstance(other, Number):
            return self.constant(1) if other in (0, -1) else self.lifted(other)
        other = other.equals(0).select(1, other)
        return other if is_unsigned(self.type) else other.equals(-1).select(1, other)

    def to(self, type: Attribute) -> Number:
        """This number converted to another type as in C; a boolean if it is not 0."""
        if self.type == type:
            return self
        if type == i1:
            return self.differs(0)
        old, new = fill_type(self.type), fill_type(type)
        if isinstance(old, AnyFloat):
            value = self.value
            if isinstance(new, AnyFloat):
                value = self.resized_float(old, new)
            else:
                whole = self.build.insert(arith.FPToSIOp(value, i64))
                if new != i64:
                    assert isa(new, IntegerType)
                    whole = self.build.insert(arith.TruncIOp(whole, new))
                elif is_unsigned(type):
                    # FPToUI is undefined below 0, FPToSI from 2^63 on. f16 has no
                    # number as large, and there 2^63 is infinite.
                    large = self.build.insert(arith.FPToUIOp(value, i64))
                    is_large = (self >= 2.0**63).value
                    whole = self.build.insert(arith.SelectOp(is_large, large, whole))
                value = whole
        elif isinstance(new, AnyFloat):
            convert = arith.UIToFPOp if is_unsigned(self.type) else arith.SIToFPOp
            value = self.build.insert(convert(self.value, new))
        else:
            assert isa(new, IntegerType)
            value = self.value
            if width(old) < width(new):
                extend = arith.ExtUIOp if is_unsigned(self.type) else arith.ExtSIOp
                value = self.build.insert(extend(value, new))
            elif width(old) > width(new):
                value = self.build.insert(arith.TruncIOp(value, new))
        return Number(self.build, value, type)

    def resized_float(self, old: AnyFloat, new: AnyFloat) -> SSAValue:
        value = self.value
        if is_half(old) and is_half(new):
            if old == new:
                return value
            value, old = self.build.insert(arith.ExtFOp(value, f32)), f32
        if new == f64 or (new == f32 and is_half(old)):
            return self.build.insert(arith.ExtFOp(value, new))
        return self.build.insert(arith.TruncFOp(value, new))

    def to_index(self) -> SSAValue:
        """An integer as an index of a tensor."""
        return self.build.insert(arith.IndexCastOp(self.to(i64).value, IndexType()))
