"""Computed masks: writing and reading elements where they are true."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import DYNAMIC_INDEX, i1, i32
from xdsl.ir import SSAValue

from padc.errors import Obstacle
from padc.ir.torch import AtenOp, ListConstructOp, VTensorType
from padc.passes.torch_to_mil.aten.indices import (
    MASK,
    common_sizes,
    flattened,
    gathered,
    is_mask,
)
from padc.passes.torch_to_mil.aten.mil_call import MilCall, lowers
from padc.passes.torch_to_mil.aten.movement import (
    broadcast_to,
    expand_dims,
    reshape,
    size_of,
    sizes_of,
    slice_dim,
)
from padc.passes.torch_to_mil.aten.parts import stack
from padc.passes.torch_to_mil.aten.tensor import Tensor, as_number

INDEX = "aten.index.Tensor", "aten._unsafe_index.Tensor"
INDEX_PUT = "aten.index_put", "aten._unsafe_index_put"


def given_tensors(op: AtenOp) -> list[tuple[int, SSAValue]]:
    """The tensors in `indices`, and their places there."""
    owner = op.arg("indices").owner
    elements: Sequence[SSAValue] = (
        owner.elements if isinstance(owner, ListConstructOp) else ()
    )
    return [
        (place, value)
        for place, value in enumerate(elements)
        if isinstance(value.type, VTensorType)
    ]


def computed_mask(call: MilCall) -> tuple[Tensor, int] | None:
    """The only index, if it is a mask that is computed, and its first dimension."""
    match given_tensors(call.op):
        case [(dim, mask)] if is_mask(mask) and call.known_array(mask) is None:
            return call.as_tensor(mask).to(i1), dim
        case _:
            return None


def masked_by_same(put: AtenOp) -> AtenOp | None:
    """The op of `y[mask]`, if `put` is `x[mask] = y[mask]` and `x` has y's shape."""
    values = put.arg("values").owner
    if (
        isinstance(values, AtenOp)
        and values.schema.name in INDEX
        and given_tensors(values) == given_tensors(put)
        and put.arg("self").type == values.arg("self").type
        and all(is_mask(mask) for _, mask in given_tensors(put))
    ):
        return values
    return None


def is_written_back(op: AtenOp) -> bool:
    """Whether an op is `y[mask]` and used only to write `x[mask] = y[mask]`."""
    users = [
        use.operation
        for use in op.results[0].uses
        if any(result.first_use for result in use.operation.results)
    ]
    return bool(users) and all(
        isinstance(user, AtenOp)
        and user.schema.name in INDEX_PUT
        and masked_by_same(user) is op
        for user in users
    )


def put_masked(call: MilCall, mask: Tensor, dim: int) -> Tensor:
    """
    `values` written where a mask is true, which indexes the dimensions from `dim` on.

    `x[mask] = y[mask]` is `where(mask, y, x)`.
    """
    x, after = call.tensor("self"), call.tensor("self").rank - dim - mask.rank
    if after < 0:
        raise Obstacle(f"a mask of {mask.rank} dimensions for {max(x.rank - dim, 0)}")
    if (source := masked_by_same(call.op)) is not None:
        values = call.as_tensor(source.arg("self"))
    else:
        values = call.tensor("values").to(x.type)
    place = values.rank - 1 - after
    wide = expand_dims(mask, range(mask.rank, mask.rank + after))
    if source is None and place >= 0:
        sizes = sizes_of(values)
        if sizes[place] == 1:
            sizes[place : place + 1] = [1] * mask.rank
            values = reshape(values, sizes)
        elif dim == 0:
            values = broadcast_to(values, [sizes[0], *sizes_of(x)[x.rank - after :]])
            values = in_order(x, wide, values)
        else:
            raise Obstacle(
                "a value for each true element of a mask of inner dimensions",
                "use torch.where(mask, a, b), or move the dimensions of the mask "
                "to the front",
            )
    if call.boolean("accumulate"):
        return x + wide.select(values, values.constant(0))
    return wide.select(values, x)


def in_order(x: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """Elements of `source`: the next one, in row-major order, for each true element."""
    mask = broadcast_to(mask, sizes_of(x))
    source = flattened(as_number(source))
    place = counts_before(flattened(mask.to(i32)))
    size, count = source.shape[0], place.shape[0]
    if DYNAMIC_INDEX in (size, count) or size < count:
        # After the last true element, the next one may not exist.
        last = size_of(source, 0) - 1
        place = place.minimum(last)
    return reshape(gathered(source, place, 0), sizes_of(x)).to(x.type)


def counts_before(x: Tensor) -> Tensor:
    """The sum of the elements before each one of a vector."""
    # With exclusive=True, coremltools fails on constants.
    return x.emit("cumsum", x.shape, x=x, axis=0) - x


@lowers("aten.masked_scatter")
def lower_masked_scatter(call: MilCall) -> Tensor:
    x, mask = call.tensor("self"), call.tensor("mask")
    sizes = common_sizes([x, mask])
    source = call.tensor("source").to(x.type)
    x = broadcast_to(x, sizes)
    return mask.select(in_order(x, mask, source), x)


@lowers("aten.masked_select")
def lower_masked_select(call: MilCall) -> Tensor:
    """The elements where a constant mask is true."""
    if (mask := call.known_array(call.op.arg("mask"))) is None:
        raise Obstacle(*MASK)
    x = call.tensor("self")
    shape = np.broadcast_shapes(x.shape, mask.shape)
    places = np.flatnonzero(np.broadcast_to(mask, shape)).astype(np.int32)
    return gathered(flattened(broadcast_to(as_number(x), list(shape))), places, 0)


@lowers("aten.nonzero", "aten.argwhere")
def lower_nonzero(call: MilCall) -> Tensor:
    """The positions where a constant is not 0, one in each row."""
    if (array := call.known_array(call.op.arg("self"))) is None:
        raise Obstacle(*MASK)
    return call.constant_tensor(np.argwhere(array), call.result_element_type())


@lowers("aten.nonzero_numpy")
def lower_nonzero_numpy(call: MilCall) -> list[list[Tensor]]:
    """The positions where a constant is not 0, a vector for each dimension."""
    if (array := call.known_array(call.op.arg("self"))) is None:
        raise Obstacle(*MASK)
    return [[call.constant_tensor(each, i32) for each in np.nonzero(array)]]


@lowers("aten.nonzero_static")
def lower_nonzero_static(call: MilCall) -> Tensor:
    """
    The positions of the first `size` elements that are not 0, one in each row.

    If there are fewer, the other rows hold `fill_value`.
    """
    x, size = call.tensor("self"), call.integer("size")
    if DYNAMIC_INDEX in x.shape:
        raise Obstacle("positions in a tensor of dynamic size", "give static sizes")
    found = flattened(x.to(i1).to(i32))
    place = counts_before(found)
    # All others are written to one place more, which is left out.
    place = found.differs(0).select(place, size).minimum(size)
    none = Tensor(x.build, x.build.constant(np.full(size + 1, -1, np.int32)), i32)
    every = np.arange(found.shape[0], dtype=np.int32)
    inputs = {"data": none, "indices": place, "updates": every, "axis": 0}
    where = none.emit("scatter", [size + 1], **inputs, mode="update")
    where = slice_dim(where, 0, 0, size)
    strides = [math.prod(x.shape[dim + 1 :]) for dim in range(x.rank)]
    columns = [
        where.maximum(0).binary("floor_div", stride).binary("mod", count)
        for stride, count in zip(strides, x.shape, strict=True)
    ]
    value = call.integer("fill_value")
    return stack([(where < 0).select(value, column) for column in columns], 1)
