"""Properties of element types."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from xdsl.dialects.builtin import (
    AnyFloat,
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerType,
    Signedness,
    f32,
    i1,
)
from xdsl.ir import Attribute

from padc.ir.type_tests import is_integer

LARGEST_FINITE: Mapping[type[Attribute], float] = {
    BFloat16Type: (2 - 2**-7) * 2.0**127,
    Float16Type: 65504.0,
    Float32Type: (2 - 2**-23) * 2.0**127,
    Float64Type: (2 - 2**-52) * 2.0**1023,
}
"""The largest finite number of each float."""


def is_float(type: Attribute) -> bool:
    return isinstance(type, AnyFloat)


def is_half(type: Attribute) -> bool:
    """Whether the type is a float of 16 bits."""
    return isinstance(type, Float16Type | BFloat16Type)


def width(type: Attribute) -> int:
    """The number of bits of an integer type."""
    assert is_integer(type)
    return type.width.data


def is_unsigned(type: Attribute) -> bool:
    """Whether the type is an unsigned integer; `i1`, a boolean, counts as one."""
    return is_integer(type) and (
        type.width.data == 1 or type.signedness.data is Signedness.UNSIGNED
    )


def is_wide_unsigned(type: Attribute) -> bool:
    """Whether the type is uint16, uint32 or uint64: PyTorch only moves these."""
    return is_unsigned(type) and type not in (i1, IntegerType(8, Signedness.UNSIGNED))


def wide(type: Attribute) -> Attribute:
    """The type in which PyTorch computes with `type`: f32 for 16-bit floats."""
    return f32 if is_half(type) else type


def least_value(element_type: Attribute) -> float | int:
    """The least value of an element."""
    if is_integer(element_type):
        unsigned = element_type.signedness.data == Signedness.UNSIGNED
        return 0 if unsigned else -(2 ** (element_type.width.data - 1))
    return -math.inf


TORCH_NAMES = {"f": "float", "bf": "bfloat", "si": "int", "i": "int", "ui": "uint"}


def describe_element(element: Attribute) -> str:
    """An element type by PyTorch's name: `float32` for `f32`."""
    if element == i1:
        return "bool"
    text = str(element)
    if (number := re.fullmatch(r"complex<f(\d+)>", text)) is not None:
        return f"complex{2 * int(number[1])}"
    kind = text.rstrip("0123456789")
    return f"{TORCH_NAMES.get(kind, kind)}{text[len(kind) :]}"
