"""Gathers and scatters, by the docstrings of coremltools' mil/ops/defs: iOS15, iOS16
(`batch_dims`) and iOS17 scatter_gather.py.

Since iOS17 a negative index is out of bounds; before, it counts from the end. The
result for an index out of bounds is undefined, so such an index is refused.
"""

from math import prod
from typing import Literal

import torch
from torch import Tensor

from padc.backends.coreml.evaluator.ops.registry import (
    Int,
    Number,
    UnknownValueError,
    op,
)

Mode = Literal["update", "add", "sub", "mul", "div", "max", "min"]


def _wrap(indices: Tensor, size: int | Tensor) -> Tensor:
    """Indices that count from the end become non-negative."""
    return torch.where(indices < 0, indices + size, indices)


def _checked(indices: Tensor, size: int | Tensor) -> Tensor:
    if not ((indices >= 0) & (indices < size)).all():
        raise ValueError(f"an index is not in [0, {size})")
    return indices.to(torch.int64)


def _sizes(x: Tensor, indices: Tensor, batch_dims: int = 0) -> Tensor:
    """The sizes of the dimensions that the last axis of `indices` indexes."""
    return torch.tensor(x.shape[batch_dims : batch_dims + indices.shape[-1]])


def _gather(x: Tensor, indices: Tensor, axis: int, batch_dims: int) -> Tensor:
    axis %= x.dim()
    indices = _checked(indices, x.shape[axis])
    shape = x.shape
    batch = prod(shape[:batch_dims])
    x = x.reshape(batch, prod(shape[batch_dims:axis]), shape[axis], -1)
    rows = indices.reshape(batch, 1, -1, 1).expand(-1, x.shape[1], -1, x.shape[3])
    return torch.gather(x, 2, rows).reshape(
        shape[:axis] + indices.shape[batch_dims:] + shape[axis + 1 :]
    )


@op()
def gather(x: Tensor, indices: Int, axis: int = 0, batch_dims: int = 0) -> Tensor:
    return _gather(x, _wrap(indices, x.shape[axis]), axis, batch_dims)


@op("gather", since=7)
def gather_ios17(
    x: Tensor,
    indices: Int,
    axis: int = 0,
    batch_dims: int = 0,
    validate_indices: bool = False,
) -> Tensor:
    return _gather(x, indices, axis, batch_dims)


def _gather_along_axis(x: Tensor, indices: Tensor, axis: int) -> Tensor:
    return torch.gather(x, axis, _checked(indices, x.shape[axis]))


@op()
def gather_along_axis(x: Tensor, indices: Int, axis: int = 0) -> Tensor:
    return _gather_along_axis(x, _wrap(indices, x.shape[axis]), axis)


@op("gather_along_axis", since=7)
def gather_along_axis_ios17(
    x: Tensor, indices: Int, axis: int = 0, validate_indices: bool = False
) -> Tensor:
    return _gather_along_axis(x, indices, axis)


def _gather_nd(x: Tensor, indices: Tensor, batch_dims: int) -> Tensor:
    depth = indices.shape[-1]
    indices = _checked(indices, _sizes(x, indices, batch_dims))
    shape = indices.shape[:-1] + x.shape[batch_dims + depth :]
    batch = prod(x.shape[:batch_dims])
    indices = indices.reshape(batch, -1, depth)
    x = x.reshape(batch, *x.shape[batch_dims:])
    return x[torch.arange(batch)[:, None], *indices.unbind(-1)].reshape(shape)


@op()
def gather_nd(x: Tensor, indices: Int, batch_dims: int = 0) -> Tensor:
    return _gather_nd(x, _wrap(indices, _sizes(x, indices, batch_dims)), batch_dims)


@op("gather_nd", since=7)
def gather_nd_ios17(
    x: Tensor, indices: Int, batch_dims: int = 0, validate_indices: bool = False
) -> Tensor:
    return _gather_nd(x, indices, batch_dims)


def _scatter_along_axis(
    data: Tensor, indices: Tensor, updates: Tensor, axis: int, mode: Mode
) -> Tensor:
    indices = _checked(indices, data.shape[axis])
    match mode:
        case "update":
            return data.scatter(axis, indices, updates)
        case "add":
            return data.scatter_add(axis, indices, updates)
        case "sub":
            return data.scatter_add(axis, indices, -updates)
        case "mul":
            return data.scatter_reduce(axis, indices, updates, "prod")
        case "div":
            if not data.is_floating_point():
                raise UnknownValueError("mode 'div' of integers")
            factors = torch.ones_like(data)
            return data / factors.scatter_reduce(axis, indices, updates, "prod")
        case "max":
            return data.scatter_reduce(axis, indices, updates, "amax")
        case "min":
            return data.scatter_reduce(axis, indices, updates, "amin")


def _scatter(
    data: Tensor, indices: Tensor, updates: Tensor, axis: int, mode: Mode
) -> Tensor:
    # Documented for 1-D indices. For more dimensions, all of them replace the axis in
    # updates (tests/iOS14/test_scatter_gather.py, TestScatter).
    axis %= data.dim()
    updates = updates.flatten(axis, axis + indices.dim() - 1)
    shape = [1] * data.dim()
    shape[axis] = -1
    rows = indices.reshape(shape).expand_as(updates)
    return _scatter_along_axis(data, rows, updates, axis, mode)


@op()
def scatter(
    data: Number, indices: Int, updates: Number, mode: Mode, axis: int = 0
) -> Tensor:
    # The documentation names two defaults for mode, so it must be given.
    return _scatter(data, _wrap(indices, data.shape[axis]), updates, axis, mode)


@op("scatter", since=7)
def scatter_ios17(
    data: Number,
    indices: Int,
    updates: Number,
    mode: Mode,
    axis: int = 0,
    validate_indices: bool = False,
) -> Tensor:
    return _scatter(data, indices, updates, axis, mode)


@op()
def scatter_along_axis(
    data: Number, indices: Int, updates: Number, axis: int = 0, mode: Mode = "add"
) -> Tensor:
    wrapped = _wrap(indices, data.shape[axis])
    return _scatter_along_axis(data, wrapped, updates, axis, mode)


@op("scatter_along_axis", since=7)
def scatter_along_axis_ios17(
    data: Number,
    indices: Int,
    updates: Number,
    axis: int = 0,
    mode: Mode = "add",
    validate_indices: bool = False,
) -> Tensor:
    return _scatter_along_axis(data, indices, updates, axis, mode)


def _scatter_nd(data: Tensor, indices: Tensor, updates: Tensor, mode: Mode) -> Tensor:
    depth = indices.shape[-1]
    indices = _checked(indices, _sizes(data, indices)).reshape(-1, depth)
    steps = [prod(data.shape[axis + 1 : depth]) for axis in range(depth)]
    rows = (indices * torch.tensor(steps)).sum(-1)
    flat = data.reshape(prod(data.shape[:depth]), prod(data.shape[depth:]))
    updates = updates.reshape(len(rows), flat.shape[1])
    return _scatter(flat, rows, updates, 0, mode).reshape(data.shape)


@op()
def scatter_nd(
    data: Number, indices: Int, updates: Number, mode: Mode = "add"
) -> Tensor:
    return _scatter_nd(data, _wrap(indices, _sizes(data, indices)), updates, mode)


@op("scatter_nd", since=7)
def scatter_nd_ios17(
    data: Number,
    indices: Int,
    updates: Number,
    mode: Mode = "add",
    validate_indices: bool = False,
) -> Tensor:
    return _scatter_nd(data, indices, updates, mode)
