# pyright: basic
"""
Ops on integers that the program computes, where PyTorch takes those of the example.

`linspace(0, 1, n)`, `one_hot` and `affine_grid` take numbers only; `narrow` and `split`
ask how their integers compare with sizes. Here each is written with ops that take any.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from padc.ir.arithmetic import is_zero

aten = torch.ops.aten


def counted(count: Any) -> tuple[Tensor, Tensor]:
    """The numbers of points before each of `count`, and after it."""
    before = torch.arange(count, dtype=torch.float32)
    return before, before.flip(0)


def linspace(start: Any, end: Any, steps: Any, **options: Any) -> Tensor:
    """Each half is counted from its end; if there is one point, it is the start."""
    dtype = options.get("dtype") or torch.get_default_dtype()
    if not dtype.is_floating_point:
        raise TypeError("linspace of integers, which depend on how each is rounded")
    before, after = counted(steps)
    last = before + after
    step = (end - start) / last.clamp(min=1)
    is_first_half = before < torch.where(last > 0, after, 1.0)
    return torch.where(is_first_half, step * before + start, end - step * after).to(
        dtype
    )


def affine_grid(theta: Tensor, size: Sequence[Any], align_corners: bool) -> Tensor:
    """`theta` [N, D, D + 1] times the points (.., y, x, 1) of an image."""
    rank = len(size) - 2
    factors = theta.to(torch.float32)

    def column(number: int) -> Tensor:
        factor = aten.select.int(factors, 2, number)
        for _ in range(rank):
            factor = aten.unsqueeze.default(factor, 1)
        return factor

    grid = column(rank)
    for number in range(rank):
        place = rank - 1 - number
        before, after = counted(size[2 + place])
        last = before + after
        # The centers of the points, or all from edge to edge: 0 if there is one.
        along = (before - after) / (last.clamp(min=1) if align_corners else last + 1)
        for _ in range(rank - place):
            along = aten.unsqueeze.default(along, 1)
        grid = grid + column(number) * along
    return grid.to(theta.dtype)


def narrow(x: Tensor, dim: int, start: Any, length: Any) -> Tensor:
    """A slice of the rest, since a negative start counts from the end."""
    rest = x if is_zero(start) else aten.slice.Tensor(x, dim, start)
    return aten.slice.Tensor(rest, dim, 0, length)


def split_with_sizes(
    x: Tensor, split_sizes: Sequence[Any], dim: int = 0
) -> list[Tensor]:
    """The last part is what the others leave."""
    parts: list[Tensor] = []
    for size in split_sizes[:-1]:
        parts.append(aten.slice.Tensor(x, dim, 0, size))
        x = aten.slice.Tensor(x, dim, size)
    return [*parts, x]


def one_hot(x: Tensor, num_classes: Any = -1) -> Tensor:
    classes = torch.arange(num_classes, dtype=torch.int64)
    return (aten.unsqueeze.default(x, -1) == classes).to(torch.int64)


RULES: Mapping[OpOverload, Callable[..., Any]] = {
    aten.affine_grid_generator.default: affine_grid,
    aten.linspace.default: linspace,
    aten.linspace.Tensor_Tensor: linspace,
    aten.linspace.Tensor_Scalar: linspace,
    aten.linspace.Scalar_Tensor: linspace,
    aten.narrow.default: narrow,
    aten.narrow_copy.default: narrow,
    aten.one_hot.default: one_hot,
    aten.split_with_sizes.default: split_with_sizes,
    aten.split_with_sizes_copy.default: split_with_sizes,
}
"""By the op."""
