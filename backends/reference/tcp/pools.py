"""
Pools: the maximum of each window, its position, and the mean of counted elements.

Sizes and counts are not the formulas of `padc.ir.padding`: independent on purpose.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from padc.backends.reference.tcp.evaluator import Value, evaluates
from padc.backends.reference.tcp.windows import along, wide, windows
from padc.ir import tcp


def max_pool(
    x: torch.Tensor,
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    dims: Sequence[int],
) -> torch.Tensor:
    """`tcp.max_pool`."""
    taps = (tap for _, tap in windows(x, dims, kernel, strides, dilations))
    result = next(taps)
    for tap in taps:
        result = torch.maximum(result, tap)
    return result


def avg_pool(
    x: torch.Tensor,
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    dims: Sequence[int],
    uncounted: Sequence[tuple[int, int]],
    divisor: int | None,
) -> torch.Tensor:
    """`tcp.avg_pool`: the sum of each window, divided by the count of its elements."""
    taps = [tap for _, tap in windows(wide(x), dims, kernel, strides, dilations)]
    total = torch.stack(taps).sum(0)
    divisors = torch.tensor(1 if divisor is None else divisor)
    if divisor is None:
        for dim, size, stride, dilation, (lower, upper) in zip(
            dims, kernel, strides, dilations, uncounted, strict=True
        ):
            counted = range(lower, x.shape[dim] - upper)
            counts = [
                sum(first + tap * dilation in counted for tap in range(size))
                for first in range(0, x.shape[dim] - dilation * (size - 1), stride)
            ]
            divisors = divisors * along(torch.tensor(counts), dim, x.dim())
    if x.is_floating_point():
        return (total / divisors).to(x.dtype)
    return torch.div(total, divisors, rounding_mode="trunc").to(x.dtype)


def arg_max_pool(
    x: torch.Tensor,
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    dims: Sequence[int],
    uncounted: Sequence[tuple[int, int]],
) -> torch.Tensor:
    """`tcp.arg_max_pool`: tap by tap, a larger element replaces the largest so far."""
    counted = [
        x.shape[dim] - lower - upper
        for dim, (lower, upper) in zip(dims, uncounted, strict=True)
    ]
    firsts = [
        [n - lower for n in range(0, x.shape[dim] - dilation * (size - 1), stride)]
        for dim, size, stride, dilation, (lower, _) in zip(
            dims, kernel, strides, dilations, uncounted, strict=True
        )
    ]

    def positions(places: Sequence[Sequence[int]]) -> torch.Tensor:
        """The positions, among those counted, of a place in each window."""
        flat = torch.zeros((), dtype=torch.int64)
        for dim, size, each in zip(dims, counted, places, strict=True):
            flat = flat * size + along(torch.tensor(each), dim, x.dim())
        return flat

    starts = [
        [first if first >= 0 else first % dilation for first in each]
        for each, dilation in zip(firsts, dilations, strict=True)
    ]
    largest = where = None
    for offsets, tap in windows(x, dims, kernel, strides, dilations):
        if largest is None or where is None:
            largest = torch.full_like(tap, least_value(x.dtype))
            where = positions(starts).expand(tap.shape)
        here = [
            [first + offset * dilation for first in each]
            for each, offset, dilation in zip(firsts, offsets, dilations, strict=True)
        ]
        takes_over = (tap > largest) | tap.isnan()
        largest = torch.where(takes_over, tap, largest)
        where = torch.where(takes_over, positions(here), where)
    assert where is not None
    return where


def least_value(dtype: torch.dtype) -> float | int:
    """The least value of a dtype."""
    return -math.inf if dtype.is_floating_point else torch.iinfo(dtype).min


@evaluates(tcp.MaxPoolOp)
def evaluate_max_pool(op: tcp.MaxPoolOp, args: Sequence[Value]) -> Sequence[Value]:
    (x,) = args
    return [max_pool(x, *_window(op))]


@evaluates(tcp.AvgPoolOp)
def evaluate_avg_pool(op: tcp.AvgPoolOp, args: Sequence[Value]) -> Sequence[Value]:
    (x,) = args
    divisor = None if op.divisor is None else op.divisor.value.data
    return [avg_pool(x, *_window(op), op.uncounted, divisor)]


@evaluates(tcp.ArgMaxPoolOp)
def evaluate_arg_max_pool(
    op: tcp.ArgMaxPoolOp, args: Sequence[Value]
) -> Sequence[Value]:
    (x,) = args
    return [arg_max_pool(x, *_window(op), op.uncounted)]


def _window(
    op: tcp.PoolOp,
) -> tuple[Sequence[int], Sequence[int], Sequence[int], Sequence[int]]:
    """Kernel, strides, dilations and dims."""
    return (
        op.kernel.get_values(),
        op.strides.get_values(),
        op.dilations.get_values(),
        op.dims.get_values(),
    )
