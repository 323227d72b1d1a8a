"""Reading and joining parts of Tensors: the building blocks of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseIntOrFPElementsAttr,
    f16,
    i1,
    i32,
)
from xdsl.ir import SSAValue

from padc.errors import Obstacle
from padc.ir import mil_types
from padc.passes.torch_to_mil.aten.movement import Size, split, squeeze, vector
from padc.passes.torch_to_mil.aten.tensor import INT32, Tensor, computed_type, number


def array(x: Tensor) -> npt.NDArray[Any] | None:
    """The elements of a constant that is stored in the IR; otherwise None."""
    if not isinstance(x.value, SSAValue):
        return np.asarray(x.value)
    if not isinstance(owner := x.value.owner, ConstantOp):
        return None
    if not isinstance(owner.value, DenseIntOrFPElementsAttr):
        return None
    value = mil_types.constant_of(owner.value)
    assert isinstance(value, np.ndarray)
    return value


def empty(x: Tensor, shape: Sequence[int]) -> Tensor:
    """
    A constant without elements, of the type of `x`.

    Core ML has no empty tensors: whatever reads it must leave it out.
    """
    dtype = number(0, computed_type(x.type)).dtype
    return x.like(x.build.constant(np.empty(shape, dtype)))


def part(
    x: Tensor, dim: int, start: Size, stop: Size | None, step: int, count: int
) -> Tensor:
    """
    `x[start:stop:step]` along `dim`, which has `count` elements.

    Positions below 0 count from the end, and bounds outside are moved inside, as in
    Python.
    """
    size = x.shape[dim]
    start, stop = inner_bounds(x, dim, start, stop)
    if (start, stop, step) == (0, None, 1) or (step == 1 and 0 <= size == count):
        return x
    shape = list(x.shape)
    shape[dim] = count
    if count == 0:
        return empty(x, shape)
    inputs = slice_inputs(x, dim, start, stop, step)
    return x.emit("slice_by_index", shape, x=x, **inputs)


def inner_bounds(
    x: Tensor, dim: int, start: Size, stop: Size | None
) -> tuple[Size, Size | None]:
    """Known bounds of a slice along `dim`, moved inside; None for the end."""
    size = x.shape[dim]
    if isinstance(start, int):
        start = max(start, -size if size != DYNAMIC_INDEX else INT32.min)
    if isinstance(stop, int) and stop >= (size if size != DYNAMIC_INDEX else INT32.max):
        stop = None
    return start, stop


def slice_inputs(
    x: Tensor, dim: int, start: Size, stop: Size | None, step: int
) -> Mapping[str, Any]:
    """The inputs of Core ML's slices that say which part along `dim`."""
    others = [d != dim for d in range(x.rank)]
    return {
        "begin": along(x, dim, start),
        "end": along(x, dim, 0 if stop is None else stop),
        "stride": None if step == 1 else [1 if other else step for other in others],
        "begin_mask": others,
        "end_mask": [other or stop is None for other in others],
    }


def along(x: Tensor, dim: int, position: Size) -> Tensor | list[int]:
    """A position along `dim`; 0 along other dimensions."""
    return vector(x.build, [position if d == dim else 0 for d in range(x.rank)])


def element(x: Tensor, dim: int, index: Size) -> Tensor:
    """`x[index]` along `dim`, without that dimension."""
    size = x.shape[dim]
    if isinstance(index, int) and size != DYNAMIC_INDEX:
        index %= size
    if x.rank == 1 and isinstance(index, int) and x.type in (f16, i1):
        # pymil cannot compute a number from a constant of these types.
        stop = None if index == -1 else index + 1
        return squeeze(part(x, 0, index, stop, 1, 1), [0])
    shape = [size for d, size in enumerate(x.shape) if d != dim]
    others = [d != dim for d in range(x.rank)]
    return x.emit(
        "slice_by_index",
        shape,
        x=x,
        begin=along(x, dim, index),
        end=[0] * x.rank,
        begin_mask=others,
        end_mask=[True] * x.rank,
        squeeze_mask=[not other for other in others],
    )


def cut(x: Tensor, dim: int, sizes: Sequence[int]) -> list[Tensor]:
    """The parts of `x` of known `sizes`, one after the other along `dim`."""
    shapes = [[*x.shape[:dim], size, *x.shape[dim + 1 :]] for size in sizes]
    if len(kept := [size for size in sizes if size]) < 2:
        return [x if size else empty(x, shape) for size, shape in zip(sizes, shapes)]
    results = iter(split(x, kept, dim))
    return [
        next(results) if size else empty(x, shape)
        for size, shape in zip(sizes, shapes, strict=True)
    ]


def stack(parts: Sequence[Tensor], dim: int) -> Tensor:
    """The parts along a new dimension `dim`."""
    shape = list(parts[0].shape)
    for other in parts[1:]:
        shape = [b if a == DYNAMIC_INDEX else a for a, b in zip(shape, other.shape)]
    shape.insert(dim, len(parts))
    return parts[0].emit("stack", shape, values=list(parts), axis=dim)


MOST_NUMBERS = 2**27
"""The most of a constant, if no weight is half as large: 512 MiB of float32."""


def check_count(count: int) -> None:
    """Raise Obstacle for a constant of too many numbers."""
    if count > MOST_NUMBERS:
        raise Obstacle(
            f"a constant of {count} numbers, more than {MOST_NUMBERS}",
            "let it be an input of the model, or compute it from one",
        )


def steps(
    x: Tensor, start: Size, stop: Size, step: Size = 1, count: int = DYNAMIC_INDEX
) -> Tensor:
    """The numbers from `start` to `stop`, as int32."""
    known = [bound for bound in (start, stop, step) if isinstance(bound, int)]
    if len(known) == 3:
        check_count(len(range(*known)))
        numbers = np.arange(*known, dtype=np.int32)
        return Tensor(x.build, x.build.constant(numbers), i32)
    return x.emit("range_1d", [count], i32, start=start, end=stop, step=step)
