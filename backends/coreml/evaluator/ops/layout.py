"""Parts of arrays, and dimensions that become one."""

from math import prod

import numpy as np

from padc.backends.coreml.evaluator.values.limits import allowed
from padc.backends.coreml.evaluator.values.types import Array


def counted(count: int) -> Array:
    """0, 1, ..., count - 1; ValueError if `count` is negative."""
    if count < 0:
        raise ValueError(f"a size of {count}")
    return np.arange(*allowed(count))


def merged(x: Array, axis: int) -> Array:
    """`x` with the dimensions `axis` and `axis + 1` as one."""
    return merged_range(x, axis, axis + 2)


def merged_range(x: Array, first: int, end: int) -> Array:
    """`x` with the dimensions from `first` up to `end` as one."""
    return x.reshape((*x.shape[:first], prod(x.shape[first:end]), *x.shape[end:]))


def narrow(x: Array, axis: int, start: int, length: int) -> Array:
    """`length` elements along an axis; ValueError if `x` does not have them."""
    if not 0 <= start <= start + length <= x.shape[axis]:
        raise ValueError(f"elements {start} to {start + length} of {x.shape[axis]}")
    axis %= x.ndim
    return x[(slice(None),) * axis + (slice(start, start + length),)]


def sorted_order(x: Array, axis: int, descending: bool) -> Array:
    """The positions of the elements in order; equal ones stay in theirs. NaN is last,
    or first if the order is descending."""
    if not descending:
        return np.argsort(x, axis, "stable")
    order = np.argsort(np.flip(x, axis), axis, "stable")
    return x.shape[axis] - 1 - np.flip(order, axis)
