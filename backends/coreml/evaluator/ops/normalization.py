"""Normalizations, by the docstrings of coremltools' mil/ops/defs/iOS15/
normalization.py and iOS17/normalization.py (parameters of their own float type).
Variances are those of the population (divided by the count)."""

from math import prod

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from padc.backends.coreml.evaluator.ops.registry import Float, UnknownValueError, op
from padc.backends.coreml.evaluator.values import kernels
from padc.backends.coreml.evaluator.values.types import Array


@op()
def batch_norm(
    x: Float,
    mean: Float,
    variance: Float,
    gamma: Float | None = None,
    beta: Float | None = None,
    epsilon: float = 1e-5,
) -> Array:
    for values in (mean, variance, gamma, beta):
        if values is not None and values.shape != x.shape[1:2]:
            raise ValueError(f"{list(values.shape)} values for x {list(x.shape)}")
    return kernels.batch_norm(x, mean, variance, gamma, beta, epsilon)


def _mean(x: Array, axes: list[int]) -> Array:
    """The mean over `axes`, which stay."""
    count = np.float32(prod(x.shape[axis] for axis in axes))
    return kernels.total(x, axes, True) / count


def _normalize(
    x: Array,
    axes: list[int],
    gamma: Array | None,
    beta: Array | None,
    epsilon: float,
) -> Array:
    """Zero mean and unit variance over `axes`; gamma and beta broadcast against x."""
    y = x - _mean(x, axes)
    y = y * (1 / np.sqrt(_mean(y * y, axes) + epsilon))
    y = y if gamma is None else y * gamma
    return y if beta is None else y + beta


@op()
def instance_norm(
    x: Float,
    gamma: Float | None = None,
    beta: Float | None = None,
    epsilon: float = 1e-5,
) -> Array:
    axes = list(range(2, x.ndim))
    channels = [-1, *[1] * len(axes)]
    gamma = gamma if gamma is None else gamma.reshape(channels)
    beta = beta if beta is None else beta.reshape(channels)
    return _normalize(x, axes, gamma, beta, epsilon)


@op()
def layer_norm(
    x: Float,
    axes: list[int] | None = None,
    gamma: Float | None = None,
    beta: Float | None = None,
    epsilon: float = 1e-5,
) -> Array:
    axes = [axis % x.ndim for axis in axes or range(x.ndim)]
    if axes != sorted(axes) and (gamma is not None or beta is not None):
        raise UnknownValueError(f"axes {axes} out of order, with gamma or beta")
    shape = [size if axis in axes else 1 for axis, size in enumerate(x.shape)]
    gamma = gamma if gamma is None else gamma.reshape(shape)
    beta = beta if beta is None else beta.reshape(shape)
    return _normalize(x, axes, gamma, beta, epsilon)


@op()
def l2_norm(x: Float, epsilon: float = 1e-6) -> Array:
    squares = kernels.total(x * x, (-3, -2, -1), True)
    return x / np.sqrt(squares + epsilon)


@op()
def local_response_norm(
    x: Float, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Array:
    # The window of an even size has one channel more before the middle than after:
    # coremltools' tests expect what PyTorch computes (tests/iOS14/
    # test_normalization.py, TestNormalizationLocalResponseNorm, stress).
    rows = np.moveaxis(x * x, 1, -1)
    rows = kernels.pad(rows, [(size // 2, (size - 1) // 2)], 0.0)
    means = np.sum(sliding_window_view(rows, size, -1), -1) / size
    return x / np.power(np.moveaxis(means, -1, 1) * alpha + k, beta)
