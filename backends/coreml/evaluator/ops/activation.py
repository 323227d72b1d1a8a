"""Activations, by the docstrings of coremltools' mil/ops/defs/iOS15/activation.py
and iOS17/activation.py (which lets alpha and beta have their own float type)."""

from math import pi, sqrt
from typing import Literal

import numpy as np

from padc.backends.coreml.evaluator.ops.registry import Float, op
from padc.backends.coreml.evaluator.values import kernels
from padc.backends.coreml.evaluator.values.types import Array


def _per_channel(values: Array, x: Array) -> Array:
    """`values` [C] against `x` [B, C, ...]."""
    return values.reshape(-1, *[1] * (x.ndim - 2))


@op()
def clamped_relu(x: Float, alpha: float, beta: float) -> Array:
    return np.minimum(kernels.leaky_relu(x, alpha), beta)


@op()
def elu(x: Float, alpha: float) -> Array:
    return np.maximum(x, 0) + alpha * np.expm1(np.minimum(x, 0))


@op()
def gelu(
    x: Float,
    mode: Literal["EXACT", "TANH_APPROXIMATION", "SIGMOID_APPROXIMATION"] = "EXACT",
) -> Array:
    match mode:
        case "EXACT":
            return 0.5 * x * (1 + kernels.erf(x / sqrt(2)))
        case "TANH_APPROXIMATION":
            inner = sqrt(2 / pi) * (x + 0.044715 * x * x * x)
            return 0.5 * x * (1 + np.tanh(inner))
        case "SIGMOID_APPROXIMATION":
            return x * kernels.sigmoid(1.702 * x)


@op()
def leaky_relu(x: Float, alpha: float) -> Array:
    return kernels.leaky_relu(x, alpha)


@op()
def linear_activation(x: Float, alpha: float, beta: float) -> Array:
    return x * alpha + beta


@op()
def prelu(x: Float, alpha: Float) -> Array:
    return np.maximum(x, 0) + _per_channel(alpha, x) * np.minimum(x, 0)


@op()
def relu(x: Float) -> Array:
    return np.maximum(x, 0)


@op()
def relu6(x: Float) -> Array:
    return np.clip(x, 0, 6)


@op()
def scaled_tanh(x: Float, alpha: float, beta: float) -> Array:
    return alpha * np.tanh(beta * x)


@op()
def sigmoid(x: Float) -> Array:
    return kernels.sigmoid(x)


@op()
def sigmoid_hard(x: Float, alpha: float, beta: float) -> Array:
    return np.clip(alpha * x + beta, 0, 1)


@op()
def silu(x: Float) -> Array:
    return x * kernels.sigmoid(x)


@op()
def softplus(x: Float) -> Array:
    # log(1 + e^x) without overflow.
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


@op()
def softplus_parametric(x: Float, alpha: Float, beta: Float) -> Array:
    return _per_channel(alpha, x) * softplus(_per_channel(beta, x) * x)


@op()
def softmax(x: Float, axis: int = -1) -> Array:
    return kernels.softmax(x, axis)


@op()
def softsign(x: Float) -> Array:
    return x / (1 + np.abs(x))


@op()
def thresholded_relu(x: Float, alpha: float) -> Array:
    return np.where(x >= alpha, x, np.float32(0))
