"""
Sorting: orders, the k greatest, medians, modes and quantiles.

Core ML does not say in which order equal elements come, nor where NaN comes; PyTorch
says the former of stable sorts only, and puts NaN after all numbers.
"""

from __future__ import annotations

import math

import numpy as np
from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType, i1, i32

from padc.errors import Obstacle
from padc.ir import mil
from padc.passes.torch_to_mil.aten.mil_call import MilCall, lowers
from padc.passes.torch_to_mil.aten.movement import (
    Size,
    expand_dims,
    positions,
    size_of,
    slice_dim,
    squeeze,
)
from padc.passes.torch_to_mil.aten.parts import steps
from padc.passes.torch_to_mil.aten.reductions import (
    flat,
    index_of_extreme,
    keeps,
    reduce,
    zero,
)
from padc.passes.torch_to_mil.aten.tensor import Tensor, as_number, computed_type

# --- building blocks ------------------------------------------------------------------


def top(x: Tensor, count: int, dim: int, greatest: bool) -> tuple[Tensor, Tensor]:
    """The `count` greatest or least elements along `dim`, and their indices."""
    shape = [*x.shape[:dim], count, *x.shape[dim + 1 :]]
    if 0 in shape:
        raise Obstacle("its result has no elements", "leave it out")
    types = [TensorType(element, shape) for element in (computed_type(x.type), i32)]
    op = mil.op("topk", types, x=x.ssa, k=count, axis=dim, ascending=not greatest)
    op.verify_()
    op.check(x.build.target)
    values, indices = x.build.insert_all(op)
    return x.like(values), Tensor(x.build, indices, i32)


def order(x: Tensor, dim: int, descending: bool) -> Tensor:
    """The indices that sort `x` along `dim`."""
    return x.emit("argsort", x.shape, i32, x=x, axis=dim, ascending=not descending)


def take(x: Tensor, indices: Tensor, dim: int) -> Tensor:
    """The elements of `x` at `indices` along `dim`, for each place along others."""
    return x.emit("gather_along_axis", indices.shape, x=x, indices=indices, axis=dim)


def sorted_along(x: Tensor, dim: int, descending: bool) -> tuple[Tensor, Tensor]:
    """`x` sorted along `dim`, and the indices of its elements."""
    if (size := x.shape[dim]) != DYNAMIC_INDEX:
        return top(x, size, dim, descending)
    indices = order(x, dim, descending)
    return take(x, indices, dim), indices


ONE_STEP = math.isqrt(2**31)
"""The longest dimension of which a number of a group and a place make one int32."""
SHARE = 2**15
LONGEST = 40 * SHARE - 1
"""The longest dimension that two steps sort: both keys are below 2**31."""


def in_order_of_index(values: Tensor, indices: Tensor, dim: int) -> Tensor:
    """
    The indices of sorted values, with those of equal values in ascending order.

    Equal values get a number, and what is sorted are keys of this number and the index.
    Where such keys may exceed int32, the elements are first sorted by the part of the
    dimension that they come from, so that groups of equal numbers become small. There
    are size / part parts of part = (size // SHARE + 1)**2 elements, at least
    (size / SHARE)**2: the first keys are below size * (SHARE**2 / size + 1), the second
    ones below size * part.
    """
    size = size_of(values, dim)
    if isinstance(size, int) and size > LONGEST:
        raise Obstacle(
            f"a stable sort of {size} elements; Core ML's int32 suffices for {LONGEST}",
            "sort without stable=True",
        )
    if size == 1:
        return indices
    number = numbered(values, dim)
    if isinstance(size, int) and size <= ONE_STEP:
        keys, _ = sorted_along(number * size + indices, dim, False)
        return keys.binary("mod", size)
    length = number.lifted(size)
    shares = length // SHARE + 1
    part = shares * shares
    keys = number * (length // part + 1) + indices.binary("floor_div", part)
    keys, places = sorted_along(keys, dim, False)
    indices = take(indices, places, dim)
    keys = numbered(keys, dim) * part + indices.binary("mod", part)
    return take(indices, sorted_along(keys, dim, False)[1], dim)


def numbered(values: Tensor, dim: int) -> Tensor:
    """For each of sorted values, how many before it differ from the one after them."""
    before = (steps(values, 0, size_of(values, dim)) - 1).maximum(0)
    earlier = values.emit("gather", values.shape, x=values, indices=before, axis=dim)
    differs = values.differs(earlier)
    if values.is_float:
        # NaN differs from NaN.
        differs = differs & (values.equals(values) | earlier.equals(earlier))
    changes = differs.to(i32)
    return changes.emit("cumsum", changes.shape, x=changes, axis=dim)


def at(x: Tensor, dim: int, position: Size, keepdim: bool) -> Tensor:
    """The elements of `x` at one position along `dim`."""
    if isinstance(position, int):
        part = slice_dim(x, dim, position, position + 1)
        return part if keepdim else squeeze(part, [dim])
    shape = [*x.shape[:dim], *x.shape[dim + 1 :]]
    part = x.emit("gather", shape, x=x, indices=position, axis=dim)
    return expand_dims(part, [dim]) if keepdim else part


# --- sorts ----------------------------------------------------------------------------


@lowers("aten.sort", "aten.sort.stable")
def lower_sort(call: MilCall) -> list[Tensor]:
    x = as_number(call.tensor("self"))
    if not x.rank:
        return [x, zero(x)]
    dim = call.dim("dim", x.rank)
    values, indices = sorted_along(x, dim, call.boolean("descending"))
    if is_stable(call) and any(call.op.results[1].uses):
        indices = in_order_of_index(values, indices, dim)
    return [values, indices]


def is_stable(call: MilCall) -> bool:
    return call.has("stable") and call.boolean("stable")


@lowers("aten.argsort", "aten.argsort.stable")
def lower_argsort(call: MilCall) -> Tensor:
    x = as_number(call.tensor("self"))
    if not x.rank:
        return zero(x)
    dim, descending = call.dim("dim", x.rank), call.boolean("descending")
    if is_stable(call):
        return in_order_of_index(*sorted_along(x, dim, descending), dim)
    return order(x, dim, descending)


@lowers("aten.msort")
def lower_msort(call: MilCall) -> Tensor:
    x = as_number(call.tensor("self"))
    return sorted_along(x, 0, False)[0] if x.rank else x


@lowers("aten.topk")
def lower_topk(call: MilCall) -> list[Tensor]:
    x = as_number(call.tensor("self"))
    if not x.rank:
        return [x, zero(x)]
    count = call.integer("k")
    return [*top(x, count, call.dim("dim", x.rank), call.boolean("largest"))]


@lowers("aten.kthvalue")
def lower_kth_value(call: MilCall) -> list[Tensor]:
    x = as_number(call.tensor("self"))
    if not x.rank:
        return [x, zero(x)]
    dim, number = call.dim("dim", x.rank), call.integer("k")
    least = top(x, number, dim, False)
    return [at(each, dim, number - 1, keeps(call)) for each in least]


# --- medians and modes ----------------------------------------------------------------


def median(x: Tensor, dim: int, keepdim: bool) -> tuple[Tensor, Tensor]:
    """The lower median and its index; the first NaN and its index if there is one."""
    x, size = as_number(x), size_of(x, dim)
    if isinstance(size, int):
        middle: Size = (size - 1) // 2
        least = top(x, middle + 1, dim, False)
    else:
        middle = (size - 1).binary("floor_div", 2)
        least = sorted_along(x, dim, False)
    value, index = (at(each, dim, middle, keepdim) for each in least)
    if not x.is_float:
        return value, index
    nan = x.is_nan()
    has_nan = reduce("max", nan.to(i32), [dim], keepdim).to(i1)
    first = index_of_extreme(nan, dim, keepdim, True)
    return has_nan.select(math.nan, value), has_nan.select(first, index)


def median_of_numbers(x: Tensor, dim: int, keepdim: bool) -> tuple[Tensor, Tensor]:
    """The lower median of the elements that are not NaN; NaN if all are NaN."""
    if not x.is_float:
        return median(x, dim, keepdim)
    numbers, count = without_nan(x, dim)
    middle = (count - 1).maximum(0).binary("floor_div", 2)
    value, index = (take(y, middle, dim) for y in sorted_along(numbers, dim, False))
    value = count.equals(0).select(math.nan, value)
    if keepdim:
        return value, index
    return squeeze(value, [dim]), squeeze(index, [dim])


def without_nan(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """`x` with infinity for NaN, which sorts to the end; the count of others."""
    is_number = x.equals(x)
    count = reduce("sum", is_number.to(i32), [dim], True)
    return is_number.select(x, math.inf), count


@lowers("aten.median", "aten.nanmedian", "aten.median.dim", "aten.nanmedian.dim")
def lower_median(call: MilCall) -> list[Tensor]:
    x = call.tensor("self")
    if not x.rank:
        return [x, zero(x)][: len(call.op.results)]
    find = median_of_numbers if "nan" in call.name else median
    if not call.has("dim"):
        return [find(flat(x), 0, False)[0]]
    return [*find(x, call.dim("dim", x.rank), keeps(call))]


@lowers("aten.mode")
def lower_mode(call: MilCall) -> list[Tensor]:
    """
    The least of the most frequent elements, and the index of its last occurrence.

    Each element is compared with each one.
    """
    x, keepdim = as_number(call.tensor("self")), keeps(call)
    if not x.rank:
        return [x, zero(x)]
    dim = call.dim("dim", x.rank)
    if x.rank == mil.MAX_RANK:
        raise Obstacle(f"a mode of a tensor of rank {x.rank}", "join dimensions before")
    same = expand_dims(x, [dim]).equals(expand_dims(x, [dim + 1]))
    number = reduce("sum", same.to(i32), [dim], False)
    is_mode = number.equals(reduce("max", number, [dim], True))
    greatest = math.inf if x.is_float else np.iinfo(np.int32).max
    value = reduce("min", is_mode.select(x, greatest), [dim], True)
    places = x.equals(value).to(i32) * positions(x, dim)
    index = reduce("max", places, [dim], keepdim)
    return [value if keepdim else squeeze(value, [dim]), index]
