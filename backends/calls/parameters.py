"""One parameter of a function: which values fit it, and why others do not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, strided

from padc.errors import UsageError

Kind: TypeAlias = Literal["input", "weight", "result", "arena"]


@dataclass(frozen=True)
class Parameter:
    """A parameter of a function; weights and the arena are those of machine code."""

    kind: Kind
    dtype: str | None
    """PyTorch's name of the dtype; None for integers, weights and the arena."""
    shape: tuple[int, ...]
    """The sizes in elements; negative where a size is dynamic."""
    weight: str | None = None
    """The name of the weight, for parameters of that kind."""
    split: tuple[int, ...] | None = None
    """The sizes to which a packed weight is reshaped; None if it is not packed."""
    order: tuple[int, ...] | None = None
    """The order of these dimensions in memory."""
    narrow: str | None = None
    """The dtype of a weight that is converted to float32; None if it is not."""
    tile: int | None = None
    """The size of Winograd's tiles, for which packed 3x3 kernels are transformed."""

    @cached_property
    def torch_dtype(self) -> torch.dtype | None:
        """The dtype itself; None where `dtype` is None."""
        return None if self.dtype is None else getattr(torch, self.dtype)

    @cached_property
    def bytes(self) -> int:
        """The size of the elements in bytes; all sizes have to be static."""
        assert self.torch_dtype is not None
        return math.prod(self.shape) * self.torch_dtype.itemsize

    @cached_property
    def dynamic(self) -> Sequence[int]:
        """The dimensions whose sizes are dynamic."""
        return [dim for dim, size in enumerate(self.shape) if size < 0]

    def fits(self, value: Any) -> bool:
        """Whether `value` has this type, is strided, and is in the CPU's memory."""
        return self.has_type(value) and value.is_cpu and value.layout is torch.strided

    def has_type(self, value: Any) -> bool:
        """Whether `value` is a tensor of the dtype and the static sizes."""
        if not isinstance(value, torch.Tensor) or value.dtype is not self.torch_dtype:
            return False
        try:
            shape = value.shape
        except RuntimeError:  # Nested tensors have no shape.
            return False
        if not self.dynamic:
            return shape == self.shape
        return len(shape) == len(self.shape) and all(
            static < 0 or static == size
            for size, static in zip(shape, self.shape, strict=True)
        )


def direct_addresses(
    values: Sequence[Any], types: Sequence[tuple[torch.dtype | None, tuple[int, ...]]]
) -> list[int] | None:
    """
    The addresses of tensors that machine code can use as they are.

    They have to be of these dtypes and shapes; there may be more of these than tensors.
    None if some are not, have another layout, or no memory. This is one loop, since
    calls of Python's functions take long.
    """
    found: list[int] = []
    try:
        for value, (dtype, shape) in zip(values, types, strict=False):
            if (
                not isinstance(value, Tensor)
                or value.dtype is not dtype
                or value.shape != shape
                or not value.is_contiguous()
                or not value.is_cpu
                or value.is_neg()
                or value.layout is not strided
            ):
                return None
            found.append(value.data_ptr())
    except RuntimeError:  # Nested and sparse tensors, and inside `torch.vmap`.
        return None
    return None if 0 in found else found


def misfit(what: str, parameter: Parameter, value: Any) -> UsageError:
    """The error for a `value`, called `what`, that `parameter.fits` refuses."""
    if isinstance(value, torch.Tensor) and value.is_nested:
        return UsageError(
            f"{what} is a nested tensor", hint="call the model once for each tensor"
        )
    if not parameter.has_type(value):
        sizes = ["?" if size < 0 else str(size) for size in parameter.shape]
        got = (
            f"{value.dtype} of shape {list(value.shape)}"
            if isinstance(value, torch.Tensor)
            else type(value).__name__
        )
        expected = f"torch.{parameter.dtype} of shape [{', '.join(sizes)}]"
        return UsageError(f"{what} has to be {expected}, got {got}")
    if not value.is_cpu:
        return UsageError(f"{what} is on {value.device}", hint="call .cpu() on it")
    return UsageError(f"{what} is {value.layout}", hint="call .to_dense() on it")


def data_pointer(tensor: torch.Tensor) -> int:
    """The address of the first element; 0 if the tensor has no storage."""
    try:
        return tensor.data_ptr()
    except RuntimeError:  # Inside `torch.vmap`, and for sparse tensors.
        return 0


def required_pointer(tensor: torch.Tensor) -> int:
    """`data_pointer`; UsageError if the tensor has elements but no storage."""
    address = data_pointer(tensor)
    if not address and tensor.numel():
        raise UsageError("a tensor without data", hint="give one that holds numbers")
    return address
