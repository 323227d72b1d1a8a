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
from padc.backends.coreml.evaluator.types import TensorType


def _product(x: Tensor, y: Tensor, bias: Tensor | None, result: TensorType) -> Tensor:
    """`x @ y + bias`; if the operands have two types, `result` is one of them.

    The rounding of a fraction to an integer is not documented, so it is refused.
    """
    if x.dtype == y.dtype == result.dtype.held_as:
        product = torch.matmul(x, y)
        return product if bias is None else product + bias
    product = torch.matmul(x.to(torch.float64), y.to(torch.float64))
    product = product if bias is None else product + bias
    if not result.dtype.is_float and (product != product.round()).any():
        raise UnknownValueError(f"a fraction in a product of type {result.dtype}")
    return product.to(result.dtype.held_as)


@op()
def linear(
    x: Number, weight: Number, bias: Number | None = None, *, result: TensorType
) -> Tensor:
    return _product(x, weight.mT, bias, result)


@op()
def matmul(
    x: Number,
    y: Number,
    transpose_x: bool = False,
    transpose_y: bool = False,
    *,
    result: TensorType,
) -> Tensor:
    x = x.mT if transpose_x and x.dim() > 1 else x
    y = y.mT if transpose_y and y.dim() > 1 else y
    return _product(x, y, None, result)


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
