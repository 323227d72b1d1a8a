"""Tensor types in messages, by PyTorch's names."""

from __future__ import annotations

from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType
from xdsl.ir import Attribute
from xdsl.utils.hints import isa

from padc.ir.mil import describe_element
from padc.ir.torch import VTensorType


def element_type(type_: Attribute) -> Attribute:
    """The element type of a tensor, torch's or builtin; other types unchanged."""
    if isinstance(type_, VTensorType):
        return type_.element_type
    return type_.element_type if isa(type_, TensorType[Attribute]) else type_


def shape_of(type_: Attribute) -> tuple[int, ...] | None:
    """The sizes of a tensor, torch's or builtin; None for other values."""
    if isinstance(type_, VTensorType | TensorType):
        return tuple(type_.get_shape())
    return None


def describe_type(type_: Attribute) -> str:
    """`float32[1,3,?]` for a tensor, the type itself for other values."""
    if (shape := shape_of(type_)) is None:
        return str(type_)
    sizes = ",".join("?" if size == DYNAMIC_INDEX else str(size) for size in shape)
    return f"{describe_element(element_type(type_))}[{sizes}]"
