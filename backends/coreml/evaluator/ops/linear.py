"""Products, by the docstrings of coremltools' mil/ops/defs/iOS15/linear.py,
iOS17/linear.py (operands of different float types) and iOS18/transformers.py."""

from math import sqrt

import numpy as np

from padc.backends.coreml.evaluator.ops.registry import (
    Float,
    Number,
    UnknownValueError,
    op,
)
from padc.backends.coreml.evaluator.values import kernels
from padc.backends.coreml.evaluator.values.dataless import is_dataless
from padc.backends.coreml.evaluator.values.types import Array, TensorType


def _product(x: Array, y: Array, bias: Array | None, result: TensorType) -> Array:
    """`x @ y + bias`; if the operands have two types, `result` is one of them.

    The rounding of a fraction to an integer is not documented, so it is refused.
    """
    if x.dtype == y.dtype == result.dtype.held_as:
        z = kernels.product(x, y)
        return z if bias is None else z + bias.astype(z.dtype)
    z = kernels.product(x.astype(np.float64), y.astype(np.float64))
    z = z if bias is None else z + bias
    has_data = not is_dataless(z)
    if not result.dtype.is_float and has_data and np.any(z != np.rint(z)):
        raise UnknownValueError(f"a fraction in a product of type {result.dtype}")
    return z.astype(result.dtype.held_as)


@op()
def linear(
    x: Number, weight: Number, bias: Number | None = None, *, result: TensorType
) -> Array:
    return _product(x, weight.mT, bias, result)


@op()
def matmul(
    x: Number,
    y: Number,
    transpose_x: bool = False,
    transpose_y: bool = False,
    *,
    result: TensorType,
) -> Array:
    x = x.mT if transpose_x and x.ndim > 1 else x
    y = y.mT if transpose_y and y.ndim > 1 else y
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
def einsum(values: list[Array], equation: str) -> Array:
    if _canonical(equation) not in EQUATIONS:
        raise UnknownValueError(f"equation {equation!r}")
    x, y = values
    if x.ndim != y.ndim or x.ndim != len(equation.replace(" ", "").split(",")[0]):
        raise ValueError(f"{equation!r} of {list(x.shape)} and {list(y.shape)}")
    # The second dimension of y, w, is summed over; c is a row of x.
    if x.ndim == 4:
        return kernels.product(x.swapaxes(1, 2), y.swapaxes(1, 2)).swapaxes(1, 2)
    return kernels.product(x.swapaxes(0, 1), y.swapaxes(0, 1)).swapaxes(0, 1)


@op(since=8)
def scaled_dot_product_attention(
    query: Float, key: Float, value: Float, attn_mask: Array | None = None
) -> Array:
    scores = kernels.product(query, key.mT) / sqrt(query.shape[-1])
    if attn_mask is not None and attn_mask.dtype == np.bool_:
        scores = np.where(attn_mask, scores, np.float32(-np.inf))
    elif attn_mask is not None:
        scores = scores + attn_mask
    return kernels.product(kernels.softmax(scores, -1), value)
