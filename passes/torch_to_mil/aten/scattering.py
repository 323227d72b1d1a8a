"""Ops that write elements at positions that a tensor gives."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
from xdsl.dialects.builtin import DYNAMIC_INDEX, i1
from xdsl.ir import Attribute, Operation, SSAValue

from padc.ir.element_types import is_float, is_unsigned, least_value, width
from padc.passes.torch_to_mil.aten.gathering import clamped, cut, has_same_size
from padc.passes.torch_to_mil.aten.indices import (
    Index,
    Indexed,
    as_tensor,
    flat,
    flattened,
    given_indices,
    index_of,
    known_arrays,
    wrapped,
)
from padc.passes.torch_to_mil.aten.masks import computed_mask, put_masked
from padc.passes.torch_to_mil.aten.mil_call import MilCall, lowers
from padc.passes.torch_to_mil.aten.movement import (
    Size,
    concat,
    filled,
    positions,
    product,
    reshape,
    size_of,
    sizes_of,
    slice_dim,
    static,
    transpose,
    vector,
)
from padc.passes.torch_to_mil.aten.tensor import Tensor, as_number

Mode: TypeAlias = Literal["add", "max", "min", "mul", "update"]
"""How a scatter joins an element with those that are written there."""

MODES: Mapping[str, Mode] = {
    "add": "add",
    "amax": "max",
    "amin": "min",
    "mean": "add",
    "multiply": "mul",
    "prod": "mul",
    "sum": "add",
}
"""By PyTorch's names of reductions."""


def emitted(name: str, mode: Mode, data: Tensor, **inputs: Any) -> Tensor:
    """A scatter; sums and products keep their lowest bits."""
    result = data.emit(name, data.shape, data=data, **inputs, mode=mode)
    return data.wrapped(result) if mode in ("add", "mul") else result


# --- one position for each element of the source --------------------------------------


def scattered_along(
    x: Tensor, index: Index, source: Tensor, dim: int, mode: Mode
) -> Tensor:
    """`source` written to `x` at positions along `dim`, of equal sizes elsewhere."""
    is_folded = all(is_known(each) for each in (x, index, source))
    if (mode != "update" and is_folded) or not has_sizes_of(x, index, dim):
        return scattered_linearly(x, index, source, dim, mode)
    inputs = {"indices": index, "updates": source, "axis": dim}
    return emitted("scatter_along_axis", mode, x, **inputs)


def has_sizes_of(x: Tensor, index: Index, dim: int) -> bool:
    """Whether `index` is known to have the sizes of `x` except along `dim`."""
    return all(d == dim or has_same_size(x, index, d) for d in range(x.rank))


def is_known(x: Index) -> bool:
    """Whether pymil may fold a tensor to a constant, since it depends on no input."""
    todo = [x.value] if isinstance(x, Tensor) else []
    seen: set[object] = set()
    while todo:
        value = todo.pop()
        if not isinstance(value, SSAValue) or value.owner in seen:
            continue
        owner = value.owner
        if not isinstance(owner, Operation):
            return False
        seen.add(owner)
        todo += owner.operands
    return True


def scattered_linearly(
    x: Tensor, index: Index, source: Tensor, dim: int, mode: Mode
) -> Tensor:
    """
    `source` written to `x` at positions along `dim`, computed in row-major order.

    `index` may be smaller than `x`. pymil folds `scatter_along_axis` of constants as if
    its mode were "update", and refuses dynamic sizes unless they are visibly equal.
    """
    index, sizes = as_tensor(x.build, index), sizes_of(x)
    linear = scaled(index, product(sizes[dim + 1 :]))
    for d in range(x.rank):
        if d != dim and index.shape[d] != 1:
            linear = linear + scaled(positions(index, d), product(sizes[d + 1 :]))
    result = scattered(flattened(x), flat(linear), flattened(source), 0, mode)
    return reshape(result, sizes)


def scaled(x: Tensor, factor: Size) -> Tensor:
    return x if isinstance(factor, int) and factor == 1 else x * factor


def scattered_in_part(
    x: Tensor, index: Index, source: Tensor, dim: int, mode: Mode
) -> Tensor:
    """`scattered_along` for an index that is smaller than `x` in other dimensions."""
    smaller = [
        d for d, size in enumerate(index.shape) if d != dim and size != x.shape[d]
    ]
    if any(DYNAMIC_INDEX in (index.shape[d], x.shape[d]) for d in smaller):
        return scattered_linearly(x, index, source, dim, mode)
    part = cut(x, index, dim) if smaller else x
    result = scattered_along(part, index, source, dim, mode)
    for d in smaller:
        # The rest of `x`, as large as the result is in the dimensions that follow.
        rest = slice_dim(x, d, index.shape[d], None)
        for other in range(d + 1, x.rank):
            if rest.shape[other] != result.shape[other]:
                rest = slice_dim(rest, other, 0, result.shape[other])
        result = concat([result, rest], d)
    return result


Write: TypeAlias = Callable[[Tensor, Tensor, Mode], Tensor]
"""Writes a source to a tensor, at positions that it knows."""


def writer(call: MilCall, index: Index, write: Callable[..., Tensor]) -> Write:
    """Writes along `dim`; a tensor of rank 0 has one element there."""

    def written(x: Tensor, source: Tensor, mode: Mode) -> Tensor:
        if x.rank > 1:
            return write(x, index, source, call.dim("dim", x.rank), mode)
        args = flattened(x), flat(index), flattened(source)
        return reshape(scattered(*args, 0, mode), sizes_of(x))

    return written


def source_of(call: MilCall, x: Tensor, index: Index) -> Tensor:
    """The values to write, in the type of `x`."""
    if "value" in call.op.schema.positions:
        return filled(x.constant(call.number("value")), index_sizes(index))
    return cut(call.tensor("src").to(x.type), index, None)


def index_sizes(index: Index) -> list[Size]:
    return sizes_of(index) if isinstance(index, Tensor) else list(index.shape)


@lowers("aten.scatter.src", "aten.scatter.value", "aten.scatter_add")
@lowers("aten.scatter.reduce", "aten.scatter.value_reduce")
def lower_scatter(call: MilCall) -> Tensor:
    x, index = as_number(call.tensor("self")), index_of(call, call.op.arg("index"))
    if 0 in index.shape:
        return x
    mode: Mode = "add" if call.name == "aten.scatter_add" else "update"
    if "reduce" in call.op.schema.positions:
        mode = MODES[str(call.constant("reduce"))]
    return writer(call, index, scattered_in_part)(x, source_of(call, x, index), mode)


@lowers("aten.scatter_reduce.two")
def lower_scatter_reduce(call: MilCall) -> Tensor:
    x, index = as_number(call.tensor("self")), index_of(call, call.op.arg("index"))
    if 0 in index.shape:
        return x
    return reduced(
        call, x, source_of(call, x, index), writer(call, index, scattered_in_part)
    )


def reduced(call: MilCall, x: Tensor, source: Tensor, write: Write) -> Tensor:
    """The source's elements joined with those of `x`, or in their place."""
    reduce, counts_self = str(call.constant("reduce")), call.boolean("include_self")
    start = x
    if not counts_self:
        start = write(x, filled(neutral(x, reduce), sizes_of(source)), "update")
    result = write(start, source, MODES[reduce])
    if reduce != "mean":
        return result
    counts = filled(x.constant(1 if counts_self else 0), sizes_of(x))
    counts = write(counts, filled(x.constant(1), sizes_of(source)), "add")
    counts = counts if counts_self else counts.maximum(1)
    return result / counts if x.is_float else result.binary("floor_div", counts)


def neutral(x: Tensor, reduce: str) -> Tensor:
    """The neutral element of a reduction."""
    match reduce:
        case "amax":
            return x.constant(least_value(x.type))
        case "amin":
            return x.constant(greatest_value(x.type))
        case "prod":
            return x.constant(1)
        case _:
            return x.constant(0)


def greatest_value(type: Attribute) -> float:
    if is_float(type):
        return math.inf
    return 2 ** (width(type) - (0 if is_unsigned(type) else 1)) - 1


# --- one position for each row of the source ------------------------------------------


def scattered(x: Tensor, index: Index, source: Tensor, dim: int, mode: Mode) -> Tensor:
    """The rows of `source` along `dim` written at positions, a vector."""
    inputs = {"indices": index, "updates": source, "axis": dim}
    return emitted("scatter", mode, x, **inputs)


def row_operands(call: MilCall) -> tuple[Tensor, Index, Tensor]:
    x, index = as_number(call.tensor("self")), index_of(call, call.op.arg("index"))
    return x, index, call.tensor("source").to(x.type)


@lowers("aten.index_add")
def lower_index_add(call: MilCall) -> Tensor:
    x, index, source = row_operands(call)
    if 0 in index.shape:
        return x
    if (alpha := call.number("alpha")) != 1:
        source = source * alpha
    return writer(call, index, scattered)(x, source, "add")


@lowers("aten.index_copy")
def lower_index_copy(call: MilCall) -> Tensor:
    x, index, source = row_operands(call)
    return (
        x if 0 in index.shape else writer(call, index, scattered)(x, source, "update")
    )


@lowers("aten.index_reduce")
def lower_index_reduce(call: MilCall) -> Tensor:
    x, index, source = row_operands(call)
    if 0 in index.shape:
        return x
    return reduced(call, x, source, writer(call, index, scattered))


@lowers("aten.index_fill.int_Scalar", "aten.index_fill.int_Tensor")
def lower_index_fill(call: MilCall) -> Tensor:
    x, index = as_number(call.tensor("self")), index_of(call, call.op.arg("index"))
    if 0 in index.shape:
        return x
    dim = call.dim("dim", x.rank)
    if call.is_tensor("value"):
        value = call.tensor("value").to(x.type)
    else:
        value = x.constant(call.number("value"))
    if not x.rank:
        return value.like(value.ssa)
    return put(x, {dim: wrapped(flat(index), size_of(x, dim))}, value, "update")


@lowers("aten.put")
def lower_put(call: MilCall) -> Tensor:
    x, index, source = row_operands(call)
    if 0 in index.shape:
        return x
    vector = flattened(x)
    index = wrapped(flat(index), size_of(vector, 0))
    mode: Mode = "add" if call.boolean("accumulate") else "update"
    return reshape(scattered(vector, index, flattened(source), 0, mode), sizes_of(x))


# --- positions along several dimensions -----------------------------------------------


@lowers("aten.index_put", "aten._unsafe_index_put", "aten._index_put_impl")
@lowers("aten.index_put.hacked_twin", "aten._unsafe_index_put.hacked_twin")
def lower_index_put(call: MilCall) -> Tensor:
    if (mask := computed_mask(call)) is not None:
        return put_masked(call, *mask)
    x = as_number(call.tensor("self"))
    given = given_indices(call, x)
    if call.is_empty("values") or any(0 in index.shape for index in given.values()):
        return x
    values = call.tensor("values").to(x.type)
    return put(x, given, values, "add" if call.boolean("accumulate") else "update")


def put(x: Tensor, given: Mapping[int, Index], values: Tensor, mode: Mode) -> Tensor:
    """`values`, which broadcast, written at positions given for some dimensions."""
    where = Indexed.of(x, given)
    if mode == "update" and (mask := filled_mask(where, values)) is not None:
        return mask.select(values, x)
    values = repeated(values, where.result_sizes)
    if len(given) > 1 and where.is_leading:
        index = where.stacked()
        result = emitted("scatter_nd", mode, where.x, indices=index, updates=values)
    else:
        if len(where.sizes) != 1:
            before, after = where.rest
            values = reshape(values, [*before, product(where.sizes), *after])
        index = flat(where.linear())
        result = scattered(where.joined(), index, values, where.first, mode)
        if len(given) > 1:
            result = reshape(result, sizes_of(where.x))
    return transpose(result, [where.perm.index(dim) for dim in range(x.rank)])


def repeated(values: Tensor, sizes: Sequence[Size]) -> Tensor:
    """
    `values` repeated so that they have these sizes.

    Those of a dynamic size may have 1 there when the program runs: a scatter does not
    repeat them, as other ops do.
    """
    whole = filled(values, sizes)
    if DYNAMIC_INDEX not in values.shape:
        return whole
    times: list[Size] = [1] * len(sizes)
    for dim, own in enumerate(sizes_of(values), len(sizes) - values.rank):
        if isinstance(own, Tensor):
            size = sizes[dim]
            wanted = own.constant(size) if isinstance(size, int) else size
            times[dim] = wanted.binary("floor_div", own)
    return whole.emit("tile", static(sizes), x=whole, reps=vector(whole.build, times))


def filled_mask(where: Indexed, values: Tensor) -> Tensor | None:
    """Where a single value is written; None if that is computed, or there are more."""
    shape = where.x.shape[where.first : where.last]
    arrays = known_arrays(where.indices)
    is_moved = list(where.perm) != sorted(where.perm)
    if not arrays or is_moved or DYNAMIC_INDEX in shape or set(values.shape) - {1}:
        return None
    mask = np.zeros(shape, np.bool_)
    mask[tuple(arrays)] = True
    mask = mask.reshape(shape + (1,) * (where.x.rank - where.last))
    return Tensor(where.x.build, where.x.build.constant(mask), i1)


@lowers("aten._unsafe_masked_index_put_accumulate")
def lower_masked_index_put(call: MilCall) -> Tensor:
    """Indices out of range, where `mask` is false, are clamped; 0 is added there."""
    x, mask = as_number(call.tensor("self")), call.tensor("mask")
    values = mask.select(call.tensor("values").to(x.type), 0)
    given = {
        dim: wrapped(clamped(index, size_of(x, dim)), size_of(x, dim))
        for dim, index in given_indices(call, x, wrap=False).items()
    }
    return put(x, given, values, "add") if given else x + values


# --- unpooling ------------------------------------------------------------------------


@lowers("aten.max_unpool2d", "aten.max_unpool3d")
def lower_max_unpool(call: MilCall) -> Tensor:
    """Elements written at positions that count all elements of a plane, or volume."""
    x, index, count = call.tensor("self"), call.tensor("indices"), 2
    if call.name == "aten.max_unpool3d":
        count = 3
    ahead, window = sizes_of(x)[:-count], call.sizes("output_size")
    flat_sizes = [*ahead, product(sizes_of(x)[-count:])]
    zeros = filled(x.constant(0), [*ahead, product(window)])
    x, index = reshape(x, flat_sizes), reshape(index, flat_sizes)
    result = scattered_along(zeros, index, x, len(ahead), "update")
    return reshape(result, [*ahead, *window])
