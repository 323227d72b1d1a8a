# pyright: basic
"""
Pools of dynamic sizes.

ATen's `max_pool1d` reads the length as an integer, and `adaptive_avg_pool1d` the length
of its result, so that torch.export would fix those of the example;
`max_pool1d_with_indices` and `_adaptive_avg_pool2d` take symbols. Other adaptive
averages ask whether the size of the result is 1, which would become a guard;
`_adaptive_avg_pool2d` and `3d` do not. `interpolate` with mode `area` is such an
average.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from padc.frontends.torch_export.unguarded_ops import unguarded


class DynamicPools(TorchFunctionMode):
    """Traces pools as ops that take symbols."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return REPLACED.get(func, func)(*args, **(kwargs or {}))


def max_pool1d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """`torch.nn.functional.max_pool1d`."""
    options = kernel_size, [] if stride is None else stride, padding, dilation
    is_dynamic = any(isinstance(size, torch.SymInt) for size in input.shape)
    if not is_dynamic and not return_indices:
        return torch.max_pool1d(input, *options, ceil_mode)
    results = torch.max_pool1d_with_indices(input, *options, ceil_mode)
    return results if return_indices else results[0]


def adaptive_avg_pool(
    function: Callable[..., Tensor], rank: int, input: Tensor, output_size: Any
) -> Tensor:
    """A `function` of torch, which pools the last `rank` dimensions."""
    sizes = output_size
    if not isinstance(sizes, tuple | list):
        sizes = [output_size] * rank
    last = input.shape[-rank:]
    for n in last:
        if isinstance(n, torch.SymInt):  # PyTorch's kernel checks it.
            torch._check(n > 0, lambda: "an adaptive pool of no elements")
    sizes = [n if size is None else size for size, n in zip(sizes, last, strict=True)]
    if not any(isinstance(size, torch.SymInt) for size in sizes):
        return function(input, output_size)
    match rank:
        case 1:
            row = torch.ops.aten._adaptive_avg_pool2d(input.unsqueeze(-2), [1, *sizes])
            return unguarded(torch.squeeze, row, -2)
        case 2:
            return torch.ops.aten._adaptive_avg_pool2d(input, sizes)
        case _:
            return torch.ops.aten._adaptive_avg_pool3d(input, sizes)


def interpolate(
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """`torch.nn.functional.interpolate`."""
    options = align_corners, recompute_scale_factor, antialias
    pool = AVERAGES.get(input.dim() - 2)
    is_plain = (
        align_corners is None
        and not antialias
        and (
            scale_factor is not None
            if size is None
            else scale_factor is None and not recompute_scale_factor
        )
    )
    if mode != "area" or pool is None or not is_plain:
        return F.interpolate(input, size, scale_factor, mode, *options)
    sizes = input.shape[2:]
    if size is None:
        scales: Any = scale_factor
        if not isinstance(scales, tuple | list):
            scales = [scale_factor] * len(sizes)
        pairs = zip(sizes, scales, strict=True)
        size = [torch.sym_int(n * scale) for n, scale in pairs]
    return adaptive_avg_pool(pool, len(sizes), input, size)


AVERAGES: dict[int, Callable[..., Tensor]] = {
    1: torch.adaptive_avg_pool1d,
    2: F.adaptive_avg_pool2d,
    3: F.adaptive_avg_pool3d,
}
"""The functions by the number of dimensions that they pool."""

REPLACED: dict[Callable[..., Any], Callable[..., Any]] = {
    F.max_pool1d: max_pool1d,
    torch.max_pool1d: max_pool1d,
    F.interpolate: interpolate,
    **{
        function: partial(adaptive_avg_pool, function, rank)
        for rank, function in AVERAGES.items()
    },
}
