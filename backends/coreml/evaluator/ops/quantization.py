"""Quantization at run time, by the docstrings of coremltools' mil/ops/defs/iOS17/
quantization_ops.py. A half rounds to even, as in the op `round`."""

from typing import Literal

import numpy as np

from padc.backends.coreml.evaluator.ops.registry import (
    Float,
    Int,
    Number,
    UnknownValueError,
    op,
)
from padc.backends.coreml.evaluator.values.types import Array


def along(values: Number, rank: int, axis: int | None) -> Array:
    """A scalar, or a vector that lies along dimension `axis` of `rank`."""
    if values.ndim == 0:
        return values
    if axis is None:
        raise UnknownValueError("a vector of scales or zero points without axis")
    shape = [1] * rank
    shape[axis] = -1
    return values.reshape(shape)


def scaled(
    data: Number, scale: Float, zero_point: Number | None, axis: int | None
) -> Array:
    """`scale * (data - zero_point)`."""
    if zero_point is not None:
        data = data - along(zero_point, data.ndim, axis)
    return along(scale, data.ndim, axis) * data.astype(scale.dtype)


@op(since=7)
def quantize(
    input: Float,
    scale: Float,
    output_dtype: Literal["int8", "uint8"],
    zero_point: Int | None = None,
    axis: int | None = None,
) -> Array:
    limits = np.iinfo(output_dtype)
    y = np.rint(input / along(scale, input.ndim, axis))
    if zero_point is not None:
        y = y + along(zero_point, input.ndim, axis).astype(y.dtype)
    return np.clip(y, limits.min, limits.max).astype(np.int32)


@op(since=7)
def dequantize(
    input: Int, scale: Float, zero_point: Int | None = None, axis: int | None = None
) -> Array:
    return scaled(input, scale, zero_point, axis)
