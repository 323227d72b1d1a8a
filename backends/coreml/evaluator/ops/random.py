"""Random numbers, by the docstrings of coremltools' mil/ops/defs/iOS15/random.py.

Shape, type and distribution are those of Core ML, but not the numbers: its generators
are not documented. A seed other than -1 repeats the numbers in each run.
"""

from collections.abc import Sequence
from math import prod
from typing import Literal

import numpy as np

from padc.backends.coreml.evaluator.ops.registry import Float, op
from padc.backends.coreml.evaluator.values import kernels
from padc.backends.coreml.evaluator.values.dataless import Dataless, is_dataless
from padc.backends.coreml.evaluator.values.limits import allowed, steps
from padc.backends.coreml.evaluator.values.types import Array


def _generator(seed: int) -> np.random.Generator:
    return np.random.default_rng(None if seed == -1 else seed % 2**64)


def _uniform(shape: Sequence[int], seed: int) -> Array:
    return _generator(seed).random(allowed(*shape), np.float32)


@op()
def random_bernoulli(shape: list[int], prob: float = 0.5, seed: int = -1) -> Array:
    return (_uniform(shape, seed) < prob).astype(np.float32)


@op()
def random_categorical(
    x: Float,
    mode: Literal["logits", "probs"] = "logits",
    size: int = 1,
    seed: int = -1,
) -> Array:
    shape = allowed(*x.shape[:-1], size)
    if is_dataless(x):
        return Dataless(shape, np.float32)
    weights = kernels.softmax(x, -1) if mode == "logits" else x
    rows = weights.reshape(prod(x.shape[:-1]), x.shape[-1]).astype(np.float64)
    totals = np.sum(rows, -1)
    if not (np.all(rows >= 0) and np.all((totals > 0) & np.isfinite(totals))):
        raise ValueError("the probabilities are negative, not finite, or all 0")
    generator = _generator(seed)
    drawn = np.empty((len(rows), size), np.float32)
    for n in steps(len(rows)):
        points = generator.random(size) * totals[n]
        drawn[n] = np.searchsorted(np.cumsum(rows[n]), points, "right")
    return np.minimum(drawn, x.shape[-1] - 1).reshape(shape)


@op()
def random_normal(
    shape: list[int], mean: float = 0.0, stddev: float = 1.0, seed: int = -1
) -> Array:
    normal = _generator(seed).standard_normal(allowed(*shape), np.float32)
    return normal * np.float32(stddev) + np.float32(mean)


@op()
def random_uniform(
    shape: list[int], low: float = 0.0, high: float = 1.0, seed: int = -1
) -> Array:
    return _uniform(shape, seed) * np.float32(high - low) + np.float32(low)
