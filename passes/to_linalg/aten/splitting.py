"""ATen ops that split a tensor into parts along a dimension."""

from __future__ import annotations

from typing import cast

from xdsl.ir import SSAValue

from padc.errors import Obstacle
from padc.ir.arithmetic import ceil_div
from padc.ir.element_types import wide
from padc.ir.tcp import Amount
from padc.passes.aten.elementwise_bodies import sigmoid
from padc.passes.common.lowering import Replacement
from padc.passes.common.tensor_shapes import rank_of
from padc.passes.to_linalg.aten.linalg_call import LinalgCall, lowers
from padc.passes.to_linalg.aten.tensors import Operand, pointwise
from padc.passes.to_linalg.build.numbers import Number
from padc.passes.to_linalg.build.slices import cut, selected


@lowers("aten.split.Tensor", "aten.unsafe_split.Tensor", "aten.split_copy.Tensor")
def lower_split(call: LinalgCall) -> Replacement:
    x = call.tensor("self")
    dim = call.integer("dim") % rank_of(x)
    size = call.amount(call.op.arg("split_size"))
    return [equal_parts(call, x, dim, size)]


def equal_parts(
    call: LinalgCall, x: SSAValue, dim: int, size: Amount
) -> list[SSAValue]:
    """Parts of `size` elements along `dim`; the last one may be smaller."""
    build, count = call.build, len(call.parts())
    before = build.mul(size, count - 1)
    last = build.sub(build.size(x, dim), before)
    return cut(build, x, dim, [*[size] * (count - 1), last])


@lowers("aten.chunk", "aten.unsafe_chunk")
def lower_chunk(call: LinalgCall) -> Replacement:
    x, build = call.tensor("self"), call.build
    dim, chunks = call.integer("dim") % rank_of(x), call.integer("chunks")
    size = build.size(x, dim)
    each = ceil_div(build.wrap(size), chunks).value
    return [equal_parts(call, x, dim, each)]


@lowers("aten.tensor_split.sections")
def lower_tensor_split(call: LinalgCall) -> Replacement:
    x, build = call.tensor("self"), call.build
    dim, sections = call.integer("dim") % rank_of(x), call.integer("sections")
    size = build.size(x, dim)
    if not isinstance(size, int):
        raise Obstacle("parts of a dynamic size", "use torch.chunk")
    parts = range(call.count_parts(sections))
    sizes = [size // sections + (i < size % sections) for i in parts]
    return [cut(build, x, dim, sizes)]


@lowers("aten.split_with_sizes", "aten.split.sizes")
@lowers("aten.split_with_sizes_copy", "aten.unsafe_split_with_sizes")
def lower_split_with_sizes(call: LinalgCall) -> Replacement:
    x = call.tensor("self")
    dim = call.integer("dim") % rank_of(x)
    sizes = call.amounts(call.op.schema.arguments[1].name)
    return [cut(call.build, x, dim, sizes)]


@lowers("aten.unbind.int", "aten.unbind_copy.int")
def lower_unbind(call: LinalgCall) -> Replacement:
    x = call.tensor("self")
    dim = call.integer("dim") % rank_of(x)
    return [[selected(call.build, x, dim, i) for i in range(len(call.parts()))]]


@lowers("aten.glu")
def lower_glu(call: LinalgCall) -> SSAValue:
    """`glu([a, b]) -> a * sigmoid(b)`, of the two halves of a dimension."""
    x, build = call.operand("self"), call.build
    dim = call.integer("dim") % x.rank
    half = build.floordiv(build.size(x.tensor, dim), 2)
    halves = [Operand(each, x.type) for each in cut(build, x.tensor, dim, [half, half])]

    def gated(x: Number, gate: Number) -> Number:
        x, gate = x.to(wide(x.type)), gate.to(wide(gate.type))
        return x * cast(Number, sigmoid(gate))

    return pointwise(build, halves, x.type, gated)
