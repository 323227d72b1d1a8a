# pyright: basic
"""
Decompositions of fake quantization, which models that train for integers export.

They compute in float32 what PyTorch's kernels for the CPU do: the reciprocal of the
scale is rounded before it multiplies, ties go to the even integer, and NaN becomes the
lowest number. Infinities are clamped, as PyTorch does with one scale for all elements.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

MOST = 2**24
"""Integers up to here are floats of 32 bits."""

LIKE_PYTORCH = torch.float32, torch.float16, torch.bfloat16
"""PyTorch computes with these in float32, and with float64 in more than one type."""


class OtherNumbersError(ValueError):
    """PyTorch computes with numbers that these formulas do not have."""


def fake_quantize(
    x: Tensor, scale: Any, inverse: Any, zero_point: Any, low: int, high: int
) -> tuple[Tensor, Tensor]:
    """The result, and where the integer was in range."""
    if x.dtype not in LIKE_PYTORCH or max(-low, high) > MOST:
        raise OtherNumbersError
    integer = torch.round(x.float() * inverse) + zero_point
    clamped = torch.clamp(torch.where(integer == integer, integer, low), low, high)
    result = ((clamped - zero_point) * scale).to(x.dtype)
    return result, (integer >= low) & (integer <= high)


def per_tensor_cachemask(
    self: Tensor, scale: float, zero_point: int, quant_min: int, quant_max: int
) -> tuple[Tensor, Tensor]:
    single = np.float32(scale)
    numbers = float(single), float(np.float32(1) / single), zero_point
    return fake_quantize(self, *numbers, quant_min, quant_max)


def per_tensor(self: Tensor, *arguments: Any) -> Tensor:
    return per_tensor_cachemask(self, *arguments)[0]


def by_tensors(
    self: Tensor, scale: Tensor, zero_point: Tensor, quant_min: int, quant_max: int
) -> Tensor:
    numbers = as_numbers(scale, zero_point, [])
    return fake_quantize(self, *numbers, quant_min, quant_max)[0]


def by_tensors_cachemask(
    self: Tensor,
    scale: Tensor,
    zero_point: Tensor,
    fake_quant_enabled: Tensor,
    quant_min: int,
    quant_max: int,
) -> tuple[Tensor, Tensor]:
    numbers = as_numbers(scale, zero_point, [])
    result, mask = fake_quantize(self, *numbers, quant_min, quant_max)
    disabled = fake_quant_enabled.reshape(()) == 0
    return torch.where(disabled, self, result), disabled | mask


def per_channel_cachemask(
    self: Tensor,
    scale: Tensor,
    zero_point: Tensor,
    axis: int,
    quant_min: int,
    quant_max: int,
) -> tuple[Tensor, Tensor]:
    shape = [-1 if d == axis else 1 for d in range(self.dim())]
    numbers = as_numbers(scale, zero_point, shape)
    return fake_quantize(self, *numbers, quant_min, quant_max)


def per_channel(self: Tensor, *arguments: Any) -> Tensor:
    return per_channel_cachemask(self, *arguments)[0]


def as_numbers(
    scale: Tensor, zero_point: Tensor, shape: list[int]
) -> tuple[Tensor, Tensor, Tensor]:
    """The scales, their reciprocals and the zero points, as float32 of a shape."""
    if zero_point.is_floating_point():
        raise OtherNumbersError  # PyTorch adds them before it rounds.
    scale = scale.float().reshape(shape)
    return scale, 1 / scale, zero_point.float().reshape(shape)


TENSORS = "aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams"

RULES: Mapping[str, Callable[..., Any]] = {
    "aten.fake_quantize_per_tensor_affine": per_tensor,
    "aten.fake_quantize_per_tensor_affine.tensor_qparams": by_tensors,
    "aten.fake_quantize_per_tensor_affine_cachemask": per_tensor_cachemask,
    TENSORS: by_tensors_cachemask,
    "aten.fake_quantize_per_channel_affine": per_channel,
    "aten.fake_quantize_per_channel_affine_cachemask": per_channel_cachemask,
}
"""The decompositions by schema."""
