"""Resampling: one dimension after the other, a weighted sum of elements."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from padc.backends.reference.tcp.evaluator import Value, evaluates
from padc.backends.reference.tcp.taps import taps
from padc.backends.reference.tcp.windows import along, wide
from padc.ir import tcp
from padc.ir.tcp import ResampleMode, Sampling


def resample(
    x: torch.Tensor,
    sizes: Sequence[int],
    dims: Sequence[int],
    samplings: Sequence[Sampling],
) -> torch.Tensor:
    """`tcp.resample`: one dimension after the other, a weighted sum of elements."""
    real = np.float64 if x.dtype == torch.float64 else np.float32
    is_nearest = samplings[0].mode is ResampleMode.NEAREST
    y = x if is_nearest else wide(x)
    for dim, new_size, sampling in zip(dims, sizes, samplings, strict=True):
        parts: list[torch.Tensor] = []
        for index, weight in taps(x.shape[dim], new_size, sampling, real):
            part = y.index_select(dim, torch.as_tensor(index))
            if weight is not None:
                weights = torch.as_tensor(weight.astype(np.float64))
                part = part * along(weights, dim, y.dim())
            parts.append(part)
        y = parts[0] if len(parts) == 1 else torch.stack(parts).sum(0)
    return y.to(x.dtype)


@evaluates(tcp.ResampleOp)
def evaluate_resample(op: tcp.ResampleOp, args: Sequence[Value]) -> Sequence[Value]:
    x, *dynamic = args
    given = iter(dynamic)
    sizes = [size if isinstance(size, int) else next(given) for size in op.sizes]
    dims = op.dims.get_values()
    return [resample(x, sizes, dims, [op.sampling(i) for i in range(len(dims))])]
