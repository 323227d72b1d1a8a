"""Moving the elements of Tensors: the building blocks of rows, with dynamic sizes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType, i32
from xdsl.ir import Operation

from padc.errors import Obstacle
from padc.passes.common.broadcast import broadcast
from padc.passes.common.mil_builder import MilBuilder
from padc.passes.torch_to_mil.aten.tensor import Tensor, as_input, computed_type

Size: TypeAlias = "int | Tensor"
"""A size or position: known, or an int32 tensor of rank 0."""


def size_of(x: Tensor, dim: int) -> Size:
    """A size of `x`."""
    if (size := x.shape[dim]) != DYNAMIC_INDEX:
        return size
    shape = x.emit("shape", [x.rank], i32, x=x)
    return shape.emit("gather", [], x=shape, indices=np.int32(dim), axis=0)


def sizes_of(x: Tensor) -> list[Size]:
    return [size_of(x, dim) for dim in range(x.rank)]


def product(sizes: Sequence[Size]) -> Size:
    """The number of elements of a tensor of these sizes."""
    known, rest = 1, None
    for size in sizes:
        if isinstance(size, int):
            known *= size
        else:
            rest = size if rest is None else rest * size
    if rest is None:
        return known
    return rest if known == 1 else rest * known


def static(sizes: Sequence[Size]) -> list[int]:
    """The sizes as in a type: `DYNAMIC_INDEX` for those that vary."""
    return [size if isinstance(size, int) else DYNAMIC_INDEX for size in sizes]


def vector(build: MilBuilder, sizes: Sequence[Size]) -> Tensor | list[int]:
    """Sizes as a list if all are known, otherwise as a vector of int32."""
    known = [size for size in sizes if isinstance(size, int)]
    if len(known) == len(sizes):
        return known
    parts = [
        Tensor(build, build.constant(np.array([size], np.int32)), i32)
        if isinstance(size, int)
        else size.emit("expand_dims", [1], x=size, axes=[0])
        for size in sizes
    ]
    return parts[0] if len(parts) == 1 else concat(parts, 0)


def reshape(x: Tensor, sizes: Sequence[Size]) -> Tensor:
    """`x` with other sizes, in row-major order; one size may be -1."""
    shape = [DYNAMIC_INDEX if size < 0 else size for size in static(sizes)]
    if shape.count(DYNAMIC_INDEX) == 1 and DYNAMIC_INDEX not in x.shape:
        rest = math.prod(size for size in shape if size != DYNAMIC_INDEX)
        shape[shape.index(DYNAMIC_INDEX)] = math.prod(x.shape) // rest
    dynamic = [dim for dim, size in enumerate(shape) if size == DYNAMIC_INDEX]
    if shape == list(x.shape) and len(dynamic) < 2:
        return x
    if not shape:
        # pymil can only take the number out of a constant vector.
        return squeeze(reshape(x, [1]) if x.rank > 1 else x, [0])
    if not x.rank:
        return expand_dims(x, range(len(shape)))
    if len(dynamic) < 2:
        wanted = [-1 if size == DYNAMIC_INDEX else size for size in shape]
        return x.emit("reshape", shape, x=x, shape=wanted)
    return x.emit("reshape", shape, x=x, shape=vector(x.build, without_one(sizes)))


def without_one(sizes: Sequence[Size]) -> list[Size]:
    """`sizes`, with -1 in place of one that has to be computed."""
    if any(isinstance(size, int) and size < 0 for size in sizes):
        return list(sizes)
    computed = [dim for dim, size in enumerate(sizes) if isinstance(size, Tensor)]
    # A size that is not read from a tensor's shape takes more ops.
    costly = [dim for dim in computed if not is_size(sizes[dim])]
    left = (costly or computed)[-1]
    return [-1 if dim == left else size for dim, size in enumerate(sizes)]


def is_size(x: Size) -> bool:
    """Whether a number is read from the shape of a tensor."""
    owner = x.ssa.owner if isinstance(x, Tensor) else None
    return isinstance(owner, Operation) and owner.name == "mil.gather"


def transpose(x: Tensor, perm: Sequence[int]) -> Tensor:
    """Dimension i of the result is dimension `perm[i]` of `x`."""
    if list(perm) == sorted(perm):
        return x
    return x.emit("transpose", [x.shape[dim] for dim in perm], x=x, perm=list(perm))


def expand_dims(x: Tensor, dims: Sequence[int]) -> Tensor:
    """`x` with dimensions of size 1, which are `dims` of the result."""
    if not dims:
        return x
    shape = list(x.shape)
    for dim in sorted(dims):
        shape.insert(dim, 1)
    return x.emit("expand_dims", shape, x=x, axes=sorted(dims))


def squeeze(x: Tensor, dims: Sequence[int]) -> Tensor:
    """`x` without `dims`, which have size 1."""
    if not dims:
        return x
    shape = [size for dim, size in enumerate(x.shape) if dim not in dims]
    if not shape and x.rank > 1:
        # pymil can only take the number out of a constant vector.
        x, dims = reshape(x, [1]), [0]
    return x.emit("squeeze", shape, x=x, axes=sorted(dims))


def concat(parts: Sequence[Tensor], dim: int) -> Tensor:
    """The parts one after the other along `dim`."""
    if len(parts) == 1:
        return parts[0]
    sizes = [part.shape[dim] for part in parts]
    shape = list(parts[0].shape)
    for part in parts[1:]:
        shape = [b if a == DYNAMIC_INDEX else a for a, b in zip(shape, part.shape)]
    shape[dim] = DYNAMIC_INDEX if DYNAMIC_INDEX in sizes else sum(sizes)
    return parts[0].emit("concat", shape, values=list(parts), axis=dim)


def split(x: Tensor, sizes: Sequence[int], dim: int) -> list[Tensor]:
    """Parts of `sizes`, one after the other along `dim`."""
    if len(sizes) == 1:
        return [x]
    shapes = [[*x.shape[:dim], size, *x.shape[dim + 1 :]] for size in sizes]
    return x.emit_all("split", shapes, x=x, split_sizes=list(sizes), axis=dim)


def slice_dim(
    x: Tensor, dim: int, start: int, stop: int | None, step: int = 1
) -> Tensor:
    """`x[start:stop:step]` along `dim`; negative positions count from the end."""
    return x.like(x.build.slice(x.ssa, dim, start, stop, step))


def broadcast_to(x: Tensor, sizes: Sequence[Size]) -> Tensor:
    """`x`, each element repeated so that its shape becomes `sizes`."""
    if x.rank > len(sizes):
        raise Obstacle(
            f"a tensor of rank {x.rank} that does not broadcast to rank {len(sizes)}",
            "remove its first dimensions",
        )
    x = expand_dims(x, range(len(sizes) - x.rank))
    if static(sizes) == list(x.shape) and DYNAMIC_INDEX not in x.shape:
        return x
    reps: list[Size] = [
        size if own == 1 else 1 for own, size in zip(x.shape, sizes, strict=True)
    ]
    if all(isinstance(rep, int) and rep == 1 for rep in reps):
        return x
    shape = [b if a == 1 else a for a, b in zip(x.shape, static(sizes))]
    return x.emit("tile", shape, x=x, reps=vector(x.build, reps))


def broadcast_sizes(tensors: Sequence[Tensor]) -> list[Size]:
    """The sizes of the shape to which `tensors` broadcast."""
    shape: list[int] = []
    for x in tensors:
        shape = broadcast(shape, x.shape)
    sizes: list[Size] = list(shape)
    for x in tensors:
        for dim, size in enumerate(reversed(x.shape)):
            if size == DYNAMIC_INDEX == sizes[-1 - dim]:
                sizes[-1 - dim] = size_of(x, x.rank - 1 - dim)
    return sizes


def filled(value: Tensor, sizes: Sequence[Size]) -> Tensor:
    """A tensor of `sizes`, each element the number `value`."""
    if not sizes or not isinstance(value.value, np.generic):
        return broadcast_to(value.like(value.ssa), sizes)
    shape = as_input(vector(value.build, sizes))
    like = TensorType(computed_type(value.type), ())
    return value.like(
        value.build.emit("fill", like, static(sizes), shape=shape, value=value.value)
    )


def positions(x: Tensor, dim: int, *, from_end: bool = False) -> Tensor:
    """
    The positions 0, 1, ... along `dim` of `x`, with size 1 along other dimensions.

    With `from_end`, the distances to the end instead: n, n - 1, ..., 1.
    """
    size = size_of(x, dim)
    shape = [1] * dim + [x.shape[dim]] + [1] * (x.rank - dim - 1)
    if isinstance(size, int):
        numbers = range(size, 0, -1) if from_end else range(size)
        array = np.array(numbers, np.int32).reshape(shape)
        return Tensor(x.build, x.build.constant(array), i32)
    start, end, step = (size, 0, -1) if from_end else (0, size, 1)
    numbers = size.emit("range_1d", [DYNAMIC_INDEX], start=start, end=end, step=step)
    return reshape(numbers, shape)
