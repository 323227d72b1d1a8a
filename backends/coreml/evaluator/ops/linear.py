"""Products, by the docstrings of coremltools' mil/ops/defs/iOS15/linear.py,
iOS17/linear.py (operands of different float types) and iOS18/transformers.py."""

from math import sqrt

import torch
from torch import Tensor

from padc.backends.coreml.evaluator.ops.registry import (
    Float,
    Number,
    UnknownValueError,
    op,
)


@op()
def linear(x: Number, weight: Number, bias: Number | None = None) -> Tensor:
    y = torch.matmul(x, weight.mT)
    return y if bias is None else y + bias


@op()
def matmul(
    x: Number, y: Number, transpose_x: bool = False, transpose_y: bool = False
) -> Tensor:
    x = x.mT if transpose_x and x.dim() > 1 else x
    y = y.mT if transpose_y and y.dim() > 1 else y
    return torch.matmul(x, y)


def _canonical(equation: str) -> str:
    """`equation` with its letters renamed in the order they come in."""
    names: dict[str, str] = {}
    return "".join(
        names.setdefault(char, chr(ord("a") + len(names))) if char.isalpha() else char
        for char in equation.replace(" ", "")
    )


EQUATIONS = {_canonical("nchw,nwhu->nchu"), _canonical("chw,whr->chr")}


@op()
def einsum(values: list[Tensor], equation: str) -> Tensor:
    if _canonical(equation) not in EQUATIONS:
        raise UnknownValueError(f"equation {equation!r}")
    return torch.einsum(equation, *values)


@op(since=8)
def scaled_dot_product_attention(
    query: Float, key: Float, value: Float, attn_mask: Tensor | None = None
) -> Tensor:
    scores = query @ key.mT / sqrt(query.shape[-1])
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        scores = scores.masked_fill(~attn_mask, -torch.inf)
    elif attn_mask is not None:
        scores = scores + attn_mask
    return torch.softmax(scores, -1) @ value
