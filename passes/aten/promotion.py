"""PyTorch's type promotion."""

from __future__ import annotations

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float64Type,
    IntegerType,
    Signedness,
    f32,
    i1,
    i64,
)
from xdsl.ir import Attribute, SSAValue

from padc.errors import Obstacle
from padc.ir.element_types import is_float, is_unsigned, is_wide_unsigned, width
from padc.ir.torch import FloatType, IntType, VTensorType
from padc.passes.aten.aten_call import AtenCall


def promoted(call: AtenCall) -> Attribute:
    """
    The type that PyTorch promotes an op's operands to.

    Tensors of rank 0, and then numbers, count only if they are of a higher kind:
    booleans are below integers, integers below floats.
    """
    ranks: list[list[Attribute]] = [[], [], []]
    for argument in call.op.schema.arguments:
        operand = call.op.arg(argument.name)
        if isinstance(type := operand.type, VTensorType):
            ranks[0 if type.get_shape() else 1].append(type.element_type)
        elif argument.type == "Scalar":
            ranks[2].append(number_type(operand))
    result: Attribute | None = None
    for types in ranks:
        kind = None
        for type in types:
            kind = type if kind is None else joined(kind, type)
        if kind is not None and (result is None or level(kind) > level(result)):
            result = kind
    assert result is not None
    return result


def number_type(operand: SSAValue) -> Attribute:
    if isinstance(operand.type, IntType):
        return i64
    return f32 if isinstance(operand.type, FloatType) else i1


def level(type: Attribute) -> int:
    if is_float(type):
        return 2
    return 0 if type == i1 else 1


def joined(a: Attribute, b: Attribute) -> Attribute:
    """The smallest type to which PyTorch promotes both."""
    if level(a) != level(b):
        return a if level(a) > level(b) else b
    if is_float(a):
        sizes: dict[type[Attribute], int] = {
            BFloat16Type: 16,
            Float16Type: 16,
            type(f32): 32,
            Float64Type: 64,
        }
        if a != b and sizes[type(a)] == sizes[type(b)] == 16:
            return f32
        return a if sizes[type(a)] >= sizes[type(b)] else b
    if a != b and (is_wide_unsigned(a) or is_wide_unsigned(b)):
        raise Obstacle(f"{a} and {b}, which PyTorch does not promote")
    if is_unsigned(a) == is_unsigned(b):
        return a if width(a) >= width(b) else b
    signed, unsigned = (b, a) if is_unsigned(a) else (a, b)
    bits = max(width(signed), 2 * width(unsigned))
    return IntegerType(bits, Signedness.SIGNED)
