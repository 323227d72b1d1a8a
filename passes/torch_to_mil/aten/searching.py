"""Ops that compare each element with all of a list: positions in it, membership."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import f32, i32

from padc.errors import Obstacle
from padc.ir import mil
from padc.passes.aten.promotion import promoted
from padc.passes.torch_to_mil.aten.indices import count_true, flattened
from padc.passes.torch_to_mil.aten.mil_call import MilCall, lowers
from padc.passes.torch_to_mil.aten.movement import (
    expand_dims,
    filled,
    product,
    reshape,
    sizes_of,
    squeeze,
)
from padc.passes.torch_to_mil.aten.tensor import Tensor


def number_or_tensor(call: MilCall, name: str, like: Tensor) -> tuple[Tensor, Tensor]:
    """An operand and `like`, in the type to which both are promoted."""
    if call.is_tensor(name):
        return call.tensor(name).to(like.type), like
    number = call.number(name)
    if isinstance(number, float) and not like.is_float:
        like = like.to(f32)
    return like.constant(number), like


@lowers("aten.bucketize.Tensor", "aten.bucketize.Scalar")
def lower_bucketize(call: MilCall) -> Tensor:
    x, limits = number_or_tensor(call, "self", call.tensor("boundaries"))
    return places(x, limits, call.boolean("right"))


@lowers("aten.searchsorted.Tensor", "aten.searchsorted.Scalar")
def lower_searchsorted(call: MilCall) -> Tensor:
    limits = call.tensor("sorted_sequence")
    if call.has("sorter"):
        order, dim = call.tensor("sorter"), limits.rank - 1
        inputs = {"x": limits, "indices": order, "axis": dim}
        limits = limits.emit("gather_along_axis", limits.shape, **inputs)
    x, limits = number_or_tensor(call, "self", limits)
    right = call.boolean("right")
    if call.has("side"):
        right = call.constant("side") == "right"
    return places(x, limits, right)


def places(x: Tensor, limits: Tensor, right: bool) -> Tensor:
    """
    How many of the sorted limits in the last dimension are below each element.

    With `right`, also those equal to it. NaN is above all limits.
    """
    sizes = sizes_of(x)
    if 0 in limits.shape:
        return filled(Tensor(x.build, np.int32(0), i32), sizes)
    if x.rank == mil.MAX_RANK:
        x, limits = (
            (rows(x), rows(limits)) if limits.rank > 1 else (flattened(x), limits)
        )
    if limits.rank > 1:
        limits = expand_dims(limits, [limits.rank - 1])
    if x.rank:
        x = expand_dims(x, [x.rank])
    is_above = limits > x if right else limits >= x
    return reshape(count_true(~is_above), sizes)


def rows(x: Tensor) -> Tensor:
    """All dimensions but the last as one."""
    *others, last = sizes_of(x)
    return reshape(x, [product(others), last])


@lowers("aten.isin.Tensor_Tensor", "aten.isin.Tensor_Scalar", "aten.isin.Scalar_Tensor")
def lower_isin(call: MilCall) -> Tensor:
    type = promoted(call)
    x, others = (
        call.tensor(name).to(type)
        if call.is_tensor(name)
        else Tensor(call.build, np.int32(0), type).constant(call.number(name))
        for name in (argument.name for argument in call.op.schema.arguments[:2])
    )
    result = is_among(x, others)
    return ~result if call.boolean("invert") else result


def is_among(x: Tensor, others: Tensor) -> Tensor:
    """Whether each element equals one of the others."""
    sizes = sizes_of(x)
    if 0 in others.shape:
        return filled(x.boolean(False), sizes)
    if not others.rank:
        return x.equals(others)
    others = flattened(others)
    if x.rank == mil.MAX_RANK:
        x = flattened(x)
    if x.rank:
        x = expand_dims(x, [x.rank])
    found = x.equals(others).to(i32)
    dim = found.rank - 1
    shape = found.shape[:-1]
    found = found.emit("reduce_max", shape, x=found, axes=[dim], keep_dims=False)
    return reshape(found.differs(0), sizes)


@lowers("aten.one_hot")
def lower_one_hot(call: MilCall) -> Tensor:
    index, count = call.tensor("self"), call.integer("num_classes")
    if count < 0:
        array = call.known_array(call.op.arg("self"))
        if array is None:
            raise Obstacle("num_classes is not given", "give num_classes")
        count = int(array.max()) + 1
    x = index if index.rank else expand_dims(index, [0])
    result = x.emit(
        "one_hot",
        [*x.shape, count],
        indices=x,
        one_hot_vector_size=np.int32(count),
        axis=-1,
        on_value=np.int32(1),
        off_value=np.int32(0),
    )
    return result if index.rank else squeeze(result, [0])
