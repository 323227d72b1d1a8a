"""What the elements of a tensor are, and what is computed with them."""

from __future__ import annotations

import math

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    IntegerType,
    Signedness,
    f32,
    i1,
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


def is_wide_unsigned(type: Attribute) -> bool:
    """Whether it is of 16 to 64 bits without a sign: PyTorch moves these, no more."""
    return is_unsigned(type) and type not in (i1, IntegerType(8, Signedness.UNSIGNED))


def wide(type: Attribute) -> Attribute:
    """What PyTorch computes in where elements are of `type`: f32 for halves."""
    return f32 if is_half(type) else type


def least_value(element_type: Attribute) -> float | int:
    """What no element is less than."""
    if isa(element_type, IntegerType[int, Signedness]):
        unsigned = element_type.signedness.data == Signedness.UNSIGNED
        return 0 if unsigned else -(2 ** (element_type.width.data - 1))
    return -math.inf
