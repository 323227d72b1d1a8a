"""Element types of the IR as PyTorch dtypes, and weights as tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from xdsl.dialects.builtin import (
    BFloat16Type,
    ComplexType,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerType,
    Signedness,
    i1,
)
from xdsl.ir import Attribute
from xdsl.utils.hints import isa

from padc.ir.tcp import AnyTensor
from padc.ir.torch import VTensorType


def torch_dtype(element_type: Attribute) -> torch.dtype:
    """The dtype for an element type; signless integers are signed, `i1` is bool."""
    match element_type:
        case BFloat16Type():
            return torch.bfloat16
        case Float16Type():
            return torch.float16
        case Float32Type():
            return torch.float32
        case Float64Type():
            return torch.float64
        case ComplexType():
            wide = torch_dtype(element_type.element_type) == torch.float64
            return torch.complex128 if wide else torch.complex64
        case IntegerType():
            if element_type == i1:
                return torch.bool
            unsigned = element_type.signedness.data == Signedness.UNSIGNED
            return getattr(torch, f"{'u' * unsigned}int{element_type.width.data}")
        case _:
            raise ValueError(f"PyTorch has no dtype for {element_type}")


def dtype_name(type: Attribute) -> str | None:
    """PyTorch's name of a tensor's dtype; None for types that are not tensors."""
    if isinstance(type, VTensorType) or isa(type, AnyTensor):
        return str(torch_dtype(type.element_type)).removeprefix("torch.")
    return None


def weight_tensor(array: npt.NDArray[Any], element_type: Attribute) -> torch.Tensor:
    """A weight as a tensor, without a copy if its memory is writable."""
    if element_type == i1:
        # Any byte but 0 is true; PyTorch computes with true as 1.
        return torch.as_tensor(array.view(np.uint8) != 0)
    # numpy does not have bfloat16: its bits are held as 16-bit integers.
    tensor = torch.as_tensor(np.require(array, requirements=["W"]))
    return tensor.view(torch_dtype(element_type))
