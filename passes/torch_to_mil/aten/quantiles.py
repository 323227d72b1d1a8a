"""Quantiles, which are sorted elements at fractional positions."""

from __future__ import annotations

import math

import numpy as np
from xdsl.dialects.builtin import f32, i1, i32

from padc.passes.aten.elementwise_bodies import lerp
from padc.passes.torch_to_mil.aten.mil_call import MilCall, lowers
from padc.passes.torch_to_mil.aten.movement import (
    expand_dims,
    reshape,
    size_of,
    squeeze,
    transpose,
)
from padc.passes.torch_to_mil.aten.reductions import flat, keeps, reduce
from padc.passes.torch_to_mil.aten.sorting import sorted_along, take, without_nan
from padc.passes.torch_to_mil.aten.tensor import Tensor


@lowers("aten.quantile", "aten.quantile.scalar")
@lowers("aten.nanquantile", "aten.nanquantile.scalar")
def lower_quantile(call: MilCall) -> Tensor:
    """
    The element at position q (n - 1) of n sorted elements; NaN if any is NaN.

    nanquantile ignores NaN; the quantile of nothing but NaN is NaN.
    """
    given, way = call.tensor("self"), call.constant("interpolation")
    x = given if call.has("dim") else flat(given)
    x = x if x.rank else expand_dims(x, [0])
    dim = call.dim("dim", x.rank) if call.has("dim") else 0
    q = fractions(call, x.rank, dim)
    if call.name.startswith("aten.nan"):
        x, count = without_nan(x, dim)
        position = (q * (count.to(f32) - 1)).maximum(0)
        is_nan = count.equals(0)
    else:
        size = size_of(x, dim)
        position = q * (size - 1 if isinstance(size, int) else (size - 1).to(f32))
        is_nan = reduce("max", x.is_nan().to(i32), [dim], True).to(i1)
    found = interpolated(sorted_along(x, dim, False)[0], position, dim, str(way))
    return arranged(call, is_nan.select(math.nan, found), dim)


def fractions(call: MilCall, rank: int, dim: int) -> Tensor:
    """The argument q along `dim`, with size 1 along other dimensions."""
    if not call.is_tensor("q"):
        return call.constant_tensor(np.full([1] * rank, call.number("q")), f32)
    q = call.tensor("q").to(f32)
    if not q.rank:
        return expand_dims(q, range(rank))
    return reshape(q, [q.shape[0] if d == dim else 1 for d in range(rank)])


ROUNDED = {"lower": "floor", "higher": "ceil", "nearest": "round"}
"""The function that turns a position into an index."""


def interpolated(x: Tensor, position: Tensor, dim: int, way: str) -> Tensor:
    """The elements of `x` at fractional positions along `dim`."""
    if way in ROUNDED:
        return pick(x, position.apply(ROUNDED[way]), dim)
    below = position.apply("floor")
    low, high = pick(x, below, dim), pick(x, position.apply("ceil"), dim)
    made = lerp(low, high, 0.5 if way == "midpoint" else position - below)
    assert isinstance(made, Tensor)
    return made


def pick(x: Tensor, position: Tensor, dim: int) -> Tensor:
    """The elements of `x` at whole positions along `dim`."""
    index = position.to(i32)
    if any(size != 1 for d, size in enumerate(index.shape) if d != dim):
        return take(x, index, dim)
    vector = reshape(index, [index.shape[dim]])
    shape = [*x.shape[:dim], index.shape[dim], *x.shape[dim + 1 :]]
    return x.emit("gather", shape, x=x, indices=vector, axis=dim)


def arranged(call: MilCall, found: Tensor, dim: int) -> Tensor:
    """The quantiles along `dim` as PyTorch orders them: those of a vector q first."""
    rank = call.tensor("self").rank
    kept = [dim] if call.has("dim") else list(range(rank))
    kept = kept if keeps(call) and rank else []
    if not (call.is_tensor("q") and call.tensor("q").rank):
        return expand_dims(squeeze(found, [dim]), kept)
    others = [d for d in range(found.rank) if d != dim]
    return expand_dims(transpose(found, [dim, *others]), [d + 1 for d in kept])
