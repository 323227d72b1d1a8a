"""Activations, by the docstrings of coremltools' mil/ops/defs/iOS15/activation.py
and iOS17/activation.py (which lets alpha and beta have their own float type)."""

from math import sqrt
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from padc.backends.coreml.evaluator.ops.registry import Float, op


def _per_channel(values: Tensor, x: Tensor) -> Tensor:
    """`values` [C] against `x` [B, C, ...]."""
    return values.reshape(-1, *[1] * (x.dim() - 2))


@op()
def clamped_relu(x: Float, alpha: float, beta: float) -> Tensor:
    return F.leaky_relu(x, alpha).clamp(max=beta)


@op()
def elu(x: Float, alpha: float) -> Tensor:
    return F.elu(x, alpha)


@op()
def gelu(
    x: Float,
    mode: Literal["EXACT", "TANH_APPROXIMATION", "SIGMOID_APPROXIMATION"] = "EXACT",
) -> Tensor:
    match mode:
        case "EXACT":
            return 0.5 * x * (1 + torch.erf(x / sqrt(2)))
        case "TANH_APPROXIMATION":
            return F.gelu(x, approximate="tanh")
        case "SIGMOID_APPROXIMATION":
            return x * torch.sigmoid(1.702 * x)


@op()
def leaky_relu(x: Float, alpha: float) -> Tensor:
    return F.leaky_relu(x, alpha)


@op()
def linear_activation(x: Float, alpha: float, beta: float) -> Tensor:
    return x * alpha + beta


@op()
def prelu(x: Float, alpha: Float) -> Tensor:
    return torch.where(x > 0, x, _per_channel(alpha, x) * x)


@op()
def relu(x: Float) -> Tensor:
    return F.relu(x)


@op()
def relu6(x: Float) -> Tensor:
    return F.relu6(x)


@op()
def scaled_tanh(x: Float, alpha: float, beta: float) -> Tensor:
    return alpha * torch.tanh(beta * x)


@op()
def sigmoid(x: Float) -> Tensor:
    return torch.sigmoid(x)


@op()
def sigmoid_hard(x: Float, alpha: float, beta: float) -> Tensor:
    return (alpha * x + beta).clamp(0, 1)


@op()
def silu(x: Float) -> Tensor:
    return F.silu(x)


@op()
def softplus(x: Float) -> Tensor:
    # log(1 + e^x) without overflow.
    return torch.logaddexp(x, torch.zeros_like(x))


@op()
def softplus_parametric(x: Float, alpha: Float, beta: Float) -> Tensor:
    return _per_channel(alpha, x) * softplus(_per_channel(beta, x) * x)


@op()
def softmax(x: Float, axis: int = -1) -> Tensor:
    return torch.softmax(x, axis)


@op()
def softsign(x: Float) -> Tensor:
    return F.softsign(x)


@op()
def thresholded_relu(x: Float, alpha: float) -> Tensor:
    return torch.where(x >= alpha, x, 0.0)
