"""Interleaving: each part is written to its slice of the result."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch

from padc.backends.reference.tcp.evaluator import Value, evaluates
from padc.ir import tcp


def interleave(
    parts: Sequence[torch.Tensor], strides: Sequence[int], dims: Sequence[int]
) -> torch.Tensor:
    """`tcp.interleave`: the parts are in row-major order of their phases."""
    phases = list(itertools.product(*map(range, strides)))
    sizes = list(parts[0].shape)
    for i, dim in enumerate(dims):
        sizes[dim] = sum(
            part.shape[dim]
            for part, phase in zip(parts, phases, strict=True)
            if not any(phase[:i] + phase[i + 1 :])
        )
    y = parts[0].new_empty(sizes)
    for part, phase in zip(parts, phases, strict=True):
        places = [slice(None)] * y.dim()
        for dim, first, stride in zip(dims, phase, strides, strict=True):
            places[dim] = slice(first, None, stride)
        y[tuple(places)] = part
    return y


@evaluates(tcp.InterleaveOp)
def evaluate_interleave(op: tcp.InterleaveOp, args: Sequence[Value]) -> Sequence[Value]:
    return [interleave(args, op.strides.get_values(), op.dims.get_values())]
