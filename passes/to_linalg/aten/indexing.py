"""Ops that read elements at computed indices, or in another order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import i1, i64
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr

from padc.errors import Obstacle
from padc.ir.tcp import Amount
from padc.ir.torch import ListConstructOp, NotConstantError, VTensorType
from padc.passes.aten.operand_checks import check_rank
from padc.passes.aten.refusals import SIZES
from padc.passes.common.linalg_builder import (
    LinalgBuilder,
    element_type,
)
from padc.passes.common.tensor_shapes import indexed, rank_of
from padc.passes.to_linalg.aten.linalg_call import LinalgCall, lowers
from padc.passes.to_linalg.aten.tensors import Operand, broadcast
from padc.passes.to_linalg.build.numbers import Number, from_size


def safe_index(index: Number, size: Amount) -> SSAValue:
    """
    An index of a dimension of `size` elements; negative, it counts from the end.

    PyTorch refuses an index out of range. Here it is clamped, so that nothing outside
    of the tensor is read.
    """
    build = index.build
    length = from_size(build, size, i64)
    index = index.to(i64)
    index = (index < 0).select(index + length, index)
    return index.minimum(length - 1).maximum(0).to_index()


def looked_up(
    build: LinalgBuilder,
    x: SSAValue,
    sizes: Sequence[Amount],
    inputs: Sequence[tuple[Operand, Sequence[AffineExpr]]],
    indexed_by: Mapping[int, int],
    rest: Mapping[int, int],
) -> SSAValue:
    """
    A tensor of `sizes` of elements of `x`.

    Dimension d of `x` is indexed by input `indexed_by[d]`, or by the index of dimension
    `rest[d]` of the result.
    """
    assert all(dim < len(sizes) for dim in rest.values())
    lengths = build.sizes(x)
    # An empty `x` cannot be indexed.
    if 0 in lengths or 0 in sizes:
        return build.empty(sizes, element_type(x))

    def body(inner: LinalgBuilder, args: Sequence[SSAValue]) -> SSAValue:
        indices: list[Amount] = []
        for dim, length in enumerate(lengths):
            if dim in rest:
                indices.append(inner.loop_index(rest[dim]))
            else:
                number = indexed_by[dim]
                index = Number(inner, args[number], inputs[number][0].type)
                indices.append(safe_index(index, length))
        return inner.extract(x, indices)

    operands = [(index.tensor, map) for index, map in inputs]
    return build.compute(sizes, element_type(x), body, operands)


@lowers("aten.index_select")
def lower_index_select(call: LinalgCall) -> SSAValue:
    x, index, build = call.tensor("self"), call.operand("index"), call.build
    if not (rank := rank_of(x)):
        return x
    dim = call.integer("dim") % rank
    sizes = build.sizes(x)
    sizes[dim] = build.size(index.tensor, 0) if index.rank else 1
    map = [AffineExpr.dimension(dim)] * index.rank
    rest = {d: d for d in range(rank) if d != dim}
    return looked_up(build, x, sizes, [(index, map)], {dim: 0}, rest)


@lowers("aten.gather")
def lower_gather(call: LinalgCall) -> SSAValue:
    x, index, build = call.tensor("self"), call.operand("index"), call.build
    rank = rank_of(x)
    sizes = build.sizes(index.tensor)
    if not rank:
        return indexed(build, x, [], sizes)
    check_rank(index.rank, rank, "index")
    dim = call.integer("dim") % rank
    map = [AffineExpr.dimension(d) for d in range(index.rank)]
    rest = {d: d for d in range(rank) if d != dim}
    return looked_up(build, x, sizes, [(index, map)], {dim: 0}, rest)


@lowers("aten.embedding")
def lower_embedding(call: LinalgCall) -> SSAValue:
    table, index, build = call.tensor("weight"), call.operand("indices"), call.build
    sizes = [*build.sizes(index.tensor), build.size(table, 1)]
    map = [AffineExpr.dimension(d) for d in range(index.rank)]
    return looked_up(build, table, sizes, [(index, map)], {0: 0}, {1: index.rank})


@lowers("aten.index.Tensor", "aten._unsafe_index.Tensor")
@lowers("aten.index.Tensor_hacked_twin", "aten._unsafe_index.Tensor_hacked_twin")
def lower_index(call: LinalgCall) -> SSAValue:
    """
    Some dimensions are indexed by tensors, which broadcast; others are kept whole.

    The broadcast shape replaces the first indexed dimension if all indexed dimensions
    are adjacent, otherwise it comes first.
    """
    x, build = call.tensor("self"), call.build
    owner = call.op.arg("indices").owner
    if not isinstance(owner, ListConstructOp):
        raise NotConstantError("indices is not a list with a known length")
    given: dict[int, Operand] = {}
    for dim, value in enumerate(owner.elements):
        if isinstance(value.type, VTensorType):
            type = value.type.element_type
            if type == i1:
                raise Obstacle(f"a mask as an index: {SIZES[0]}", SIZES[1])
            given[dim] = Operand(call.as_tensor(value), type)
    if not given:
        return x
    shape, maps = broadcast(build, list(given.values()))
    first = min(given)
    if max(given) - first >= len(given):
        first = 0
    lengths = build.sizes(x)
    others = [dim for dim in range(len(lengths)) if dim not in given]
    before, after = others[:first], others[first:]
    sizes = [*(lengths[d] for d in before), *shape, *(lengths[d] for d in after)]
    shifted = [
        [expr.replace_dims_and_symbols(moved(first, len(shape)), []) for expr in map]
        for map in maps
    ]
    rest = {dim: i for i, dim in enumerate(before)}
    rest |= {dim: first + len(shape) + i for i, dim in enumerate(after)}
    return looked_up(
        build,
        x,
        sizes,
        list(zip(given.values(), shifted, strict=True)),
        {dim: i for i, dim in enumerate(given)},
        rest,
    )


def moved(by: int, count: int) -> list[AffineExpr]:
    return [AffineExpr.dimension(by + i) for i in range(count)]


@lowers("aten.flip", "aten.fliplr", "aten.flipud")
def lower_flip(call: LinalgCall) -> SSAValue:
    x, build = call.tensor("self"), call.build
    name, rank = call.name, rank_of(x)
    if name == "aten.flip":
        along = call.dims("dims", rank, empty=True)
    else:
        along = [1 if name == "aten.fliplr" else 0]
    sizes = build.sizes(x)
    along = [dim for dim in along if sizes[dim] != 1]
    if not along:
        return x

    def body(inner: LinalgBuilder, _: Sequence[SSAValue]) -> SSAValue:
        indices: list[Amount] = []
        for dim, size in enumerate(sizes):
            position = inner.loop_index(dim)
            last = inner.sub(size, 1)
            indices.append(inner.sub(last, position) if dim in along else position)
        return inner.extract(x, indices)

    return build.compute(sizes, element_type(x), body)


@lowers("aten.rot90")
def lower_rot90(call: LinalgCall) -> SSAValue:
    x, build = call.tensor("self"), call.build
    rank, turns = rank_of(x), call.integer("k") % 4
    first, second = call.dims("dims", rank)
    order = list(range(rank))
    if turns % 2:
        order[first], order[second] = second, first
    sizes = build.sizes(x)

    def body(inner: LinalgBuilder, _: Sequence[SSAValue]) -> SSAValue:
        indices: list[Amount] = [inner.loop_index(order[dim]) for dim in range(rank)]
        reversed = {0: [], 1: [second], 2: [first, second], 3: [first]}[turns]
        for dim in reversed:
            indices[dim] = inner.sub(inner.sub(sizes[dim], 1), indices[dim])
        return inner.extract(x, indices)

    return build.compute([sizes[dim] for dim in order], element_type(x), body)
