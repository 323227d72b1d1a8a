"""PyTorch's dtypes and tensors, as element types and weights of the IR, and back."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from xdsl.dialects.builtin import (
    BFloat16Type,
    ComplexType,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerType,
    Signedness,
    f16,
    f32,
    f64,
    i1,
)
from xdsl.ir import Attribute

from padc.ir.torch import is_any_tensor
from padc.ir.weights import Array

ELEMENT_TYPES: Mapping[torch.dtype, Attribute] = {
    torch.bool: i1,
    **{
        dtype: IntegerType(dtype.itemsize * 8, Signedness.UNSIGNED)
        for dtype in (torch.uint8, torch.uint16, torch.uint32, torch.uint64)
    },
    **{
        dtype: IntegerType(dtype.itemsize * 8, Signedness.SIGNED)
        for dtype in (torch.int8, torch.int16, torch.int32, torch.int64)
    },
    torch.float16: f16,
    torch.bfloat16: BFloat16Type(),
    torch.float32: f32,
    torch.float64: f64,
    torch.complex64: ComplexType(f32),
    torch.complex128: ComplexType(f64),
}


def torch_dtype(element_type: Attribute) -> torch.dtype:
    """
    The dtype for an element type; signless integers are signed, `i1` is bool.

    Raises ValueError if PyTorch has none.
    """
    match element_type:
        case BFloat16Type():
            return torch.bfloat16
        case Float16Type():
            return torch.float16
        case Float32Type():
            return torch.float32
        case Float64Type():
            return torch.float64
        case ComplexType(element_type=Float32Type()):
            return torch.complex64
        case ComplexType(element_type=Float64Type()):
            return torch.complex128
        case IntegerType():
            if element_type == i1:
                return torch.bool
            unsigned = element_type.signedness.data == Signedness.UNSIGNED
            name = f"{'u' * unsigned}int{element_type.width.data}"
            if (dtype := getattr(torch, name, None)) is not None:
                return dtype
        case _:
            pass
    raise ValueError(f"PyTorch has no dtype for {element_type}")


def dtype_name(type: Attribute) -> str | None:
    """PyTorch's name of a tensor's dtype; None for types that are not tensors."""
    if is_any_tensor(type):
        return str(torch_dtype(type.element_type)).removeprefix("torch.")
    return None


def weight_tensor(array: Array, element_type: Attribute) -> torch.Tensor:
    """A weight as a tensor, without a copy if its memory is writable."""
    if element_type == i1:
        # Any byte but 0 is true; PyTorch computes with true as 1.
        return torch.as_tensor(array.view(np.uint8) != 0)
    # numpy does not have bfloat16: its bits are held as 16-bit integers.
    tensor = torch.as_tensor(np.require(array, requirements=["W"]))
    return tensor.view(torch_dtype(element_type))


def weight_array(tensor: torch.Tensor) -> Array:
    """
    The data of a tensor as a weight, without a copy if it is contiguous.

    numpy does not have bfloat16: its bits are returned, as uint16.
    """
    tensor = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(np.uint16)
    return tensor.numpy()
