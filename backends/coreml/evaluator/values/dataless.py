# pyright: basic
"""
Arrays that have a shape and a dtype, but no data.

    x, y = Dataless((3, 1), np.float32), Dataless((4,), np.float32)
    (x + y).shape  # (3, 4)

A kernel runs on them as on any array, in no time. So the shapes that a program computes
can be checked without running it, and a value that would be too large can be refused
before there is memory for it. numpy's functions do not see the difference:
they ask the class of their arguments (`__array_ufunc__`, `__array_function__`). Views
(reshape, transpose, slices) are numpy's own, of memory with strides of 0.
"""

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from padc.backends.coreml.evaluator.values.limits import allowed

ZERO = bytes(16)
"""The element, of any dtype, that all arrays here point to."""


class NoDataError(Exception):
    """A result depends on values, which are not there."""


class Dataless(np.ndarray):
    """An array of which only shape and dtype are known."""

    def __new__(cls, shape: Sequence[int], dtype: npt.DTypeLike) -> "Dataless":
        """Raises ValueError if the bytes of such an array overflow."""
        shape = tuple(shape)
        if prod(max(size, 1) for size in shape) * np.dtype(dtype).itemsize >= 2**63:
            raise ValueError(f"an array of shape {list(shape)} is too large")
        return super().__new__(cls, shape, dtype, ZERO, strides=(0,) * len(shape))

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any
    ) -> Any:
        if method == "reduce":
            return _reduced(ufunc, inputs[0], **options)
        if method != "__call__":
            raise NoDataError(f"{ufunc.__name__}.{method}")
        ones = [np.ones(1, i.dtype) if isinstance(i, HAS_DTYPE) else i for i in inputs]
        shapes = [np.shape(each) for each in inputs]
        shape = _product(*shapes) if ufunc is np.matmul else broadcast(*shapes)
        return made(shape, ufunc(*ones).dtype)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if func in VIEWS:
            return super().__array_function__(func, types, args, kwargs)
        if (rule := RULES.get(func)) is None:
            raise NoDataError(func.__name__)
        return rule(*args, **kwargs)

    def __getitem__(self, key: Any) -> Any:
        keys = key if isinstance(key, tuple) else (key,)
        if any(isinstance(each, np.ndarray | list) for each in keys):
            raise NoDataError("indexing with an array")
        # With an ellipsis, one element is an array of rank 0, not a number.
        return super().__getitem__(keys if Ellipsis in keys else (*keys, Ellipsis))

    def __setitem__(self, key: Any, value: Any) -> None:
        """Nothing is kept."""

    def __iter__(self) -> Iterator["Dataless"]:
        return (self[i] for i in range(len(self)))

    def astype(self, dtype: npt.DTypeLike, *_: Any, **__: Any) -> "Dataless":
        return Dataless(self.shape, dtype)

    def copy(self, *_: Any, **__: Any) -> "Dataless":
        return self

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise NoDataError("its values are not known")

    item = tolist = tobytes = _refuse  # pyright: ignore[reportAssignmentType]
    __bool__ = __int__ = __float__ = _refuse
    __index__ = _refuse  # pyright: ignore[reportAssignmentType]


HAS_DTYPE = (np.ndarray, np.generic)


def without_data(value: Any) -> Any:
    """`value` with its arrays, also those in lists, replaced by dataless ones."""
    match value:
        case Dataless():
            return value
        case np.ndarray():
            return Dataless(value.shape, value.dtype)
        case list():
            return [without_data(item) for item in value]
        case _:
            return value


def is_dataless(*values: Any) -> bool:
    """Whether any of the arrays has no data."""
    return any(isinstance(value, Dataless) for value in values)


def made(shape: Sequence[int], dtype: npt.DTypeLike) -> Dataless:
    """The result of a computation; raises Obstacle if it exceeds the limits."""
    return Dataless(allowed(*shape), dtype)


def broadcast(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The shape of an elementwise result; ValueError if the shapes do not match."""
    rank = max(map(len, shapes))
    sizes: list[int] = []
    for column in zip(
        *((1,) * (rank - len(s)) + tuple(s) for s in shapes), strict=True
    ):
        size = next((size for size in column if size != 1), 1)
        if any(other not in (1, size) for other in column):
            raise ValueError(f"shapes {list(map(list, shapes))} do not broadcast")
        sizes.append(size)
    return tuple(sizes)


def _product(x: Sequence[int], y: Sequence[int]) -> tuple[int, ...]:
    """The shape of a matrix product."""
    if not x or not y:
        raise ValueError("a factor of a matrix product has rank 0")
    rows, columns = x[-2:-1], y[-1:] if len(y) > 1 else ()
    if x[-1] != y[-2 if len(y) > 1 else 0]:
        raise ValueError(f"no matrix product of shapes {list(x)} and {list(y)}")
    return (*broadcast(x[:-2], y[:-2]), *rows, *columns)


def _axes(axis: Any, rank: int) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(rank))
    return np.lib.array_utils.normalize_axis_tuple(axis, rank)


def _without(shape: Sequence[int], axes: Sequence[int], keepdims: bool) -> list[int]:
    kept = enumerate(shape)
    if keepdims:
        return [1 if axis in axes else size for axis, size in kept]
    return [size for axis, size in kept if axis not in axes]


def _reduced(
    ufunc: np.ufunc,
    x: Any,
    axis: Any = 0,
    dtype: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    **_: Any,
) -> Dataless:
    axes = _axes(axis, x.ndim)
    has_identity = ufunc.identity is not None or initial not in (None, np._NoValue)
    if not has_identity and any(x.shape[axis] == 0 for axis in axes):
        raise ValueError(f"{ufunc.__name__} of no elements")
    dtype = ufunc.reduce(np.ones(1, x.dtype), dtype=dtype).dtype
    return made(_without(x.shape, axes, keepdims), dtype)


# --- rules: numpy's functions that are not views --------------------------------------


def _same(x: Any, *_: Any, dtype: Any = None, **__: Any) -> Dataless:
    return made(x.shape, dtype or x.dtype)


def _indices(x: Any, *_: Any, **__: Any) -> Dataless:
    return made(x.shape, np.intp)


def _index(x: Any, axis: int, *, keepdims: bool = False) -> Dataless:
    axes = _axes(axis, x.ndim)
    if x.shape[axes[0]] == 0:
        raise ValueError("the largest of no elements")
    return made(_without(x.shape, axes, keepdims), np.intp)


def _concatenate(arrays: Sequence[Any], axis: int = 0, **_: Any) -> Dataless:
    first, *rest = arrays
    (axis,) = _axes(axis, first.ndim)
    sizes = _without(first.shape, (axis,), True)
    for other in rest:
        if other.ndim != first.ndim or _without(other.shape, (axis,), True) != sizes:
            raise ValueError(f"{list(other.shape)} next to {list(first.shape)}")
    sizes[axis] = sum(array.shape[axis] for array in arrays)
    return made(sizes, np.result_type(*(array.dtype for array in arrays)))


def _where(condition: Any, a: Any, b: Any) -> Dataless:
    ones = [np.ones(1, v.dtype) if isinstance(v, HAS_DTYPE) else v for v in (a, b)]
    shape = broadcast(*map(np.shape, (condition, a, b)))
    return made(shape, np.where(True, *ones).dtype)


def _take(x: Any, indices: Any, axis: int | None = None, **_: Any) -> Dataless:
    if axis is None:
        x, axis = x.reshape(-1), 0
    (axis,) = _axes(axis, x.ndim)
    return made(x.shape[:axis] + np.shape(indices) + x.shape[axis + 1 :], x.dtype)


def _take_along_axis(x: Any, indices: Any, axis: int) -> Dataless:
    if x.ndim != indices.ndim:
        raise ValueError(f"indices of rank {indices.ndim} for rank {x.ndim}")
    others = [_without(each.shape, _axes(axis, x.ndim), True) for each in (x, indices)]
    sizes = list(broadcast(*others))
    sizes[axis] = indices.shape[axis]
    return made(sizes, x.dtype)


def _tile(x: Any, reps: Sequence[int]) -> Dataless:
    return made([size * n for size, n in zip(x.shape, reps, strict=True)], x.dtype)


def _repeat(x: Any, repeats: int, axis: int) -> Dataless:
    sizes = list(x.shape)
    sizes[axis] *= repeats
    return made(sizes, x.dtype)


def _broadcast_to(x: Any, shape: Sequence[int]) -> Dataless:
    if broadcast(x.shape, shape) != tuple(shape):
        raise ValueError(f"{list(x.shape)} does not broadcast to {list(shape)}")
    return made(shape, x.dtype)


def _windows(x: Any, size: int, axis: int) -> Dataless:
    sizes = list(x.shape)
    if not 0 <= size <= sizes[axis]:
        raise ValueError(f"windows of {size} elements of {sizes[axis]}")
    sizes[axis] += 1 - size
    return made((*sizes, size), x.dtype)


VIEWS = {
    *(np.all, np.any, np.clip, np.expand_dims, np.flip, np.max, np.min, np.moveaxis),
    *(np.array_split, np.prod, np.split, np.squeeze, np.stack, np.sum, np.swapaxes),
    *(np.ndim, np.shape, np.transpose),
}
"""Functions whose own code calls methods, ufuncs and rules only."""

RULES: dict[Any, Callable[..., Dataless]] = {
    np.argmax: _index,
    np.argmin: _index,
    np.argsort: _indices,
    np.broadcast_to: _broadcast_to,
    np.concatenate: _concatenate,
    np.cumsum: _same,
    np.full_like: _same,
    np.lib.stride_tricks.sliding_window_view: _windows,
    np.ones_like: _same,
    np.repeat: _repeat,
    np.take: _take,
    np.take_along_axis: _take_along_axis,
    np.tile: _tile,
    np.where: _where,
    np.zeros_like: _same,
}
