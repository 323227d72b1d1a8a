# pyright: basic
"""
Decompositions of the ops that stand around quantized numbers in exported programs.

They compute what the functions of torch/ao/quantization/fx/_decomposed.py do. PyTorch
has these only as kernels, in a library that a program's author has to load.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor


def quantize_per_tensor(
    input: Tensor, scale: Any, zero_point: Any, low: int, high: int, dtype: torch.dtype
) -> Tensor:
    scaled = torch.round(input.float() * (1.0 / scale))
    return torch.clamp(scaled + zero_point, low, high).to(dtype)


def dequantize_per_tensor(
    input: Tensor,
    scale: Any,
    zero_point: Any,
    low: int,
    high: int,
    dtype: torch.dtype,
    *,
    out_dtype: torch.dtype | None = None,
) -> Tensor:
    return (input.to(out_dtype or torch.float32) - zero_point) * scale


def quantize_by_tensors(
    input: Tensor,
    scale: Tensor,
    zero_point: Tensor,
    low: int,
    high: int,
    dtype: torch.dtype,
) -> Tensor:
    return quantize_per_tensor(
        input, number(scale), number(zero_point), low, high, dtype
    )


def dequantize_by_tensors(
    input: Tensor,
    scale: Tensor,
    zero_point: Tensor,
    low: int,
    high: int,
    dtype: torch.dtype,
    *,
    out_dtype: torch.dtype | None = None,
) -> Tensor:
    numbers = number(scale), number(zero_point)
    result = dequantize_per_tensor(
        input, *numbers, low, high, dtype, out_dtype=out_dtype
    )
    return result.to(out_dtype or torch.float32)


def number(x: Tensor) -> Tensor:
    """A tensor of one element, reshaped to rank 0, so that it promotes no other."""
    return x.reshape(())


def quantize_per_channel(
    input: Tensor,
    scales: Tensor,
    zero_points: Tensor,
    axis: int,
    low: int,
    high: int,
    dtype: torch.dtype,
) -> Tensor:
    scales, zero_points = (along(x, axis, input) for x in (scales, zero_points))
    return quantize_per_tensor(input, scales, zero_points, low, high, dtype)


def dequantize_per_channel(
    input: Tensor,
    scales: Tensor,
    zero_points: Tensor | None,
    axis: int,
    low: int,
    high: int,
    dtype: torch.dtype,
    *,
    out_dtype: torch.dtype | None = None,
) -> Tensor:
    # In the integers' own type if that is the zero points': it wraps around.
    x = input if zero_points is None else input - along(zero_points, axis, input)
    return (x * along(scales, axis, input)).to(out_dtype or torch.float32)


def along(x: Tensor, axis: int, other: Tensor) -> Tensor:
    """A vector as a tensor of the rank of `other`."""
    rank = other.dim()
    return x.view([-1 if dim == axis % rank else 1 for dim in range(rank)])


RULES: Mapping[str, Callable[..., Tensor]] = {
    "quantized_decomposed.quantize_per_tensor": quantize_per_tensor,
    "quantized_decomposed.quantize_per_tensor.tensor": quantize_by_tensors,
    "quantized_decomposed.dequantize_per_tensor": dequantize_per_tensor,
    "quantized_decomposed.dequantize_per_tensor.tensor": dequantize_by_tensors,
    "quantized_decomposed.quantize_per_channel": quantize_per_channel,
    "quantized_decomposed.dequantize_per_channel": dequantize_per_channel,
}
"""The decompositions by schema: the ops exist where their library is loaded."""
