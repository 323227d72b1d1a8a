"""Pools, by the docstrings of coremltools' mil/ops/defs/iOS15/pool.py.

The elements that ceil_mode needs beyond the padding count as padding: they are in
the average's denominator unless padding is excluded from it. `same` is read as in
conv.py; the documentation gives pools no formula that works for strides.
"""

from math import prod

import numpy as np

from padc.backends.coreml.evaluator.ops.conv import PadType, spatial_padding
from padc.backends.coreml.evaluator.ops.registry import Float, UnknownValueError, op
from padc.backends.coreml.evaluator.values import kernels
from padc.backends.coreml.evaluator.values.types import Array


def _padding(
    x: Array,
    kernel: list[int],
    strides: list[int],
    pad_type: PadType,
    pad: list[int] | None,
    ceil_mode: bool,
) -> list[tuple[int, int]]:
    """The padding for which a VALID pool has the documented output size."""
    sizes = list(x.shape[2:])
    padding = spatial_padding(pad_type, pad, sizes, kernel, strides)
    if not ceil_mode or pad_type in ("same", "same_lower"):
        return padding
    if any(before != after for before, after in padding):
        raise UnknownValueError(f"ceil_mode with the asymmetric padding {pad}")
    padded: list[tuple[int, int]] = []
    for size, extent, stride, (before, after) in zip(
        sizes, kernel, strides, padding, strict=True
    ):
        count = -(-(size + before + after - extent) // stride) + 1
        if (count - 1) * stride >= size + before:
            if before + after == 0:
                raise UnknownValueError("ceil_mode with a window outside of x")
            count -= 1
        end = (count - 1) * stride + extent
        padded.append((before, max(after, end - size - before)))
    return padded


@op()
def max_pool(
    x: Float,
    kernel_sizes: list[int],
    pad_type: PadType,
    strides: list[int] | None = None,
    pad: list[int] | None = None,
    ceil_mode: bool = False,
) -> Array:
    strides = strides or [1] * len(kernel_sizes)
    padding = _padding(x, kernel_sizes, strides, pad_type, pad, ceil_mode)
    padded = kernels.pad(x, padding, -np.inf)
    return kernels.max_pool(padded, kernel_sizes, strides)


@op()
def avg_pool(
    x: Float,
    kernel_sizes: list[int],
    pad_type: PadType,
    strides: list[int] | None = None,
    pad: list[int] | None = None,
    ceil_mode: bool = False,
    exclude_padding_from_average: bool = False,
) -> Array:
    strides = strides or [1] * len(kernel_sizes)
    padding = _padding(x, kernel_sizes, strides, pad_type, pad, ceil_mode)
    average = kernels.average_pool(kernels.pad(x, padding, 0.0), kernel_sizes, strides)
    if not exclude_padding_from_average:
        return average
    ones = kernels.pad(np.ones_like(x[:1, :1]), padding, 0.0)
    return average / kernels.average_pool(ones, kernel_sizes, strides)


@op()
def l2_pool(
    x: Float,
    kernel_sizes: list[int],
    pad_type: PadType,
    strides: list[int] | None = None,
    pad: list[int] | None = None,
    ceil_mode: bool = False,
) -> Array:
    """The square root of the sum of squares in each window."""
    strides = strides or [1] * len(kernel_sizes)
    padding = _padding(x, kernel_sizes, strides, pad_type, pad, ceil_mode)
    padded = kernels.pad(x * x, padding, 0.0)
    mean = kernels.average_pool(padded, kernel_sizes, strides)
    return np.sqrt(mean * prod(kernel_sizes))
