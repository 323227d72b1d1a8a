"""Reductions, by the docstrings of coremltools' mil/ops/defs/iOS15/reduction.py and
iOS17/reduction.py (`output_dtype`). argmax and argmin may return the position of any of
several equal elements.

Reductions with fractional results (means, norms, logarithms) take floats only: their
rounding to integers is not documented.
"""

from collections.abc import Callable
from math import prod
from typing import Literal

import numpy as np

from padc.backends.coreml.evaluator.ops.registry import (
    Float,
    Number,
    UnknownValueError,
    op,
)
from padc.backends.coreml.evaluator.values import kernels
from padc.backends.coreml.evaluator.values.types import Array

Reduction = Callable[[Array, list[int], bool], Array]


def _axes(x: Array, axes: list[int] | None) -> list[int]:
    if axes == []:
        raise UnknownValueError("an empty list of axes")
    return list(range(x.ndim)) if axes is None else axes


def _of_numbers(name: str, reduce: Reduction) -> None:
    @op(name)
    def kernel(  # pyright: ignore[reportUnusedFunction]
        x: Number, axes: list[int] | None = None, keep_dims: bool = False
    ) -> Array:
        return reduce(x, _axes(x, axes), keep_dims)


def _of_floats(name: str, reduce: Reduction) -> None:
    @op(name)
    def kernel(  # pyright: ignore[reportUnusedFunction]
        x: Float, axes: list[int] | None = None, keep_dims: bool = False
    ) -> Array:
        return reduce(x, _axes(x, axes), keep_dims)


def _mean(x: Array, axes: list[int], keep_dims: bool) -> Array:
    count = np.float32(prod(x.shape[axis] for axis in axes))
    return kernels.total(x, axes, keep_dims) / count


def _log_sum_exp(x: Array, axes: list[int], keep_dims: bool) -> Array:
    # Subtracting the largest element keeps e^x finite.
    largest = np.max(x, tuple(axes), keepdims=True, initial=-np.inf)
    shift = np.where(np.isfinite(largest), largest, np.float32(0))
    y = np.log(kernels.total(np.exp(x - shift), axes, True)) + shift
    return y if keep_dims else np.squeeze(y, tuple(axes))


def _prod(x: Array, axes: list[int], keep_dims: bool) -> Array:
    return np.prod(x, tuple(axes), keepdims=keep_dims)


_of_numbers(
    "reduce_l1_norm", lambda x, axes, keep: kernels.total(np.abs(x), axes, keep)
)
_of_numbers("reduce_max", lambda x, axes, keep: np.max(x, tuple(axes), keepdims=keep))
_of_numbers("reduce_min", lambda x, axes, keep: np.min(x, tuple(axes), keepdims=keep))
_of_numbers("reduce_prod", _prod)
_of_numbers("reduce_sum", kernels.total)
_of_numbers("reduce_sum_square", lambda x, axes, keep: kernels.total(x * x, axes, keep))
_of_floats(
    "reduce_l2_norm", lambda x, axes, keep: np.sqrt(kernels.total(x * x, axes, keep))
)
_of_floats("reduce_log_sum", lambda x, axes, keep: np.log(kernels.total(x, axes, keep)))
_of_floats("reduce_log_sum_exp", _log_sum_exp)
_of_floats("reduce_mean", _mean)

IndexType = Literal["int32", "uint16"]


@op()
def reduce_argmax(
    x: Number,
    axis: int = -1,
    keep_dims: bool = False,
    output_dtype: IndexType = "int32",
) -> Array:
    return np.argmax(x, axis, keepdims=keep_dims)


@op()
def reduce_argmin(
    x: Number,
    axis: int = -1,
    keep_dims: bool = False,
    output_dtype: IndexType = "int32",
) -> Array:
    return np.argmin(x, axis, keepdims=keep_dims)
