"""
Ops on single elements: arith and math ops as ops of LLVM's dialect.

A bf16 is its bits in an i16. f16 and bf16 are computed in f32 and rounded to nearest,
ties to even; for the four operations and the square root that equals computing in the
half type itself. They convert to and from f64 and integers through f32, as in PyTorch.
Floats convert to integers with saturation; arith leaves open what does not fit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import arith, llvm, math
from xdsl.dialects.builtin import (
    AnyFloat,
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    bf16,
    f16,
    f32,
    f64,
    i16,
    i32,
    i64,
)
from xdsl.dialects.utils import FastMathFlag
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.exceptions import PassFailedException
from xdsl.utils.hints import isa

from padc.ir.arith import FITS, RemFOp
from padc.passes.buffers_to_llvm.llvm_builder import (
    AnyInteger,
    LlvmBuilder,
    predicate,
    value_type,
)
from padc.passes.buffers_to_llvm.vector_math import vector_function

SUM = llvm.FastMathAttr([FastMathFlag.REASSOC, FastMathFlag.ALLOW_CONTRACT])
"""Sums may be reassociated, and products fused with them."""

INTEGER_OPS: dict[type[Operation], Callable[[SSAValue, SSAValue], Operation]] = {
    arith.AddiOp: llvm.AddOp,
    arith.SubiOp: llvm.SubOp,
    arith.MuliOp: llvm.MulOp,
    arith.DivSIOp: llvm.SDivOp,
    arith.DivUIOp: llvm.UDivOp,
    arith.RemSIOp: llvm.SRemOp,
    arith.RemUIOp: llvm.URemOp,
    arith.AndIOp: llvm.AndOp,
    arith.OrIOp: llvm.OrOp,
    arith.XOrIOp: llvm.XOrOp,
    arith.ShLIOp: llvm.ShlOp,
    arith.ShRSIOp: llvm.AShrOp,
    arith.ShRUIOp: llvm.LShrOp,
}
INTEGER_INTRINSICS: dict[type[Operation], str] = {
    arith.MaxSIOp: "llvm.smax",
    arith.MinSIOp: "llvm.smin",
    arith.MaxUIOp: "llvm.umax",
    arith.MinUIOp: "llvm.umin",
}
FLOAT_OPS: dict[type[Operation], type[llvm.AbstractFloatArithOp]] = {
    arith.AddfOp: llvm.FAddOp,
    arith.SubfOp: llvm.FSubOp,
    arith.MulfOp: llvm.FMulOp,
    arith.DivfOp: llvm.FDivOp,
}
FLOAT_INTRINSICS: dict[type[Operation], str] = {
    arith.MaximumfOp: "llvm.maximum",
    arith.MinimumfOp: "llvm.minimum",
    arith.MaxnumfOp: "llvm.maxnum",
    arith.MinnumfOp: "llvm.minnum",
    math.AbsFOp: "llvm.fabs",
    math.CeilOp: "llvm.ceil",
    math.CopySignOp: "llvm.copysign",
    math.CosOp: "llvm.cos",
    math.FloorOp: "llvm.floor",
    math.FmaOp: "llvm.fma",
    math.RoundEvenOp: "llvm.roundeven",
    math.SinOp: "llvm.sin",
    math.SqrtOp: "llvm.sqrt",
    math.TanOp: "llvm.tan",
    math.TruncOp: "llvm.trunc",
}


def suffix(type: Attribute) -> str:
    match type:
        case Float16Type():
            return "f16"
        case Float32Type():
            return "f32"
        case Float64Type():
            return "f64"
        case _ if isa(type, AnyInteger):
            return f"i{type.width.data}"
        case _:
            raise PassFailedException(f"LLVM has no intrinsics for {type}")


def intrinsic(
    build: LlvmBuilder, name: str, args: Sequence[SSAValue], *types: Attribute
) -> SSAValue:
    """A call of the intrinsic `name` for `types`, the first of which is its result."""
    full = ".".join([name, *map(suffix, types)])
    return build.insert(llvm.CallIntrinsicOp(StringAttr(full), args, [types[0]]))


def constant(build: LlvmBuilder, value: int, type: Attribute) -> SSAValue:
    assert isa(type, AnyInteger)
    return build.insert(llvm.ConstantOp(IntegerAttr(value, type), type))


def from_bfloat(build: LlvmBuilder, bits: SSAValue) -> SSAValue:
    """The f32 whose upper half is a bf16."""
    wide = build.insert(llvm.ZExtOp(bits, i32))
    shifted = build.insert(llvm.ShlOp(wide, constant(build, 16, i32)))
    return build.insert(llvm.BitcastOp(shifted, f32))


def to_bfloat(build: LlvmBuilder, x: SSAValue) -> SSAValue:
    """The bf16 nearest to an f32, ties to even; every NaN becomes the same one."""
    bits = build.insert(llvm.BitcastOp(x, i32))
    upper = build.insert(llvm.LShrOp(bits, constant(build, 16, i32)))
    odd = build.insert(llvm.AndOp(upper, constant(build, 1, i32)))
    half = build.insert(llvm.AddOp(odd, constant(build, 0x7FFF, i32)))
    rounded = build.insert(llvm.AddOp(bits, half))
    shifted = build.insert(llvm.LShrOp(rounded, constant(build, 16, i32)))
    is_nan = build.insert(llvm.FCmpOp(x, x, "uno"))
    nan = constant(build, 0x7FC0, i32)
    return build.insert(
        llvm.TruncOp(build.insert(llvm.SelectOp(is_nan, nan, shifted)), i16)
    )


def widened(build: LlvmBuilder, x: SSAValue, type: Attribute) -> SSAValue:
    """`x` of type `type`, as f32 if that is f16 or bf16."""
    match type:
        case BFloat16Type():
            return from_bfloat(build, x)
        case Float16Type():
            return build.insert(llvm.FPExtOp(x, f32))
        case _:
            return x


def rounded(build: LlvmBuilder, x: SSAValue, type: Attribute) -> SSAValue:
    """A float as `type`."""
    if type in (f16, bf16) and x.type == f64:
        x = build.insert(llvm.FPTruncOp(x, f32))
    if isinstance(type, BFloat16Type):
        return to_bfloat(build, x)
    if x.type == type:
        return x
    wider = isinstance(type, Float64Type)
    return build.insert((llvm.FPExtOp if wider else llvm.FPTruncOp)(x, type))


def lower_scalar(
    build: LlvmBuilder, op: Operation, args: Sequence[SSAValue], is_sum: bool = False
) -> SSAValue:
    """
    The result of `op`, an arith or math op, for `args`.

    If it `is_sum`, it may be reassociated and fused with products.
    """
    if not op.results:
        raise PassFailedException(f"'{op.name}' has no lowering to LLVM's dialect")
    result = op.results[0].type
    types = [operand.type for operand in op.operands]
    match op:
        case arith.ConstantOp():
            return literal(build, op.value)
        case arith.SelectOp():
            return build.insert(llvm.SelectOp(*args))
        case arith.BitcastOp():
            if args[0].type == value_type(result):
                return args[0]
            return build.insert(llvm.BitcastOp(args[0], value_type(result)))
        case arith.ExtFOp() | arith.TruncFOp():
            return rounded(build, widened(build, args[0], types[0]), result)
        case _:
            pass
    wide = [widened(build, x, type) for x, type in zip(args, types, strict=True)]
    y = computed(build, op, wide, is_sum)
    return rounded(build, y, result) if isinstance(result, AnyFloat) else y


def literal(build: LlvmBuilder, value: Attribute) -> SSAValue:
    match value:
        case FloatAttr() if value.type == bf16:
            x = build.insert(llvm.ConstantOp(FloatAttr(value.value.data, f32), f32))
            return to_bfloat(build, x)
        case FloatAttr():
            return build.insert(llvm.ConstantOp(value, value.type))
        case IntegerAttr():
            return constant(build, value.value.data, value_type(value.type))
        case _:
            raise PassFailedException(f"LLVM has no scalar constant {value}")


def computed(
    build: LlvmBuilder, op: Operation, args: Sequence[SSAValue], is_sum: bool
) -> SSAValue:
    """The result of `op` for `args`, with f32 in place of f16 and bf16."""
    if not args:
        raise PassFailedException(f"'{op.name}' has no lowering to LLVM's dialect")
    kind, type = op.__class__, args[0].type
    result = value_type(op.results[0].type)
    if (integer := INTEGER_OPS.get(kind)) is not None:
        return build.insert(integer(args[0], args[1]))
    if (name := INTEGER_INTRINSICS.get(kind)) is not None:
        return intrinsic(build, name, args, type)
    if (floating := FLOAT_OPS.get(kind)) is not None:
        flags = SUM if is_sum else None
        return build.insert(floating(args[0], args[1], flags))
    if (found := vector_function(build, op, args)) is not None:
        return found
    if (name := FLOAT_INTRINSICS.get(kind)) is not None:
        return intrinsic(build, name, args, type)
    match op:
        case RemFOp():
            return build.insert(llvm.FRemOp(args[0], args[1]))
        case arith.NegfOp():
            return build.insert(llvm.FNegOp(args[0], llvm.FastMathAttr(None)))
        case math.RsqrtOp():
            assert isinstance(type, AnyFloat)
            one = literal(build, FloatAttr(1.0, type))
            root = intrinsic(build, "llvm.sqrt", args, type)
            return build.insert(llvm.FDivOp(one, root))
        case arith.CmpiOp():
            comparison = IntegerAttr(op.predicate.value.data, i64)
            return build.insert(llvm.ICmpOp(args[0], args[1], comparison))
        case arith.CmpfOp():
            comparison = IntegerAttr(op.predicate.value.data, i64)
            return build.insert(llvm.FCmpOp(args[0], args[1], comparison))
        case arith.FloorDivSIOp():
            return divided(build, args[0], args[1], down=True)
        case arith.CeilDivSIOp():
            return divided(build, args[0], args[1], down=False)
        case arith.FPToSIOp():
            return to_integer(build, args[0], result, FITS in op.attributes)
        case arith.FPToUIOp():
            return intrinsic(build, "llvm.fptoui.sat", args, result, type)
        case arith.SIToFPOp():
            return to_float(build, args[0], result)
        case arith.UIToFPOp():
            if type == i64:
                return unsigned_to_float(build, args[0], result)
            return to_float(build, build.insert(llvm.ZExtOp(args[0], i64)), result)
        case arith.ExtSIOp():
            return build.insert(llvm.SExtOp(args[0], result))
        case arith.ExtUIOp():
            return build.insert(llvm.ZExtOp(args[0], result))
        case arith.TruncIOp():
            return build.insert(llvm.TruncOp(args[0], result))
        case arith.IndexCastOp():
            return as_width(build, args[0], result)
        case _:
            raise PassFailedException(f"'{op.name}' has no lowering to LLVM's dialect")


def as_width(build: LlvmBuilder, x: SSAValue, type: Attribute) -> SSAValue:
    """A signed integer in another width."""
    assert isa(x.type, AnyInteger) and isa(type, AnyInteger)
    old, new = x.type.width.data, type.width.data
    if old == new:
        return x
    return build.insert((llvm.SExtOp if old < new else llvm.TruncOp)(x, type))


def to_integer(
    build: LlvmBuilder, x: SSAValue, type: Attribute, fits: bool
) -> SSAValue:
    """
    A float as a signed integer: the nearest one towards 0, saturated; 0 for NaN.

    If it is known to fit, nothing is saturated.

    LLVM has an intrinsic for it. On x86 that branches for each element of a vector.
    """
    assert isa(type, AnyInteger) and isinstance(x.type, AnyFloat)
    width = type.width.data
    whole = intrinsic(build, "llvm.trunc", [x], x.type)
    # This rounds what is whole already, which all CPUs do with vectors. What does not
    # fit becomes any number, and is replaced.
    wide = i64 if width > 32 else i32
    result = as_width(
        build, intrinsic(build, "llvm.lrint", [whole], wide, x.type), type
    )
    if fits:
        return result
    bound = 2 ** (width - 1)
    limits: list[tuple[str, float, int]] = [
        ("oge", bound, bound - 1),
        ("ole", -bound, -bound),
        ("uno", 0.0, 0),
    ]
    for name, limit, number in limits:
        other = literal(build, FloatAttr(float(limit), x.type))
        is_outside = build.insert(llvm.FCmpOp(x, other, name))
        replaced = constant(build, number, type)
        result = build.insert(llvm.SelectOp(is_outside, replaced, result))
    return result


def to_float(build: LlvmBuilder, x: SSAValue, type: Attribute) -> SSAValue:
    """A signed integer as `type`, or as f32 if that is f16 or bf16."""
    wide = f32 if type in (f16, i16) else type
    return build.insert(llvm.SIToFPOp(x, wide))


def unsigned_to_float(build: LlvmBuilder, x: SSAValue, type: Attribute) -> SSAValue:
    """An unsigned 64-bit integer as `type`, or as f32 if that is f16 or bf16."""
    zero, one = (constant(build, number, i64) for number in (0, 1))
    # Half of it fits a signed integer; its lowest bit keeps what rounding needs.
    half = build.insert(llvm.LShrOp(x, one))
    half = build.insert(llvm.OrOp(half, build.insert(llvm.AndOp(x, one))))
    half = to_float(build, half, type)
    double = build.insert(llvm.FAddOp(half, half))
    negative = build.insert(llvm.ICmpOp(x, zero, predicate("slt")))
    return build.insert(llvm.SelectOp(negative, double, to_float(build, x, type)))


def divided(build: LlvmBuilder, a: SSAValue, b: SSAValue, *, down: bool) -> SSAValue:
    """`a / b`, rounded down or up; a computed divisor of 0 counts as 1."""
    if not isinstance(b.owner, llvm.ConstantOp):
        return divided_by_any(build, a, b, down)
    quotient = build.insert(llvm.SDivOp(a, b))
    return rounded_quotient(build, a, b, quotient, down)


def divided_by_any(
    build: LlvmBuilder, a: SSAValue, b: SSAValue, down: bool
) -> SSAValue:
    """`divided` for any divisor: for 0 and -1, the CPU's instruction may trap."""
    zero, one = (constant(build, number, b.type) for number in (0, 1))
    minus_one = constant(build, -1, b.type)
    is_zero = build.insert(llvm.ICmpOp(b, zero, predicate("eq")))
    is_minus_one = build.insert(llvm.ICmpOp(b, minus_one, predicate("eq")))
    traps = build.insert(llvm.OrOp(is_zero, is_minus_one))
    safe = build.insert(llvm.SelectOp(traps, one, b))
    quotient = build.insert(llvm.SDivOp(a, safe))
    quotient = rounded_quotient(build, a, safe, quotient, down)
    negated = build.insert(llvm.SubOp(zero, a))
    return build.insert(llvm.SelectOp(is_minus_one, negated, quotient))


def rounded_quotient(
    build: LlvmBuilder, a: SSAValue, b: SSAValue, quotient: SSAValue, down: bool
) -> SSAValue:
    """The quotient rounded down or up, given the truncated one."""
    rest = build.insert(llvm.SubOp(a, build.insert(llvm.MulOp(quotient, b))))
    zero = constant(build, 0, a.type)
    inexact = build.insert(llvm.ICmpOp(rest, zero, predicate("ne")))
    signs = build.insert(llvm.XOrOp(rest, b))
    negative = build.insert(
        llvm.ICmpOp(signs, zero, predicate("slt" if down else "sge"))
    )
    adjust = build.insert(
        llvm.ZExtOp(build.insert(llvm.AndOp(inexact, negative)), a.type)
    )
    step = llvm.SubOp if down else llvm.AddOp
    return build.insert(step(quotient, adjust))
