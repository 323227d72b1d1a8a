# pyright: basic
"""
Decompositions of fractional max pools: they take the windows that random numbers give.

The numbers are an operand, so the pool itself draws none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor
from torch._ops import OpOverload

aten = torch.ops.aten


def window_starts(sample: Tensor, size: int, count: int, kernel: int) -> Tensor:
    """
    Where `count` windows start in `size` elements, for each number of `sample`.

    PyTorch's kernel puts window i at trunc((i + sample) * step) - trunc(sample * step),
    and the last one at the end.
    """
    sample, last = sample.reshape(-1, 1), size - kernel
    ends = torch.full_like(sample, last, dtype=torch.int64)
    if count == 1:
        return ends
    step = last / (count - 1)
    moved = (torch.arange(count - 1) + sample) * step
    return torch.cat([moved.to(torch.int64) - (sample * step).to(torch.int64), ends], 1)


def fractional_max_pool(
    x: Tensor, kernel: Sequence[int], counts: Sequence[int], samples: Sequence[Tensor]
) -> tuple[Tensor, Tensor]:
    """The largest element of each window, and its place in the flattened plane."""
    outer, sizes = x.shape[: -len(kernel)], x.shape[-len(kernel) :]
    flat = x.reshape(samples[0].numel(), -1)
    # For each plane, and each window so far: the places of its elements.
    places = torch.zeros_like(samples[0], dtype=torch.int64).reshape(-1, 1, 1)
    for window, size, count, sample in zip(kernel, sizes, counts, samples, strict=True):
        starts = window_starts(sample, size, count, window)
        inner = starts[:, None, :, None, None] + torch.arange(window)
        both = places[:, :, None, :, None] * size + inner
        planes, windows, _, elements, _ = both.shape
        places = both.reshape(planes, windows * count, elements * window)
    values = flat.gather(1, places.reshape(places.shape[0], -1)).reshape(places.shape)
    largest, which = values.max(-1, keepdim=True)
    shape = *outer, *counts
    return largest.reshape(shape), places.gather(2, which).reshape(shape)


def pool_2d(
    self: Tensor, kernel_size: list[int], output_size: list[int], random_samples: Tensor
) -> tuple[Tensor, Tensor]:
    x, y = random_samples.unbind(-1)  # The first number is that of the last dimension.
    return fractional_max_pool(self, kernel_size, output_size, [y, x])


def pool_3d(
    self: Tensor, kernel_size: list[int], output_size: list[int], random_samples: Tensor
) -> tuple[Tensor, Tensor]:
    samples = random_samples.unbind(-1)
    return fractional_max_pool(self, kernel_size, output_size, samples)


RULES: Mapping[OpOverload, Callable[..., tuple[Tensor, Tensor]]] = {
    aten.fractional_max_pool2d.default: pool_2d,
    aten.fractional_max_pool3d.default: pool_3d,
}
"""By the op."""
