"""Arithmetic on sizes: integers, floats computed from them, and comparisons."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

import numpy as np
from xdsl.dialects.builtin import f32, i1, i32
from xdsl.ir import SSAValue

from padc.errors import Obstacle
from padc.ir.torch import NotConstantError, constant_value
from padc.passes.aten.size_tables import FLOATS, INTEGERS, MIXED
from padc.passes.torch_to_mil.aten.mil_call import MilCall, lowers
from padc.passes.torch_to_mil.aten.movement import (
    Size,
    product,
    reshape,
    size_of,
    sizes_of,
)
from padc.passes.torch_to_mil.aten.tensor import Tensor


def integer(call: MilCall, size: Size) -> Tensor:
    """A size as a tensor of rank 0."""
    if isinstance(size, Tensor):
        return size
    if not -(2**31) <= size < 2**31:
        raise Obstacle(f"the number {size}", "Core ML computes sizes as int32")
    return Tensor(call.build, call.build.constant(np.array(size, np.int32)), i32)


@lowers("aten.size.int")
def lower_size(call: MilCall) -> Tensor:
    x = call.tensor("self")
    return integer(call, size_of(x, call.dim("dim", x.rank)))


@lowers("aten.numel")
def lower_numel(call: MilCall) -> Tensor:
    return integer(call, product(sizes_of(call.tensor("self"))))


@lowers(*INTEGERS)
def lower_integers(call: MilCall) -> Tensor:
    a, b = (integer(call, call.as_size(x)) for x in call.op.operands)
    return INTEGERS[call.name](a, b)


@lowers("aten.neg.int")
def lower_neg(call: MilCall) -> Tensor:
    return -integer(call, call.size("a"))


@lowers("aten.Int.Tensor", "aten.item")
def lower_element(call: MilCall) -> Tensor:
    return reshape(call.tensor(call.op.schema.arguments[0].name), [])


def real(call: MilCall, value: SSAValue) -> Tensor:
    """A number as float32; PyTorch's symbolic floats have 64 bits."""
    try:
        number = constant_value(value)
    except NotConstantError:
        return call.scalar(value).to(f32)
    assert isinstance(number, int | float)
    return Tensor(call.build, np.float32(number), f32)


@lowers("aten.Float.Scalar")
def lower_float(call: MilCall) -> Tensor:
    return real(call, call.op.arg("a"))


@lowers(*FLOATS)
def lower_floats(call: MilCall) -> Tensor:
    a, b = (real(call, operand) for operand in call.op.operands)
    return FLOATS[call.name](a, b)


@lowers(*(f"aten.pow.{each}" for each in MIXED))
def lower_power(call: MilCall) -> Tensor:
    a, b = (real(call, operand) for operand in call.op.operands)
    return a.binary("pow", b)


@lowers("aten.Int.Scalar", "aten.Int.float", "aten.ceil.float", "aten.floor.float")
def lower_rounding(call: MilCall) -> NoReturn:
    raise Obstacle(
        "an integer that floats compute from more than one size, which PyTorch does in "
        "64 bits and Core ML in 32",
        "compute sizes by +, -, * and //",
    )


# --- comparisons ----------------------------------------------------------------------


def boolean(call: MilCall, value: SSAValue) -> Tensor:
    """A bool, known or computed."""
    try:
        return Tensor(call.build, np.bool_(constant_value(value)), i1)
    except NotConstantError:
        return call.scalar(value)


def comparison(name: str, compare: Callable[[Tensor, Tensor], Tensor]) -> None:
    @lowers(f"aten.{name}.int")
    def lower_int(call: MilCall) -> Tensor:  # pyright: ignore[reportUnusedFunction]
        a, b = (integer(call, call.as_size(x)) for x in call.op.operands)
        return compare(a, b)

    @lowers(*(f"aten.{name}.{each}" for each in MIXED))
    def lower_float(call: MilCall) -> Tensor:  # pyright: ignore[reportUnusedFunction]
        a, b = (real(call, operand) for operand in call.op.operands)
        return compare(a, b)


comparison("eq", lambda a, b: a.equals(b))
comparison("ge", lambda a, b: a >= b)
comparison("gt", lambda a, b: a > b)
comparison("le", lambda a, b: a <= b)
comparison("lt", lambda a, b: a < b)
comparison("ne", lambda a, b: a.differs(b))


@lowers("aten.__and__.bool")
def lower_and(call: MilCall) -> Tensor:
    a, b = (boolean(call, operand) for operand in call.op.operands)
    return a & b


@lowers("aten.__or__.bool")
def lower_or(call: MilCall) -> Tensor:
    a, b = (boolean(call, operand) for operand in call.op.operands)
    return a | b


@lowers("aten.__not__")
def lower_not(call: MilCall) -> Tensor:
    return ~boolean(call, call.op.arg("self"))


@lowers("aten.Bool.Tensor")
def lower_condition(call: MilCall) -> Tensor:
    return reshape(call.tensor("a").to(i1), [])


@lowers("aten.Bool.int")
def lower_nonzero_integer(call: MilCall) -> Tensor:
    return integer(call, call.size("a")).differs(0)


@lowers("aten.Bool.float")
def lower_nonzero_float(call: MilCall) -> Tensor:
    return real(call, call.op.arg("a")).differs(0)
