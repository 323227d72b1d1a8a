"""
Grid sampling: a weighted sum of the elements around each point.

The formulas are those of PyTorch's GridSamplerKernel.cpp and GridSampler.h. They are
written here again on purpose, since an oracle must not share them with the passes.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch

from padc.backends.reference.tcp.evaluator import Value, evaluates
from padc.backends.reference.tcp.windows import wide
from padc.ir import tcp
from padc.ir.tcp import GridPadding, ResampleMode


def grid_sample(
    x: torch.Tensor,
    grid: torch.Tensor,
    mode: ResampleMode,
    padding: GridPadding,
    align_corners: bool,
) -> torch.Tensor:
    """
    `tcp.grid_sample`: `x` [N, C, *S] at `grid` [N, *O, len(S)].

    Coordinates are computed in float32, or in float64 for float64 grids. NaN as a
    coordinate takes the first element, or no element if the padding is zeros.
    """
    dtype, sizes = x.dtype, x.shape[2:]
    points = grid.to(torch.promote_types(grid.dtype, torch.float32)).flip(-1)
    kind = mode, padding, align_corners
    axes = [
        _taps(_pixels(points[..., i], size, len(sizes), align_corners), size, *kind)
        for i, size in enumerate(sizes)
    ]
    batch = torch.arange(x.shape[0]).reshape(-1, *[1] * len(sizes))
    x = wide(x.movedim(1, -1))
    y = x.new_zeros(*points.shape[:-1], x.shape[-1])
    for taps in itertools.product(*axes):
        index, weight, is_inside = zip(*taps, strict=True)
        inside = torch.stack(is_inside).all(0)[..., None]
        product = torch.stack(weight).prod(0)[..., None]
        y += torch.where(inside, product * x[(batch, *index)], 0)
        # A NaN weight makes the result NaN, even outside of the input.
        y += torch.where(product.isnan(), product, 0)
    return y.movedim(-1, 1).to(dtype)


Tap = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
"""Along one dimension, for each point: an index, its weight, whether it is inside."""


def _pixels(
    point: torch.Tensor, size: int, rank: int, align_corners: bool
) -> torch.Tensor:
    """Coordinates from -1 to 1 as indices; for images they are rounded once."""
    point = point + 1
    if align_corners:
        return point / 2 * (size - 1)
    if rank == 2:
        return (point.to(torch.float64) * (size / 2) - 0.5).to(point.dtype)
    return (point * size - 1) / 2


def _taps(
    at: torch.Tensor,
    size: int,
    mode: ResampleMode,
    padding: GridPadding,
    align_corners: bool,
) -> Sequence[Tap]:
    """The elements that each coordinate combines."""
    if mode is ResampleMode.CUBIC:
        low = at.floor()
        weights = [_cubic((at - low - offset).abs()) for offset in (-1, 0, 1, 2)]
        places = [
            _padded(low + offset, size, padding, align_corners)
            for offset in (-1, 0, 1, 2)
        ]
    else:
        at = _padded(at, size, padding, align_corners)
        if mode is ResampleMode.NEAREST:
            places, weights = [at.round()], [torch.ones_like(at)]
        else:
            low = at.floor()
            places, weights = [low, low + 1], [1 - (at - low), at - low]
    return [
        _tap(place, weight, size) for place, weight in zip(places, weights, strict=True)
    ]


def _tap(place: torch.Tensor, weight: torch.Tensor, size: int) -> Tap:
    is_inside = (place >= 0) & (place < size)
    index = torch.where(is_inside, place, 0).to(torch.int64)
    return index, weight.to(torch.float64), is_inside


def _padded(
    at: torch.Tensor, size: int, padding: GridPadding, align_corners: bool
) -> torch.Tensor:
    """`at` moved into the input; unchanged if the padding is zeros."""
    if padding is GridPadding.ZEROS:
        return at
    if padding is GridPadding.REFLECTION:
        first, span = (0.0, size - 1) if align_corners else (-0.5, size)
        if span == 0:
            at = torch.zeros_like(at)
        else:
            away = (at - first).abs()
            rest = away.fmod(span)
            is_forth = (away / span).floor() % 2 == 0
            at = torch.where(is_forth, rest + first, span - rest + first)
    return at.nan_to_num(0, size - 1, 0).clamp(0, size - 1)


def _cubic(x: torch.Tensor) -> torch.Tensor:
    """R. Keys' cubic convolution kernel with a = -0.75, at distances up to 2."""
    a = -0.75
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return torch.where(x <= 1, near, far)


@evaluates(tcp.GridSampleOp)
def evaluate_grid_sample(
    op: tcp.GridSampleOp, args: Sequence[Value]
) -> Sequence[Value]:
    x, grid = args
    align_corners = op.align_corners is not None
    return [grid_sample(x, grid, op.mode.data, op.padding.data, align_corners)]
