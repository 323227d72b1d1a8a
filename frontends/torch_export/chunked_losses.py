# pyright: basic
"""
Decompositions of `linear_cross_entropy` with options that divide the batch.

The chunks save memory in training. A program that only computes the loss does not
need them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch.nn.functional as F
from torch import Tensor


def reduced(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    linear_bias: Tensor | None,
    weight: Tensor | None,
    reduction: str,
    ignore_index: int,
    label_smoothing: float,
    *options: Any,
) -> tuple[Tensor, None, None, None]:
    """The loss, without the gradients that PyTorch's op computes with it."""
    logits = F.linear(input, linear_weight, linear_bias)
    shared = weight, None, ignore_index, None, reduction, label_smoothing
    return F.cross_entropy(logits, target, *shared), None, None, None


def not_reduced(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    linear_bias: Tensor | None,
    weight: Tensor | None,
    ignore_index: int,
    *options: Any,
) -> Tensor:
    given = input, linear_weight, target, linear_bias, weight
    return reduced(*given, "none", ignore_index, 0.0)[0]


RULES: Mapping[str, Callable[..., Any]] = {
    "torch_nn._linear_cross_entropy_batch_chunked": reduced,
    "torch_nn._linear_cross_entropy_batch_chunked_no_reduction": not_reduced,
}
"""The decompositions by schema."""
