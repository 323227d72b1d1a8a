"""Reductions, by the docstrings of coremltools' mil/ops/defs/iOS15/reduction.py and
iOS17/reduction.py (`output_dtype`). argmax and argmin may return the position of any of
several equal elements.

Reductions with fractional results (means, norms, logarithms) take floats only: their
rounding to integers is not documented.
"""

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from padc.backends.coreml.evaluator.ops.registry import (
    Float,
    Number,
    UnknownValueError,
    op,
)

Reduction = Callable[[Tensor, list[int], bool], Tensor]


def _axes(x: Tensor, axes: list[int] | None) -> list[int]:
    if axes == []:
        raise UnknownValueError("an empty list of axes")
    return list(range(x.dim())) if axes is None else axes


def _of_numbers(name: str, reduce: Reduction) -> None:
    @op(name)
    def kernel(  # pyright: ignore[reportUnusedFunction]
        x: Number, axes: list[int] | None = None, keep_dims: bool = False
    ) -> Tensor:
        return reduce(x, _axes(x, axes), keep_dims)


def _of_floats(name: str, reduce: Reduction) -> None:
    @op(name)
    def kernel(  # pyright: ignore[reportUnusedFunction]
        x: Float, axes: list[int] | None = None, keep_dims: bool = False
    ) -> Tensor:
        return reduce(x, _axes(x, axes), keep_dims)


def _prod(x: Tensor, axes: list[int], keep_dims: bool) -> Tensor:
    for axis in sorted((axis % x.dim() for axis in axes), reverse=True):
        x = x.prod(axis, keepdim=keep_dims)
    return x


_of_numbers("reduce_l1_norm", lambda x, axes, keep: x.abs().sum(axes, keep))
_of_numbers("reduce_max", torch.amax)
_of_numbers("reduce_min", torch.amin)
_of_numbers("reduce_prod", _prod)
_of_numbers("reduce_sum", torch.sum)
_of_numbers("reduce_sum_square", lambda x, axes, keep: (x * x).sum(axes, keep))
_of_floats("reduce_l2_norm", lambda x, axes, keep: (x * x).sum(axes, keep).sqrt())
_of_floats("reduce_log_sum", lambda x, axes, keep: x.sum(axes, keep).log())
_of_floats("reduce_log_sum_exp", torch.logsumexp)
_of_floats("reduce_mean", torch.mean)

IndexType = Literal["int32", "uint16"]


@op()
def reduce_argmax(
    x: Number,
    axis: int = -1,
    keep_dims: bool = False,
    output_dtype: IndexType = "int32",
) -> Tensor:
    return x.argmax(axis, keep_dims)


@op()
def reduce_argmin(
    x: Number,
    axis: int = -1,
    keep_dims: bool = False,
    output_dtype: IndexType = "int32",
) -> Tensor:
    return x.argmin(axis, keep_dims)
