# pyright: basic
"""
1-D max pools along dynamic dimensions.

The kernel of ATen's `max_pool1d` reads sizes as integers, so that torch.export would
fix the length of the example; that of `max_pool1d_with_indices` takes symbols.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode


class MaxPools(TorchFunctionMode):
    """Traces 1-D max pools of dynamic lengths with their indices."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        replaced = REPLACED.get(func, func)
        return replaced(*args, **(kwargs or {}))


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


REPLACED: dict[Callable[..., Any], Callable[..., Any]] = {
    F.max_pool1d: max_pool1d,
    torch.max_pool1d: max_pool1d,
}
