"""Gathers and scatters, by the docstrings of coremltools' mil/ops/defs: iOS15, iOS16
(`batch_dims`) and iOS17 scatter_gather.py.

Since iOS17 a negative index is out of bounds; before, it counts from the end. The
result for an index out of bounds is undefined, so such an index is refused.
"""

from collections.abc import Sequence
from math import prod
from typing import Literal

import numpy as np

from padc.backends.coreml.evaluator.ops.layout import merged_range
from padc.backends.coreml.evaluator.ops.registry import (
    Int,
    Number,
    UnknownValueError,
    op,
)
from padc.backends.coreml.evaluator.values import kernels
from padc.backends.coreml.evaluator.values.dataless import is_dataless
from padc.backends.coreml.evaluator.values.types import Array

Mode = Literal["update", "add", "sub", "mul", "div", "max", "min"]


def _wrap(indices: Array, size: int | Array) -> Array:
    """Indices that count from the end become non-negative."""
    return np.where(indices < 0, indices + size, indices)


def _checked(indices: Array, size: int | Array) -> Array:
    if not is_dataless(indices) and not np.all((indices >= 0) & (indices < size)):
        raise ValueError(f"an index is not in [0, {size})")
    return indices.astype(np.int64)


def _sizes(x: Array, indices: Array, batch_dims: int = 0) -> Array:
    """The sizes of the dimensions that the last axis of `indices` indexes."""
    return np.array(x.shape[batch_dims : batch_dims + indices.shape[-1]])


def _gather(x: Array, indices: Array, axis: int, batch_dims: int) -> Array:
    axis %= x.ndim
    indices = _checked(indices, x.shape[axis])
    shape, sizes = x.shape, indices.shape[batch_dims:]
    batch, before, after = (
        prod(shape[first:end])
        for first, end in ((0, batch_dims), (batch_dims, axis), (axis + 1, None))
    )
    x = x.reshape(batch, before, shape[axis], after)
    rows = indices.reshape(batch, 1, prod(sizes), 1)
    if batch == 1:
        y = np.take(x, rows.reshape(-1), 2)
    else:
        rows = np.broadcast_to(rows, (batch, before, prod(sizes), after))
        y = kernels.gather_along_axis(x, rows, 2)
    return y.reshape(shape[:axis] + sizes + shape[axis + 1 :])


@op()
def gather(x: Array, indices: Int, axis: int = 0, batch_dims: int = 0) -> Array:
    return _gather(x, _wrap(indices, x.shape[axis]), axis, batch_dims)


@op("gather", since=7)
def gather_ios17(
    x: Array,
    indices: Int,
    axis: int = 0,
    batch_dims: int = 0,
    validate_indices: bool = False,
) -> Array:
    return _gather(x, indices, axis, batch_dims)


def _gather_along_axis(x: Array, indices: Array, axis: int) -> Array:
    others = [list(each.shape) for each in (x, indices)]
    for sizes in others:
        sizes[axis] = 0
    if others[0] != others[1]:
        raise ValueError(f"indices {list(indices.shape)} of x {list(x.shape)}")
    return kernels.gather_along_axis(x, _checked(indices, x.shape[axis]), axis)


@op()
def gather_along_axis(x: Array, indices: Int, axis: int = 0) -> Array:
    return _gather_along_axis(x, _wrap(indices, x.shape[axis]), axis)


@op("gather_along_axis", since=7)
def gather_along_axis_ios17(
    x: Array, indices: Int, axis: int = 0, validate_indices: bool = False
) -> Array:
    return _gather_along_axis(x, indices, axis)


def _gather_nd(x: Array, indices: Array, batch_dims: int) -> Array:
    depth = indices.shape[-1]
    indices = _checked(indices, _sizes(x, indices, batch_dims))
    shape = indices.shape[:-1] + x.shape[batch_dims + depth :]
    batch = prod(x.shape[:batch_dims])
    sizes = x.shape[batch_dims : batch_dims + depth]
    count = prod(indices.shape[batch_dims:-1])
    rows = _rows(indices.reshape(batch, count, depth), sizes)
    rows = rows + np.arange(batch)[:, None] * prod(sizes)
    flat = x.reshape(batch * prod(sizes), prod(x.shape[batch_dims + depth :]))
    return np.take(flat, rows, 0).reshape(shape)


def _rows(indices: Array, sizes: Sequence[int]) -> Array:
    """The positions of elements whose indices along each dimension are given."""
    if indices.shape[-1] != len(sizes):
        raise ValueError(f"{indices.shape[-1]} indices for {len(sizes)} dimensions")
    strides = [prod(sizes[axis + 1 :]) for axis in range(len(sizes))]
    return np.sum(indices * np.array(strides, np.int64), -1)


@op()
def gather_nd(x: Array, indices: Int, batch_dims: int = 0) -> Array:
    return _gather_nd(x, _wrap(indices, _sizes(x, indices, batch_dims)), batch_dims)


@op("gather_nd", since=7)
def gather_nd_ios17(
    x: Array, indices: Int, batch_dims: int = 0, validate_indices: bool = False
) -> Array:
    return _gather_nd(x, indices, batch_dims)


def _scatter_along_axis(
    data: Array, indices: Array, updates: Array, axis: int, mode: Mode
) -> Array:
    indices = _checked(indices, data.shape[axis])
    if updates.dtype != data.dtype or updates.shape != indices.shape:
        raise ValueError(f"updates {list(updates.shape)} at {list(indices.shape)}")
    match mode:
        case "sub":
            return kernels.scatter_along_axis(data, indices, -updates, axis, "add")
        case "div":
            if data.dtype.kind != "f":
                raise UnknownValueError("mode 'div' of integers")
            factors = np.ones_like(data)
            return data / kernels.scatter_along_axis(
                factors, indices, updates, axis, "mul"
            )
        case _:
            return kernels.scatter_along_axis(data, indices, updates, axis, mode)


def _scatter(
    data: Array, indices: Array, updates: Array, axis: int, mode: Mode
) -> Array:
    # Documented for 1-D indices. For more dimensions, all of them replace the axis in
    # updates (tests/iOS14/test_scatter_gather.py, TestScatter).
    axis %= data.ndim
    if not indices.ndim:
        raise ValueError("indices of rank 0")
    updates = merged_range(updates, axis, axis + indices.ndim)
    shape = [1] * data.ndim
    shape[axis] = -1
    rows = np.broadcast_to(indices.reshape(shape), updates.shape)
    return _scatter_along_axis(data, rows, updates, axis, mode)


@op()
def scatter(
    data: Number, indices: Int, updates: Number, mode: Mode, axis: int = 0
) -> Array:
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
) -> Array:
    return _scatter(data, indices, updates, axis, mode)


@op()
def scatter_along_axis(
    data: Number, indices: Int, updates: Number, axis: int = 0, mode: Mode = "add"
) -> Array:
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
) -> Array:
    return _scatter_along_axis(data, indices, updates, axis, mode)


def _scatter_nd(data: Array, indices: Array, updates: Array, mode: Mode) -> Array:
    depth = indices.shape[-1]
    indices = _checked(indices, _sizes(data, indices))
    indices = indices.reshape(prod(indices.shape[:-1]), depth)
    rows = _rows(indices, data.shape[:depth])
    flat = data.reshape(prod(data.shape[:depth]), prod(data.shape[depth:]))
    updates = updates.reshape(len(rows), flat.shape[1])
    return _scatter(flat, rows, updates, 0, mode).reshape(data.shape)


@op()
def scatter_nd(
    data: Number, indices: Int, updates: Number, mode: Mode = "add"
) -> Array:
    return _scatter_nd(data, _wrap(indices, _sizes(data, indices)), updates, mode)


@op("scatter_nd", since=7)
def scatter_nd_ios17(
    data: Number,
    indices: Int,
    updates: Number,
    mode: Mode = "add",
    validate_indices: bool = False,
) -> Array:
    return _scatter_nd(data, indices, updates, mode)
