# pyright: basic
"""
Decompositions of ops on the strides of a tensor, which no level of padc has.

The strides are those of the exported program's tensors: elements are read from a vector
in the order of the memory, at positions that the wanted strides give.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch._ops import OpOverload

from padc.frontends.torch_export.nodes import schema_name
from padc.ir.arithmetic import Condition, Whole, clamp

aten = torch.ops.aten


class UnknownOrderError(ValueError):
    """A tensor is a part of another, or strides reach beyond it, or overlap."""


def memory_order(x: Tensor) -> list[int]:
    """The dimensions of `x` by falling strides, if it fills the memory from 0 on."""
    order = sorted(range(x.dim()), key=lambda d: (-x.stride(d), -x.shape[d]))
    if x.storage_offset() or not x.permute(order).is_contiguous():
        raise UnknownOrderError
    return order


def positions(
    x: Tensor, size: Sequence[int], stride: Sequence[int], offset: int | None
) -> Tensor:
    """Where each element of a strided view is in memory."""
    if not all(isinstance(n, int) for n in (*size, *stride, *x.shape)):
        raise UnknownOrderError
    offset = offset or 0
    if math.prod(size) and last_place(size, stride, offset) >= x.numel():
        raise UnknownOrderError
    indices = torch.meshgrid(*map(torch.arange, size), indexing="ij") if size else ()
    start = torch.full(tuple(size), offset, dtype=torch.int64)
    return place_of(indices, stride, start).reshape(-1)


def place_of(indices: Sequence[Any], stride: Sequence[int], offset: Any) -> Any:
    """Where the element of a strided view with these indices is in memory."""
    return offset + sum(i * step for i, step in zip(indices, stride, strict=True))


def last_place(size: Sequence[int], stride: Sequence[int], offset: Any) -> Any:
    """The largest place of a strided view that has elements."""
    return place_of([n - 1 for n in size], stride, offset)


def is_start(size: Sequence[int], stride: Sequence[int], offset: int | None) -> bool:
    """Whether a view has the first elements of its memory, contiguous."""
    return not offset and all(are_packed(size, stride))


def are_packed(size: Sequence[int], stride: Sequence[int]) -> list[bool]:
    """Whether the step of each dimension is that of a contiguous tensor, or no step."""
    steps = zip(size, stride, packed_strides(size), strict=True)
    return [(n == 1) | (own == step) for n, own, step in steps]


def packed_strides(size: Sequence[int]) -> list[int]:
    """The strides of a contiguous tensor."""
    inner = itertools.accumulate(reversed(size[1:]), operator.mul, initial=1)
    return [*inner][: len(size)][::-1]


def as_strided(
    self: Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None = None,
) -> Tensor:
    flat = self.permute(memory_order(self)).reshape(-1)
    places = positions(self, size, stride, storage_offset)
    if is_start(size, stride, storage_offset):
        return flat[: math.prod(size)].reshape(size)
    return flat.index_select(0, places).reshape(size)


def as_strided_scatter(
    self: Tensor,
    src: Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None = None,
) -> Tensor:
    order = memory_order(self)
    ordered = self.permute(order)
    flat, values = ordered.reshape(-1), src.to(self.dtype).reshape(-1)
    places = positions(self, size, stride, storage_offset)
    if is_nested(size, stride):
        # Unlike index_put, these ops have machine code.
        is_inside, numbers = elements_at(self.numel(), size, stride, storage_offset)
        flat = flat.where(~is_inside, values.index_select(0, numbers))
    elif overlaps(size, stride):
        # What was written to one of two elements at a place is not known here.
        raise UnknownOrderError
    else:
        flat = flat.index_put([places], values)
    back = [order.index(d) for d in range(self.dim())]
    return flat.reshape(ordered.shape).permute(back)


def is_nested(size: Sequence[int], stride: Sequence[int]) -> bool:
    """Whether a view has elements, and each step is larger than all steps inside."""
    steps = sorted(zip(stride, size, strict=True))
    spans = itertools.accumulate((step * (n - 1) for step, n in steps), initial=0)
    return 0 not in size and all(
        n == 1 or step > span for (step, n), span in zip(steps, spans, strict=False)
    )


def overlaps(size: Sequence[int], stride: Sequence[int]) -> bool:
    """Whether a view has several elements at a place."""
    places = np.zeros(1, np.int64)
    for n, step in zip(size, stride, strict=True):
        places = np.add.outer(places, np.arange(n) * step).ravel()
    return len(np.unique(places)) < len(places)


def elements_at(
    count: int, size: Sequence[int], stride: Sequence[int], offset: int | None
) -> tuple[Tensor, Tensor]:
    """
    For each of `count` places in memory, whether a nested view has an element there.

    Also the row-major number of that element, or any number.
    """
    places = torch.arange(count) - (offset or 0)
    is_inside, indices = element_at(places, size, stride)
    number, steps = torch.zeros(count, dtype=torch.int64), packed_strides(size)
    for d, index in indices.items():
        number = number + index * steps[d]
    return is_inside, number


def element_at(
    place: Whole, size: Sequence[Whole], stride: Sequence[Whole]
) -> tuple[Condition, Mapping[int, Whole]]:
    """
    Whether a nested view has an element at a place, counted from its first one.

    Also its indices, or any, except of dimensions of size 1.
    """
    rest, indices = place, dict[int, Whole]()
    for d in outermost_first(size, stride):
        indices[d] = clamp(rest // stride[d], 0, size[d] - 1)
        rest = rest - indices[d] * stride[d]
    return (place >= 0) & (rest == 0), indices


def outermost_first(size: Sequence[int], stride: Sequence[int]) -> list[int]:
    """The dimensions of several elements by falling strides."""
    several = [d for d, n in enumerate(size) if n != 1]
    return sorted(several, key=lambda d: -stride[d])


def resize(self: Tensor, size: Sequence[int], **options: Any) -> Tensor:
    """
    The first elements in memory; those beyond are not defined.

    PyTorch leaves a tensor that already has the size as it is, in any order of memory.
    """
    if list(size) == list(self.shape):
        return self.clone()
    if math.prod(size) > self.numel():
        raise UnknownOrderError
    flat = self.permute(memory_order(self)).reshape(-1)
    return flat[: math.prod(size)].reshape(size)


def resize_as(self: Tensor, the_template: Tensor, **options: Any) -> Tensor:
    return resize(self, the_template.shape)


RULES: Mapping[OpOverload, Callable[..., Any]] = {
    aten.as_strided.default: as_strided,
    aten.as_strided_copy.default: as_strided,
    aten.as_strided_scatter.default: as_strided_scatter,
    aten.resize.default: resize,
    aten.resize_as.default: resize_as,
}
"""By the op."""

ON_STRIDES = frozenset(map(schema_name, RULES))
"""The names of the ops that depend on the strides of their first operand."""

WRITES = frozenset(("aten.fill_diagonal_",))
"""Ops in place that have no other form: PyTorch writes to a strided view instead."""
