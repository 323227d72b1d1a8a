"""Random numbers, by the docstrings of coremltools' mil/ops/defs/iOS15/random.py.

Shape, type and distribution are those of Core ML, but not the numbers: its generators
are not documented. A seed other than -1 repeats the numbers in each run.
"""

from typing import Literal

import torch
from torch import Tensor

from padc.backends.coreml.evaluator.ops.registry import Float, op


def _generator(seed: int) -> torch.Generator | None:
    return None if seed == -1 else torch.Generator().manual_seed(seed)


@op()
def random_bernoulli(shape: list[int], prob: float = 0.5, seed: int = -1) -> Tensor:
    return torch.rand(shape, generator=_generator(seed)).lt(prob).to(torch.float32)


@op()
def random_categorical(
    x: Float,
    mode: Literal["logits", "probs"] = "logits",
    size: int = 1,
    seed: int = -1,
) -> Tensor:
    weights = torch.softmax(x, -1) if mode == "logits" else x
    drawn = torch.multinomial(
        weights.reshape(-1, x.shape[-1]), size, True, generator=_generator(seed)
    )
    return drawn.reshape(*x.shape[:-1], size).to(torch.float32)


@op()
def random_normal(
    shape: list[int], mean: float = 0.0, stddev: float = 1.0, seed: int = -1
) -> Tensor:
    return torch.randn(shape, generator=_generator(seed)) * stddev + mean


@op()
def random_uniform(
    shape: list[int], low: float = 0.0, high: float = 1.0, seed: int = -1
) -> Tensor:
    return torch.rand(shape, generator=_generator(seed)) * (high - low) + low
