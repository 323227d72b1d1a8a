# pyright: basic
"""
1-D adaptive pools to sizes that are computed from dynamic ones.

ATen's `adaptive_avg_pool1d` takes integers only, so that torch.export would fix the
size of the example; `adaptive_avg_pool2d` takes symbols. `interpolate` with mode `area`
is such a pool.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode


class PooledSizes(TorchFunctionMode):
    """Traces 1-D pools of dynamic sizes as 2-D pools of one row."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        replaced = REPLACED.get(func)
        return (replaced or func)(*args, **(kwargs or {}))


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


REPLACED: dict[Callable[..., Any], Callable[..., Tensor]] = {
    torch.adaptive_avg_pool1d: adaptive_avg_pool1d,
    F.interpolate: interpolate,
}
