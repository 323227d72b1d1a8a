"""Tensor types in messages, by PyTorch's names."""

from __future__ import annotations

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import Attribute

from padc.ir.element_types import describe_element
from padc.ir.torch import is_any_tensor


def element_type(type_: Attribute) -> Attribute:
    """The element type of a tensor, torch's or builtin; other types unchanged."""
    return type_.element_type if is_any_tensor(type_) else type_


def shape_of(type_: Attribute) -> tuple[int, ...] | None:
    """The sizes of a tensor, torch's or builtin; None for other values."""
    return tuple(type_.get_shape()) if is_any_tensor(type_) else None


def describe_type(type_: Attribute) -> str:
    """`float32[1,3,?]` for a tensor, the type itself for other values."""
    if (shape := shape_of(type_)) is None:
        return str(type_)
    sizes = ",".join("?" if size == DYNAMIC_INDEX else str(size) for size in shape)
    return f"{describe_element(element_type(type_))}[{sizes}]"
