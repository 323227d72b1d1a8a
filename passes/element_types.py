"""What the elements of a tensor are, and what is computed with them."""

from __future__ import annotations

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    IntegerType,
    Signedness,
    f32,
)
from xdsl.ir import Attribute
from xdsl.utils.hints import isa


def is_half(type: Attribute) -> bool:
    """Whether elements are floats of two bytes."""
    return isinstance(type, Float16Type | BFloat16Type)


def is_unsigned(type: Attribute) -> bool:
    """Whether integers of a signed type have no sign; booleans have none."""
    return isa(type, IntegerType[int, Signedness]) and (
        type.width.data == 1 or type.signedness.data is Signedness.UNSIGNED
    )


def wide(type: Attribute) -> Attribute:
    """What PyTorch computes in where elements are of `type`: f32 for halves."""
    return f32 if is_half(type) else type
