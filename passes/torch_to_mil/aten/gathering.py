"""Ops that read elements at positions that a tensor gives."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np
from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import SSAValue

from padc.errors import Obstacle
from padc.ir import mil
from padc.ir.tcp import tensor_type
from padc.passes.torch_to_mil.aten.indices import (
    Index,
    Indexed,
    as_tensor,
    common_sizes,
    count_true,
    flat,
    flattened,
    gathered,
    gathered_along,
    given_indices,
    index_of,
    wrapped,
)
from padc.passes.torch_to_mil.aten.masks import is_written_back
from padc.passes.torch_to_mil.aten.mil_call import MilCall, lowers
from padc.passes.torch_to_mil.aten.movement import (
    Size,
    broadcast_to,
    size_of,
    static,
    vector,
)
from padc.passes.torch_to_mil.aten.tensor import Tensor, as_number


def has_same_size(x: Tensor, y: Index, dim: int) -> bool:
    """Whether two tensors are known to have the same size in a dimension."""
    if x.shape[dim] != y.shape[dim]:
        return False
    if x.shape[dim] != DYNAMIC_INDEX:
        return True
    assert isinstance(y, Tensor)
    return size_source(x.ssa, dim) is size_source(y.ssa, dim)


def size_source(x: SSAValue, dim: int) -> SSAValue:
    """The first tensor known to have the size of `x` in a dynamic dimension."""
    while isinstance(owner := x.owner, mil.MilOp):
        if owner.name.removeprefix("mil.") not in SIZE_KEEPING:
            break
        for operand in owner.arguments:
            shape = tensor_type(operand).get_shape()
            same_rank = len(shape) == tensor_type(x).get_num_dims()
            if same_rank and shape[dim] == DYNAMIC_INDEX:
                x = operand
                break
        else:
            break
    return x


SIZE_KEEPING = frozenset(
    (
        *("abs", "add", "argsort", "cast", "cumsum", "equal", "exp", "floor_div"),
        *("greater", "greater_equal", "less", "less_equal", "logical_and"),
        *("logical_not", "logical_or", "maximum", "minimum", "mod", "mul"),
        *("not_equal", "real_div", "reduce_argmax", "reduce_argmin", "relu"),
        *("select", "sigmoid", "softmax", "sub", "topk"),
    )
)
"""Ops whose result has the dynamic sizes of an operand of the same rank."""


def cut(x: Tensor, like: Index, axis: int | None) -> Tensor:
    """The beginning of `x`, with the sizes of `like`; all of `x` along `axis`."""
    if all(dim == axis or has_same_size(x, like, dim) for dim in range(x.rank)):
        return x
    sizes: list[Size] = [
        size_of(x if dim == axis or not isinstance(like, Tensor) else like, dim)
        for dim in range(x.rank)
    ]
    if not isinstance(like, Tensor):
        sizes = [sizes[d] if d == axis else n for d, n in enumerate(like.shape)]
    begin, size = [0] * x.rank, vector(x.build, sizes)
    return x.emit("slice_by_size", static(sizes), x=x, begin=begin, size=size)


@lowers("aten.index_select")
def lower_index_select(call: MilCall) -> Tensor:
    x = as_number(call.tensor("self"))
    index = flat(index_of(call, call.op.arg("index")))
    if not x.rank:
        return x
    return gathered(x, index, call.dim("dim", x.rank))


@lowers("aten.embedding")
def lower_embedding(call: MilCall) -> Tensor:
    table, index = call.tensor("weight"), index_of(call, call.op.arg("indices"))
    return gathered(as_number(table), index, 0)


@lowers("aten.gather")
def lower_gather(call: MilCall) -> Tensor:
    x, index = as_number(call.tensor("self")), index_of(call, call.op.arg("index"))
    if x.rank < 2:
        return gathered(flattened(x), index, 0)
    dim = call.dim("dim", x.rank)
    return gathered_along(cut(x, index, dim), index, dim)


@lowers("aten.take")
def lower_take(call: MilCall) -> Tensor:
    x = flattened(as_number(call.tensor("self")))
    index = index_of(call, call.op.arg("index"))
    return gathered(x, wrapped(index, size_of(x, 0)), 0)


@lowers("aten.combinations")
def lower_combinations(call: MilCall) -> Tensor:
    """A row for each choice of elements of a vector, in its order."""
    x, count = as_number(call.tensor("self")), call.integer("r")
    if x.shape[0] == DYNAMIC_INDEX:
        raise Obstacle("combinations of a number that varies", "give a static size")
    places = range(x.shape[0])
    if call.boolean("with_replacement"):
        chosen = list(itertools.combinations_with_replacement(places, count))
    else:
        chosen = list(itertools.combinations(places, count))
    return gathered(x, np.array(chosen, np.int32), 0)


@lowers("aten.take_along_dim")
def lower_take_along_dim(call: MilCall) -> Tensor:
    """`indices` and `self` broadcast, except along `dim`."""
    x, index = as_number(call.tensor("self")), index_of(call, call.op.arg("indices"))
    if not call.has("dim"):
        return gathered(flattened(x), flat(index), 0)
    dim = call.dim("dim", x.rank)
    index = wrapped(index, size_of(x, dim))
    if x.rank < 2:
        return gathered(flattened(x), index, 0)
    sizes = common_sizes([x, index])
    x, index = (
        broadcast_to(each, [*sizes[:dim], size_of(each, dim), *sizes[dim + 1 :]])
        for each in (x, as_tensor(x.build, index))
    )
    return gathered_along(x, index, dim)


@lowers("aten.index.Tensor", "aten._unsafe_index.Tensor")
@lowers("aten.index.Tensor_hacked_twin", "aten._unsafe_index.Tensor_hacked_twin")
def lower_index(call: MilCall) -> Tensor | None:
    if is_written_back(call.op):
        return None
    x = as_number(call.tensor("self"))
    return selected(x, given_indices(call, x))


def selected(x: Tensor, given: Mapping[int, Index]) -> Tensor:
    """The elements of `x` at positions given for some dimensions."""
    if not given:
        return x
    if len(given) == 1:
        ((dim, index),) = given.items()
        return gathered(x, index, dim)
    where = Indexed.of(x, given)
    if where.is_grid:
        result = where.x
        for dim, index in enumerate(where.indices, where.first):
            result = gathered(result, flat(index), dim)
        return result
    if where.is_leading:
        shape = static(where.result_sizes)
        return x.emit("gather_nd", shape, x=where.x, indices=where.stacked())
    return gathered(where.joined(), where.linear(), where.first)


@lowers("aten._unsafe_masked_index")
def lower_masked_index(call: MilCall) -> Tensor:
    """Indices out of range, where `mask` is false, are clamped; `fill` stands there."""
    x, mask = as_number(call.tensor("self")), call.tensor("mask")
    given = {
        dim: clamped(index, size_of(x, dim))
        for dim, index in given_indices(call, x, wrap=False).items()
    }
    return mask.select(selected(x, given), call.number("fill"))


def clamped(index: Index, size: Size) -> Index:
    """Positions of a dimension of `size` elements, made in range."""
    if isinstance(index, Tensor):
        return index.maximum(0).minimum(size - 1)
    if isinstance(size, int):
        return index.clip(0, size - 1)
    return (size - 1).minimum(as_tensor(size.build, index.clip(0)))


@lowers("aten.repeat_interleave.self_Tensor")
def lower_repeat_interleave(call: MilCall) -> Tensor:
    """Each element along `dim` as often as `repeats` says."""
    x = as_number(call.tensor("self"))
    x = x if call.has("dim") else flattened(x)
    dim = call.dim("dim", x.rank) if call.has("dim") else 0
    return gathered(x, repeated(call, x.shape[dim]), dim)


@lowers("aten.repeat_interleave.Tensor")
def lower_repeated_positions(call: MilCall) -> Tensor:
    """Each position as often as `repeats` says there."""
    (size,) = call.tensor("repeats").shape
    return as_tensor(call.build, repeated(call, size))


def repeated(call: MilCall, size: int) -> Index:
    """The position that each element of the result repeats."""
    repeats = call.known_array(call.op.arg("repeats"))
    if repeats is not None and size != DYNAMIC_INDEX:
        return np.repeat(np.arange(size, dtype=np.int32), repeats)
    if not call.has("output_size") or call.tensor("repeats").shape == (1,):
        raise Obstacle(
            "repeats that are computed, on which the size of the result depends",
            "make repeats a constant, or give output_size",
        )
    ends = call.tensor("repeats")
    ends = ends.emit("cumsum", ends.shape, x=ends, axis=0)
    count = call.integer("output_size")
    place = call.constant_tensor(np.arange(count).reshape(-1, 1), ends.type)
    return count_true(place >= ends)
