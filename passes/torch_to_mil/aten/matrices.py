"""Matrices, taken apart into rows and elements: what unrolled algorithms share."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from xdsl.dialects.builtin import DYNAMIC_INDEX

from padc.errors import Obstacle
from padc.ir.element_types import wide
from padc.passes.torch_to_mil.aten.mil_call import MilCall
from padc.passes.torch_to_mil.aten.movement import (
    broadcast_to,
    concat,
    sizes_of,
    slice_dim,
)
from padc.passes.torch_to_mil.aten.tensor import Tensor

MOST_ROWS = 8
"""The most rows of a matrix that is eliminated: ops grow by their square."""


def square(call: MilCall, name: str) -> Tensor:
    """A batch of small square matrices, in the type that PyTorch computes in."""
    x = call.tensor(name)
    check_small(x, x.shape[-1])
    return x.to(wide(x.type))


def check_small(x: Tensor, size: int) -> None:
    """Raise for matrices of dynamic size, or if `size` is too large to be unrolled."""
    if 0 in x.shape:
        raise Obstacle("a matrix without elements", "leave it out")
    is_dynamic = DYNAMIC_INDEX in x.shape[-2:]
    if is_dynamic or size > MOST_ROWS:
        text = "dynamic size" if is_dynamic else f"{size} rows"
        raise Obstacle(
            f"a matrix of {text}; Core ML has no linear algebra",
            f"matrices of at most {MOST_ROWS} rows are unrolled",
        )


def identity(x: Tensor) -> Tensor:
    """Identity matrices of the size and type of `x`."""
    eye = np.eye(x.shape[-1], dtype=type(x.constant(0).value))
    one = x.like(x.build.constant(eye))
    return broadcast_to(one, sizes_of(x)) if x.rank > 2 else one


def rows_of(x: Tensor) -> list[Tensor]:
    """The rows of matrices, which keep their dimension."""
    return [slice_dim(x, x.rank - 2, i, i + 1) for i in range(x.shape[-2])]


def element(row: Tensor, column: int) -> Tensor:
    """A column of a row, which keeps its dimension."""
    return slice_dim(row, row.rank - 1, column, column + 1)


def constant(like: Tensor, array: Any) -> Tensor:
    """An array as a constant of the type of `like`."""
    return like.like(
        like.build.constant(np.asarray(array, type(like.constant(0).value)))
    )


def mask(like: Tensor, array: Any) -> Tensor:
    """Booleans as a constant."""
    every = like.boolean(True)
    return every.like(like.build.constant(np.asarray(array, np.bool_)))


def small(call: MilCall, name: str) -> Tensor:
    """A batch of matrices of few rows or few columns."""
    x = call.tensor(name)
    check_small(x, min(x.shape[-2:]))
    return x


def triangle(x: Tensor, *, upper: bool, unit: bool = False) -> Tensor:
    """The upper triangle, or the lower one, with a diagonal of 1 if it is `unit`."""
    rows, columns = x.shape[-2:]
    ones = np.ones((rows, columns), np.bool_)
    kept = np.triu(ones) if upper else np.tril(ones, -1 if unit else 0)
    part = mask(x, kept).select(x, 0)
    return part + constant(x, np.eye(rows, columns)) if unit else part


def solve_triangle(a: Tensor, b: Tensor, *, upper: bool, unit: bool = False) -> Tensor:
    """The solution of `a @ x = b`, for a triangle of `a`, with 1 on it if `unit`."""
    size, rows, targets = a.shape[-1], rows_of(a), rows_of(b)
    solution: dict[int, Tensor] = {}
    for i in reversed(range(size)) if upper else range(size):
        y = targets[i]
        for j, x in solution.items():
            y = y - x * element(rows[i], j)
        solution[i] = y if unit else y / element(rows[i], i)
    sizes = max((x.shape for x in solution.values()), key=math.prod)
    parts = [broadcast_to(solution[i], list(sizes)) for i in range(size)]
    return concat(parts, max(a.rank, b.rank) - 2)
