"""Constants, and tensors whose elements are all the same."""

from __future__ import annotations

import math
from typing import Any

from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    TensorType,
)
from xdsl.ir import SSAValue

from padc.ir import mil
from padc.ir.torch import LiteralOp, VTensorType, builtin_type
from padc.passes.tcp_to_mil.ranks.rank_call import (
    RankBuilder,
    RankCall,
    product_in_type,
    rewrites,
)

FULL = ("full", "zeros", "ones", "empty.memory_format")
NEW = ("new_full", "new_zeros", "new_ones", "new_empty")


@rewrites(*(f"aten.{name}" for name in (*FULL, *NEW)))
def rewrite_full(call: RankCall) -> SSAValue:
    """A vector with the same number of elements."""
    sizes = [
        given if size < 0 else size
        for size, given in zip(call.result_shape, call.sizes("size"), strict=True)
    ]
    arguments = {"self": call.carrier("self").value} if call.has("self") else {}
    count = call.build.product(sizes)
    (y,) = call.again([product_in_type(sizes)], size=[count], **arguments)
    return call.view(y, sizes, (tuple(range(len(sizes))),))


def rewrite_literal(build: RankBuilder, op: LiteralOp) -> SSAValue:
    """A constant with the same data, and with its first dimensions merged."""
    type = op.result.type
    assert isinstance(type, VTensorType)
    shape = type.get_shape()
    first = len(shape) - mil.MAX_RANK + 1
    few = TensorType(type.element_type, [math.prod(shape[:first]), *shape[first:]])
    value = op.value
    if isinstance(value, DenseResourceAttr):
        value = DenseResourceAttr.from_params(value.resource_handle, few)
    else:
        value = DenseIntOrFPElementsAttr[Any](few, value.data)
    groups = tuple(range(first)), *((dim,) for dim in range(first, len(shape)))
    x = build.builtin(build.insert(LiteralOp(value)))
    return build.view(x, shape, builtin_type(type), groups)
