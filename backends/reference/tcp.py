"""
What each `tcp` op computes, on PyTorch tensors of any rank and dtype.

Nothing here calls PyTorch's own pads, convolutions, pools or interpolation: these
are what it is compared with. Floats are accumulated in float64, integers in int64,
and rounded or wrapped once, at the end.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch

from padc.ir import padding, resampling
from padc.ir.tcp import Check, ConvDimsAttr, Coordinates, ResampleMode


def pad(
    x: torch.Tensor,
    fill: float | int,
    lower: Sequence[int],
    upper: Sequence[int],
    interior: Sequence[int],
) -> torch.Tensor:
    """
    `tcp.pad`: spread the elements over a tensor of fills, as far as it reaches.

    ValueError where the amounts crop more than there is.
    """
    shape: list[int] = []
    for amounts in zip(x.shape, lower, upper, interior, strict=True):
        padding.check_constant(*amounts)
        shape.append(padding.padded_size(*amounts))
    result = torch.full(shape, fill, dtype=x.dtype)
    sources: list[slice] = []
    targets: list[slice] = []
    for size, low, between, new_size in zip(
        x.shape, lower, interior, shape, strict=True
    ):
        step = between + 1
        # Element t goes to low + t * step, which must be from 0 to new_size - 1.
        first = max(0, -(low // step))
        last = min(size - 1, (new_size - 1 - low) // step)
        if last < first:
            return result
        sources.append(slice(first, last + 1))
        targets.append(slice(low + first * step, low + last * step + 1, step))
    result[tuple(targets)] = x[tuple(sources)]
    return result


def border_pad(
    x: torch.Tensor,
    check: Check,
    source_index: Callable[[int, int, int, int], int],
    lower: Sequence[int],
    upper: Sequence[int],
) -> torch.Tensor:
    """
    A pad that reads its input: one dimension after the other, element by element.

    `source_index(j, size, lower, upper)` is the input's position for the result's `j`,
    `check(size, lower, upper)` raises ValueError where there is none.
    """
    for dim, (low, high) in enumerate(zip(lower, upper, strict=True)):
        if (low, high) != (0, 0):
            size = x.shape[dim]
            check(size, low, high)
            positions = range(padding.padded_size(size, low, high))
            index = [source_index(j, size, low, high) for j in positions]
            x = x.index_select(dim, torch.tensor(index, dtype=torch.int64))
    return x


def replication_index(j: int, size: int, lower: int, upper: int) -> int:
    """The index map of `tcp.replication_pad`."""
    return padding.source_index_replication(j, size, lower)


def reflection_index(j: int, size: int, lower: int, upper: int) -> int:
    """The index map of `tcp.reflection_pad`."""
    return padding.source_index_reflection(j, size, lower)


def _wide(x: torch.Tensor) -> torch.Tensor:
    """`x` in the dtype that sums are made in."""
    if x.is_complex():
        return x.to(torch.complex128)
    return x.to(torch.float64 if x.is_floating_point() else torch.int64)


def _windows(
    x: torch.Tensor,
    dims: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> Iterator[tuple[tuple[int, ...], torch.Tensor]]:
    """
    For each position in the kernel, the elements it meets, window by window.

    ValueError where the input has no room for a window.
    """
    for offsets in itertools.product(*map(range, kernel)):
        slices = [slice(None)] * x.dim()
        for dim, offset, size, stride, dilation in zip(
            dims, offsets, kernel, strides, dilations, strict=True
        ):
            count = padding.conv_output_size(x.shape[dim], size, stride, dilation)
            if count < 1:
                raise ValueError(
                    f"a window of {dilation * (size - 1) + 1} elements does not fit "
                    f"into dimension {dim}, of {x.shape[dim]}"
                )
            first = offset * dilation
            slices[dim] = slice(first, first + (count - 1) * stride + 1, stride)
        yield offsets, x[tuple(slices)]


def conv(
    x: torch.Tensor,
    kernel: torch.Tensor,
    bias: torch.Tensor | None,
    strides: Sequence[int],
    dilations: Sequence[int],
    groups: int,
    dims: ConvDimsAttr,
) -> torch.Tensor:
    """`tcp.conv`: for each kernel position, a product over the input features."""
    dtype = x.dtype
    spatial = range(dims.spatial_rank)
    x = x.permute(
        [dims.input.index(r) for r in ("b", "f", *spatial) if r in dims.input]
    )
    batched = "b" in dims.input
    x = _wide(x if batched else x.unsqueeze(0))
    batch, features, *sizes = x.shape
    x = x.reshape(batch, groups, features // groups, *sizes)
    kernel = _wide(kernel.permute([dims.kernel.index(r) for r in ("o", "i", *spatial)]))
    outputs = kernel.shape[0]
    kernel = kernel.reshape(groups, outputs // groups, *kernel.shape[1:])
    spatial_dims = range(3, 3 + len(spatial))
    products = [
        torch.einsum("bgi...,goi->bgo...", taps, kernel[(..., *offsets)])
        for offsets, taps in _windows(
            x, spatial_dims, kernel.shape[3:], strides, dilations
        )
    ]
    y = torch.stack(products).sum(0).flatten(1, 2)
    if bias is not None:
        y = y + _wide(bias).reshape(-1, *[1] * len(spatial))
    y = (y if batched else y.squeeze(0)).to(dtype)
    order = [r for r in ("b", "f", *spatial) if r in dims.result]
    return y.permute([order.index(role) for role in dims.result])


def max_pool(
    x: torch.Tensor,
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    dims: Sequence[int],
) -> torch.Tensor:
    """`tcp.max_pool`."""
    taps = (tap for _, tap in _windows(x, dims, kernel, strides, dilations))
    result = next(taps)
    for tap in taps:
        result = torch.maximum(result, tap)
    return result


def avg_pool(
    x: torch.Tensor,
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    dims: Sequence[int],
    uncounted: Sequence[tuple[int, int]],
    divisor: int | None,
) -> torch.Tensor:
    """`tcp.avg_pool`: the sum of each window, divided by what counts in it."""
    taps = [tap for _, tap in _windows(_wide(x), dims, kernel, strides, dilations)]
    total = torch.stack(taps).sum(0)
    divisors = torch.tensor(1 if divisor is None else divisor)
    if divisor is None:
        for dim, size, stride, dilation, (lower, upper) in zip(
            dims, kernel, strides, dilations, uncounted, strict=True
        ):
            counts = padding.window_counts(
                x.shape[dim], size, stride, dilation, lower, upper
            )
            divisors = divisors * _along(torch.tensor(counts), dim, x.dim())
    if x.is_floating_point():
        return (total / divisors).to(x.dtype)
    return torch.div(total, divisors, rounding_mode="trunc").to(x.dtype)


def resample(
    x: torch.Tensor,
    sizes: Sequence[int],
    dims: Sequence[int],
    mode: ResampleMode,
    coordinates: Coordinates,
    scales: Sequence[float] | None,
) -> torch.Tensor:
    """`tcp.resample`: one dimension after the other, a weighted sum of elements."""
    real = np.float64 if x.dtype == torch.float64 else np.float32
    y = x if mode is ResampleMode.NEAREST else _wide(x)
    for i, (dim, new_size) in enumerate(zip(dims, sizes, strict=True)):
        scale = None if scales is None else scales[i]
        parts: list[torch.Tensor] = []
        for index, weight in resampling.taps(
            x.shape[dim], new_size, mode, coordinates, scale, real
        ):
            part = y.index_select(dim, torch.as_tensor(index))
            if weight is not None:
                along = torch.as_tensor(weight.astype(np.float64))
                part = part * _along(along, dim, y.dim())
            parts.append(part)
        y = parts[0] if len(parts) == 1 else torch.stack(parts).sum(0)
    return y.to(x.dtype)


def _along(vector: torch.Tensor, dim: int, rank: int) -> torch.Tensor:
    return vector.reshape([-1 if d == dim else 1 for d in range(rank)])
