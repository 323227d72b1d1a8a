# pyright: basic, reportPrivateUsage=false
"""Running a model in PyTorch with every op in float16 or bfloat16."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

if TYPE_CHECKING:
    from torch._ops import OpOverload

__all__ = ["LowerPrecision"]

WIDE = (torch.float32, torch.float64)
WIDENED = {
    torch.float16: torch.float32,
    torch.bfloat16: torch.float32,
    torch.complex32: torch.complex64,
}


class LowerPrecision(TorchDispatchMode):
    """
    Computes each op of PyTorch in a lower precision, and rounds its results to it.

    Floats of float32 and float64 are rounded before an op reads them, wherever they
    come from: weights, constants, casts to float32 in the model. An op without a kernel
    for the lower precision computes in float32 from the rounded operands, which is what
    most of PyTorch's kernels for it do inside. Complex numbers stay as they are.
    """

    def __init__(self, dtype: torch.dtype):
        super().__init__()
        self.dtype = dtype

    def __torch_dispatch__(
        self,
        func: OpOverload[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        given: Any = tree_map(self.rounded, (args, kwargs or {}))
        try:
            result = self.computed(func, *given)
        except RuntimeError:  # NotImplementedError, too.
            if func._schema.is_mutable:
                raise
            wide: Any = tree_map(widened, given)
            result = func(*wide[0], **wide[1])
        return tree_map(self.rounded, result)

    def computed(
        self,
        func: OpOverload[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> Any:
        """The results of an op; a composite one, which inference mode leaves whole, is
        computed op by op."""
        mode: AbstractContextManager[Any] = self
        with mode:
            result = func.decompose(*args, **kwargs)
        return func(*args, **kwargs) if result is NotImplemented else result

    def rounded(self, value: Any) -> Any:
        """A tensor of floats, or their dtype, in the lower precision."""
        if isinstance(value, torch.dtype):
            return self.dtype if value in WIDE else value
        if isinstance(value, torch.Tensor) and value.dtype in WIDE:
            return value.to(self.dtype)
        return value


def widened(value: Any) -> Any:
    """A tensor of a lower precision, or a dtype for one, in float32."""
    if isinstance(value, torch.dtype):
        return WIDENED.get(value, value)
    if isinstance(value, torch.Tensor) and value.dtype in WIDENED:
        return value.to(WIDENED[value.dtype])
    return value
