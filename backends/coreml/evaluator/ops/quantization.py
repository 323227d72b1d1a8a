"""Quantization at run time, by the docstrings of coremltools' mil/ops/defs/iOS17/
quantization_ops.py. A half rounds to even, as in the op `round`."""

from typing import Literal

import numpy as np
import torch
from torch import Tensor

from padc.backends.coreml.evaluator.ops.registry import (
    Float,
    Int,
    Number,
    UnknownValueError,
    op,
)


def along(values: Number, rank: int, axis: int | None) -> Tensor:
    """A scalar, or a vector that lies along dimension `axis` of `rank`."""
    if values.dim() == 0:
        return values
    if axis is None:
        raise UnknownValueError("a vector of scales or zero points without axis")
    shape = [1] * rank
    shape[axis] = -1
    return values.reshape(shape)


@op(since=7)
def quantize(
    input: Float,
    scale: Float,
    output_dtype: Literal["int8", "uint8"],
    zero_point: Int | None = None,
    axis: int | None = None,
) -> Tensor:
    limits = np.iinfo(output_dtype)
    y = torch.round(input / along(scale, input.dim(), axis))
    if zero_point is not None:
        y = y + along(zero_point, input.dim(), axis)
    return y.clamp(limits.min, limits.max).to(torch.int32)


@op(since=7)
def dequantize(
    input: Int, scale: Float, zero_point: Int | None = None, axis: int | None = None
) -> Tensor:
    y = input if zero_point is None else input - along(zero_point, input.dim(), axis)
    return along(scale, input.dim(), axis) * y
