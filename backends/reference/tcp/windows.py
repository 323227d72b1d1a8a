"""
Windows over tensors, as convolutions and pools read them, and the dtypes of sums.

Sizes and counts are not the formulas of `padc.ir.padding`: independent on purpose.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import torch


def wide(x: torch.Tensor) -> torch.Tensor:
    """`x` in the dtype of sums."""
    if x.is_complex():
        return x.to(torch.complex128)
    return x.to(torch.float64 if x.is_floating_point() else torch.int64)


def windows(
    x: torch.Tensor,
    dims: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> Iterator[tuple[tuple[int, ...], torch.Tensor]]:
    """
    For each position in the kernel, its element of every window.

    Raises ValueError if a window does not fit into the input.
    """
    for offsets in itertools.product(*map(range, kernel)):
        slices = [slice(None)] * x.dim()
        for dim, offset, size, stride, dilation in zip(
            dims, offsets, kernel, strides, dilations, strict=True
        ):
            count = len(range(dilation * (size - 1), x.shape[dim], stride))
            if count < 1:
                raise ValueError(
                    f"a window of {dilation * (size - 1) + 1} elements does not fit "
                    f"into dimension {dim}, of {x.shape[dim]}"
                )
            first = offset * dilation
            slices[dim] = slice(first, first + (count - 1) * stride + 1, stride)
        yield offsets, x[tuple(slices)]


def along(vector: torch.Tensor, dim: int, rank: int) -> torch.Tensor:
    """`vector` as a tensor of `rank` that lies along dimension `dim`."""
    return vector.reshape([-1 if d == dim else 1 for d in range(rank)])
