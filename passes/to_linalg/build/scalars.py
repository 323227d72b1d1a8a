"""Conversions of the elements of a loop, and the types that are computed in."""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    AnyFloat,
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
from padc.passes.common.linalg_builder import LinalgBuilder


def widened(
    build: LinalgBuilder, x: SSAValue, type: Attribute, unsigned: bool = False
) -> SSAValue:
    """A number converted to a wider type, or to f64."""
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
    """A number converted to a narrower type: rounded, or truncated to an integer."""
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
    """An i32 position as an index."""
    return build.insert(arith.IndexCastOp(position, IndexType()))


def real_type(type: Attribute) -> AnyFloat:
    """The type that PyTorch computes coordinates and weights in."""
    return f64 if type == f64 else f32


def total_type(type: Attribute) -> AnyFloat:
    """The type that elements are weighted and summed in."""
    return f32 if isinstance(type, AnyFloat) and type != f64 else f64
