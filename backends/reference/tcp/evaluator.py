"""
The table of evaluators of `tcp` ops, and helpers that several use.

Sizes and counts are not the formulas of `padc.ir.padding`: independent on purpose.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import torch
from xdsl.ir import Operation

Value: TypeAlias = Any
"""A `torch.Tensor`, a Python scalar, a string, None, or a list of these."""
Evaluator: TypeAlias = Callable[[Any, Sequence[Value]], Sequence[Value]]
"""Computes an op's results from the op and its operands."""

EVALUATORS: dict[type[Operation], Evaluator] = {}


def evaluates(*op_types: type[Operation]) -> Callable[[Evaluator], Evaluator]:
    """Register the evaluator of ops."""

    def register(evaluator: Evaluator) -> Evaluator:
        EVALUATORS.update(dict.fromkeys(op_types, evaluator))
        return evaluator

    return register


def wide(x: torch.Tensor) -> torch.Tensor:
    """`x` in the dtype that sums are made in."""
    if x.is_complex():
        return x.to(torch.complex128)
    return x.to(torch.float64 if x.is_floating_point() else torch.int64)


def windows(
    x: torch.Tensor,
    dims: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> Iterator[tuple[tuple[int, ...], torch.Tensor]]:
    """
    For each position in the kernel, the elements it meets, window by window.

    ValueError where the input has no room for a window.
    """
    for offsets in itertools.product(*map(range, kernel)):
        slices = [slice(None)] * x.dim()
        for dim, offset, size, stride, dilation in zip(
            dims, offsets, kernel, strides, dilations, strict=True
        ):
            count = len(range(dilation * (size - 1), x.shape[dim], stride))
            if count < 1:
                raise ValueError(
                    f"a window of {dilation * (size - 1) + 1} elements does not fit "
                    f"into dimension {dim}, of {x.shape[dim]}"
                )
            first = offset * dilation
            slices[dim] = slice(first, first + (count - 1) * stride + 1, stride)
        yield offsets, x[tuple(slices)]


def along(vector: torch.Tensor, dim: int, rank: int) -> torch.Tensor:
    """`vector` along dimension `dim` of `rank`."""
    return vector.reshape([-1 if d == dim else 1 for d in range(rank)])
