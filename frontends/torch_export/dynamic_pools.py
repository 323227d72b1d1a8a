# pyright: basic
"""
1-D pools of dynamic lengths.

ATen's `max_pool1d` reads the length as an integer, and `adaptive_avg_pool1d` the length
of its result, so that torch.export would fix those of the example;
`max_pool1d_with_indices` and `adaptive_avg_pool2d` take symbols. `interpolate` with
mode `area` is an adaptive pool.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode


class DynamicPools(TorchFunctionMode):
    """Traces 1-D pools as ops that take symbols."""

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


def adaptive_avg_pool1d(input: Tensor, output_size: Any) -> Tensor:
    """`torch.adaptive_avg_pool1d`."""
    row = of_row(output_size)
    if not isinstance(row[-1], torch.SymInt):
        return torch.adaptive_avg_pool1d(input, output_size)
    return F.adaptive_avg_pool2d(input.unsqueeze(-2), row).squeeze(-2)


def interpolate(
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    *args: Any,
    **kwargs: Any,
) -> Tensor:
    """`torch.nn.functional.interpolate`."""
    if mode != "area" or input.dim() != 3:
        return F.interpolate(input, size, scale_factor, mode, *args, **kwargs)
    row = F.interpolate(
        input.unsqueeze(-2), of_row(size), of_row(scale_factor), mode, *args, **kwargs
    )
    return row.squeeze(-2)


def of_row(value: Any) -> Any:
    """A size or a scale, with 1 for the row before it."""
    if value is None:
        return None
    return (1, *(value if isinstance(value, tuple | list) else [value]))


REPLACED: dict[Callable[..., Any], Callable[..., Any]] = {
    F.max_pool1d: max_pool1d,
    torch.max_pool1d: max_pool1d,
    torch.adaptive_avg_pool1d: adaptive_avg_pool1d,
    F.interpolate: interpolate,
}
