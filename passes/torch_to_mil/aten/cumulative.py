"""
Cumulative ops: sums, products, extremes and logarithms of sums along a dimension.

Core ML has cumulative sums only. Others are scans.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import TypeAlias

from xdsl.dialects.builtin import DYNAMIC_INDEX

from padc.errors import Obstacle
from padc.ir.element_types import wide
from padc.passes.aten.elementwise_bodies import logaddexp
from padc.passes.torch_to_mil.aten.mil_call import MilCall, lowers
from padc.passes.torch_to_mil.aten.movement import (
    broadcast_to,
    concat,
    positions,
    sizes_of,
    slice_dim,
    split,
)
from padc.passes.torch_to_mil.aten.reductions import as_wide_result, zero
from padc.passes.torch_to_mil.aten.tensor import Tensor, as_number

Parts: TypeAlias = Sequence[Tensor]
"""The tensors that a scan combines: one, or values and their indices."""

Combine: TypeAlias = Callable[[Parts, Parts], Parts]
"""Combines what is known of a range of elements and of the range after it."""

SEQUENTIAL = 8
"""The longest dimension along which a scan takes one step for each element."""


def scan(parts: Parts, dim: int, combine: Combine) -> Parts:
    """
    Combine each element along `dim` with all elements before it.

    Short dimensions take the elements in order. For others, the range that an element
    stands for doubles in each step (W. Hillis, G. Steele, "Data parallel algorithms",
    Communications of the ACM 29, 1986), which needs `combine` to be associative.
    """
    size = parts[0].shape[dim]
    if size == DYNAMIC_INDEX:
        raise Obstacle(
            f"the size of dimension {dim} varies, along which it accumulates",
            "export the model with a fixed size there",
        )
    if 0 in parts[0].shape:
        raise Obstacle("its result has no elements", "leave it out")
    if size <= SEQUENTIAL:
        elements = zip(*(split(part, [1] * size, dim) for part in parts))
        return [concat(each, dim) for each in zip(*accumulate(elements, combine))]
    step = 1
    while step < size:
        earlier = [slice_dim(part, dim, 0, size - step) for part in parts]
        later = [slice_dim(part, dim, step, size) for part in parts]
        starts = [slice_dim(part, dim, 0, step) for part in parts]
        both = combine(earlier, later)
        parts = [concat(pair, dim) for pair in zip(starts, both)]
        step *= 2
    return parts


@lowers("aten.cumsum")
def lower_cumulative_sum(call: MilCall) -> Tensor:
    x = as_number(as_wide_result(call))
    if not x.rank:
        return x
    y = x.emit("cumsum", x.shape, x=x, axis=call.dim("dim", x.rank))
    return y.wrapped(y)


@lowers("aten.cumprod")
def lower_cumulative_product(call: MilCall) -> Tensor:
    x = as_number(as_wide_result(call))
    if not x.rank:
        return x
    return scan([x], call.dim("dim", x.rank), lambda a, b: [a[0] * b[0]])[0]


@lowers("aten.logcumsumexp")
def lower_cumulative_logsumexp(call: MilCall) -> Tensor:
    x = call.tensor("self").to(wide(call.result_element_type()))
    if not x.rank:
        return x

    def combine(a: Parts, b: Parts) -> Parts:
        total = logaddexp(a[0], b[0])
        assert isinstance(total, Tensor)
        return [total]

    return scan([x], call.dim("dim", x.rank), combine)[0]


@lowers("aten.cummax", "aten.cummin")
def lower_cumulative_extreme(call: MilCall) -> Parts:
    """The extremes so far, and the index of the last of equal ones, or of the NaNs."""
    x = as_number(call.tensor("self"))
    if not x.rank:
        return [x, zero(x)]
    dim, predicate = call.dim("dim", x.rank), "ge" if "max" in call.name else "le"
    indices = broadcast_to(positions(x, dim), sizes_of(x))

    def combine(a: Parts, b: Parts) -> Parts:
        later = b[0].compare(a[0], predicate)
        later = later | b[0].is_nan() if b[0].is_float else later
        return [later.select(new, old) for old, new in zip(a, b)]

    return scan([x, indices], dim, combine)
