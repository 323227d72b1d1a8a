"""Arithmetic on the elements of a loop, and their types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import (
    AnyFloat,
    FloatAttr,
    IndexType,
    IntegerType,
    f32,
    f64,
    i32,
    i64,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.utils.hints import isa

from padc.ir.tcp import Amount
from padc.passes.to_linalg.build.linalg_builder import LinalgBuilder

Real: TypeAlias = float | SSAValue

MOST = 2.0**30
"""No position is as large; floats are clamped to it before they become integers."""


def widened(
    build: LinalgBuilder, x: SSAValue, type: Attribute, unsigned: bool = False
) -> SSAValue:
    """A number as one of a type that has room for it, or of f64."""
    if x.type == type:
        return x
    if isinstance(x.type, AnyFloat):
        return build.insert(arith.ExtFOp(x, type))
    if isinstance(type, AnyFloat):
        to_float = arith.UIToFPOp if unsigned else arith.SIToFPOp
        return build.insert(to_float(x, type))
    assert isa(type, IntegerType)
    extend = arith.ExtUIOp if unsigned else arith.ExtSIOp
    return build.insert(extend(x, type))


def rounded(build: LinalgBuilder, x: SSAValue, type: Attribute) -> SSAValue:
    """A number as one of a narrower type: floats rounded, to integers truncated."""
    if x.type == type:
        return x
    if isinstance(type, AnyFloat):
        return build.insert(arith.TruncFOp(x, type))
    if isinstance(x.type, AnyFloat):
        x = build.insert(arith.FPToSIOp(x, i64))
    assert isa(type, IntegerType)
    return x if type == i64 else build.insert(arith.TruncIOp(x, type))


def is_nan(build: LinalgBuilder, x: SSAValue) -> SSAValue:
    return build.insert(arith.CmpfOp(x, x, "uno"))


def integer(build: LinalgBuilder, amount: Amount) -> SSAValue:
    """A size or position as i32."""
    if isinstance(amount, int):
        return build.constant(amount, i32)
    return build.insert(arith.IndexCastOp(amount, i32))


def as_index(build: LinalgBuilder, position: SSAValue) -> SSAValue:
    """A position, i32, to index with."""
    return build.insert(arith.IndexCastOp(position, IndexType()))


@dataclass(frozen=True)
class Reals:
    """Arithmetic on floats of one type, f32 or f64; Python's are its constants."""

    build: LinalgBuilder
    type: AnyFloat

    def value(self, x: Real) -> SSAValue:
        if isinstance(x, SSAValue):
            return x
        return self.build.insert(arith.ConstantOp(FloatAttr(x, self.type)))

    def number(self, x: float) -> float:
        """`x` as this type has it."""
        return x if self.type == f64 else float(np.float32(x))

    def of(self, amount: Amount) -> Real:
        """A size or position."""
        if isinstance(amount, int):
            return self.number(float(amount))
        wide = self.build.insert(arith.IndexCastOp(amount, i64))
        return self.build.insert(arith.SIToFPOp(wide, self.type))

    def add(self, a: Real, b: Real) -> SSAValue:
        return self.build.insert(arith.AddfOp(self.value(a), self.value(b)))

    def sub(self, a: Real, b: Real) -> SSAValue:
        return self.build.insert(arith.SubfOp(self.value(a), self.value(b)))

    def mul(self, a: Real, b: Real) -> Real:
        if not isinstance(a, SSAValue) and not isinstance(b, SSAValue):
            return self.number(a * b)
        return self.build.insert(arith.MulfOp(self.value(a), self.value(b)))

    def div(self, a: Real, b: Real) -> Real:
        if not isinstance(a, SSAValue) and not isinstance(b, SSAValue):
            return self.number(a / b)
        return self.build.insert(arith.DivfOp(self.value(a), self.value(b)))

    def multiply_add(self, a: Real, b: Real, c: Real) -> SSAValue:
        """`a * b + c`, rounded once."""
        a, b, c = self.value(a), self.value(b), self.value(c)
        return self.build.insert(math.FmaOp(a, b, c))

    def floor(self, x: Real) -> SSAValue:
        return self.build.insert(math.FloorOp(self.value(x)))

    def absolute(self, x: Real) -> SSAValue:
        return self.build.insert(math.AbsFOp(self.value(x)))

    def compare(self, a: Real, predicate: str, b: Real) -> SSAValue:
        return self.build.insert(arith.CmpfOp(self.value(a), self.value(b), predicate))

    def select(self, condition: SSAValue, a: Real, b: Real) -> SSAValue:
        return self.build.insert(
            arith.SelectOp(condition, self.value(a), self.value(b))
        )

    def clamp(self, x: Real, low: Real, high: Real) -> SSAValue:
        """`x` from `low` to `high`; what is not a number is `low`."""
        x = self.select(self.compare(x, "ogt", low), x, low)
        return self.select(self.compare(x, "olt", high), x, high)

    def position(self, x: Real, last: Amount) -> SSAValue:
        """`x` truncated to an i32 from 0 to `last`, which is not negative."""
        whole = self.build.insert(arith.FPToSIOp(self.clamp(x, 0.0, MOST), i32))
        return self.build.insert(arith.MinSIOp(whole, integer(self.build, last)))

    def polynomial(self, x: SSAValue, factors: Sequence[float]) -> SSAValue:
        """By Horner's rule, the factor of the highest power first."""
        value: Real = factors[0]
        for factor in factors[1:]:
            value = self.mul(value, x)
            if factor:
                value = self.add(value, factor)
        return self.value(value)

    def cubic_near(self, x: SSAValue, a: float) -> SSAValue:
        """R. Keys' cubic convolution kernel, of distances up to 1."""
        return self.polynomial(x, [a + 2, -(a + 3), 0.0, 1.0])

    def cubic_far(self, x: SSAValue, a: float) -> SSAValue:
        """R. Keys' cubic convolution kernel, of distances from 1 to 2."""
        return self.polynomial(x, [a, -5 * a, 8 * a, -4 * a])

    def cubic(self, fraction: SSAValue) -> list[SSAValue]:
        """With a = -0.75, of elements -1 to 2 places behind the one before a point."""
        distances = [
            self.absolute(self.sub(fraction, offset))
            for offset in (-1.0, 0.0, 1.0, 2.0)
        ]
        return [
            kernel(distance, -0.75)
            for kernel, distance in zip(
                (self.cubic_far, self.cubic_near, self.cubic_near, self.cubic_far),
                distances,
                strict=True,
            )
        ]


def real_type(type: Attribute) -> AnyFloat:
    """What coordinates and weights are computed in; PyTorch does so too."""
    return f64 if type == f64 else f32


def total_type(type: Attribute) -> AnyFloat:
    """What elements are weighted and summed in."""
    return f32 if isinstance(type, AnyFloat) and type != f64 else f64
