# pyright: reportUnknownMemberType=false
"""
Whether the ATen ops of a program declare the results that PyTorch gives them.

A program that was exported does; one that was written as MLIR text may not. PyTorch
computes each op on tensors without data. Ops with sizes known only at run time, and
those that PyTorch cannot compute so, are not judged.
"""

from __future__ import annotations

from typing import Any

import torch
from xdsl.dialects.builtin import DYNAMIC_INDEX, ModuleOp
from xdsl.ir import SSAValue

from padc.errors import InvalidProgramError, SourceLocation
from padc.ir.torch import (
    AtenOp,
    ConstantDeviceOp,
    ListConstructOp,
    NotConstantError,
    VTensorType,
    constant_value,
)
from padc.ir.torch.describe import describe_type
from padc.ir.torch.tensors import ELEMENT_TYPES, torch_dtype
from padc.passes.aten.eager_evaluation import call

__all__ = ["check_declared_types"]


def check_declared_types(module: ModuleOp) -> None:
    """
    Compare the types of the results of ATen ops with those that PyTorch gives them.

    Args:
        module: A verified module at the torch level; ops of other levels are skipped.

    Raises:
        InvalidProgramError: A result has another dtype, rank or size.
    """
    for op in module.walk():
        if isinstance(op, AtenOp) and op.results:
            check_op(op)


def check_op(op: AtenOp) -> None:
    try:
        made = call(op, [without_data(operand) for operand in op.operands])
    # AttributeError: PyTorch does not have the op, or not here.
    except (
        AttributeError,
        NotConstantError,
        RuntimeError,
        ValueError,
        TypeError,
        LookupError,
    ):
        return
    for result, tensor in zip(op.results, made, strict=False):
        if isinstance(tensor, torch.Tensor) and not fits(result, tensor):
            actual = VTensorType.get(ELEMENT_TYPES[tensor.dtype], tensor.shape)
            raise InvalidProgramError(
                f"{op.schema.name} declares {describe_type(result.type)}, and PyTorch "
                f"gives it {describe_type(actual)}",
                hint="correct the type of the result",
                location=SourceLocation.of(op.location),
            )


def without_data(value: SSAValue) -> Any:
    """A tensor on no device, or a constant; NotConstantError if `value` is neither."""
    if isinstance(type := value.type, VTensorType):
        if DYNAMIC_INDEX in (shape := type.get_shape()):
            raise NotConstantError("a dynamic size")
        return torch.empty(shape, dtype=torch_dtype(type.element_type), device="meta")
    if isinstance(value.owner, ListConstructOp):
        return [without_data(element) for element in value.owner.elements]
    if isinstance(value.owner, ConstantDeviceOp):
        return torch.device("meta")
    return constant_value(value)


def fits(value: SSAValue, tensor: torch.Tensor) -> bool:
    """Whether a value is declared with the type of `tensor`, where that is known."""
    type = value.type
    if not isinstance(type, VTensorType) or tensor.dtype not in ELEMENT_TYPES:
        return True
    shape = type.get_shape()
    return (
        type.element_type == ELEMENT_TYPES[tensor.dtype]
        and len(shape) == tensor.dim()
        and all(
            declared in (DYNAMIC_INDEX, size)
            for declared, size in zip(shape, tensor.shape, strict=True)
        )
    )
