"""A part of a program that PyTorch runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from xdsl.context import Context

from padc.backends import reference
from padc.backends.native.stored_program import StoredPart
from padc.backends.reference.tcp import Value
from padc.ir.text import Parser
from padc.ir.weights import Weights, weights_of


class TorchFunction:
    """A part that PyTorch runs op by op, through the reference interpreter."""

    def __init__(self, ctx: Context, part: StoredPart, is_trusted: bool):
        self._is_trusted = is_trusted
        self._module = Parser(ctx, part.code.decode()).parse_module()
        self._weights = Weights(
            {name: weights_of(ctx)[name] for name in part.torch_weights}
        )
        self._addresses = {array.ctypes.data for array in self._weights.values()}

    def __call__(self, inputs: Sequence[Value]) -> Sequence[Any]:
        """Run on tensors and integers; the results never share memory with weights."""
        with torch.no_grad():
            results = reference.run(
                self._module,
                *inputs,
                weights=self._weights,
                is_trusted=self._is_trusted,
            )
        return [self._without_alias(result) for result in results]

    def _without_alias(self, result: Any) -> Any:
        """`result`, copied if its storage is a weight's: callers may write to it."""
        if isinstance(result, torch.Tensor) and result.layout == torch.strided:
            if result.untyped_storage().data_ptr() in self._addresses:
                return result.clone()
        return result
