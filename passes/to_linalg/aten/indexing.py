"""Ops that read elements at computed indices, and ops that create tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import DYNAMIC_INDEX, f64, i1, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineExpr

from padc.errors import Obstacle
from padc.ir.element_types import is_float
from padc.ir.tcp import Amount, fill_type
from padc.ir.torch import (
    FloatType,
    ListConstructOp,
    NotConstantError,
    VTensorType,
    constant_value,
)
from padc.passes.lowering import Replacement
from padc.passes.to_linalg.aten.call import LinalgCall, as_number, lowers
from padc.passes.to_linalg.aten.tensors import Operand, broadcast
from padc.passes.to_linalg.build.linalg_builder import LinalgBuilder, element_type
from padc.passes.to_linalg.build.numbers import Number, constant, from_size
from padc.passes.to_linalg.build.shapes import indexed, rank_of

# --- reading ---------------------------------------------------


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
                raise Obstacle(
                    "a mask as an index, of which the result's size depends",
                    "use torch.where",
                )
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
    name, rank = call.op.schema.name, rank_of(x)
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


# --- creating ---------------------------------------------------


def full(
    call: LinalgCall, sizes: Sequence[Amount], value: SSAValue | float
) -> SSAValue:
    """A tensor filled with `value`, of the result's type."""
    type = call.result_element_type()
    known = [
        size if static == DYNAMIC_INDEX else static
        for size, static in zip(sizes, call.result_type().get_shape(), strict=True)
    ]
    if not isinstance(value, SSAValue):
        value = constant(call.build, value, type).value
    return call.build.filled(known, value)


def number(call: LinalgCall, name: str, type: Attribute) -> Number:
    """A constant or computed integer, as a number of `type`."""
    return number_of(call, call.op.arg(name), type)


def number_of(call: LinalgCall, value: SSAValue, type: Attribute) -> Number:
    try:
        known = constant_value(value)
    except NotConstantError:
        if isinstance(value.type, FloatType):
            raise
        return from_size(call.build, call.amount(value), type)
    return constant(call.build, as_number(known), type)


SIZED: Mapping[str, float] = {"empty.memory_format": 0, "ones": 1, "zeros": 0}
LIKE: Mapping[str, float] = {
    "empty_like": 0,
    "new_empty": 0,
    "new_ones": 1,
    "new_zeros": 0,
    "ones_like": 1,
    "zero": 0,
    "zeros_like": 0,
}


@lowers(*(f"aten.{name}" for name in (*SIZED, *LIKE)))
@lowers("aten.full", "aten.full_like", "aten.new_full", "aten.fill.Scalar")
def lower_full(call: LinalgCall) -> SSAValue:
    name = call.op.schema.name.removeprefix("aten.")
    if "size" in call.op.schema.positions:
        sizes = call.amounts("size")
    else:
        sizes = call.build.sizes(call.tensor("self"))
    if (value := {**SIZED, **LIKE}.get(name)) is None:
        argument = "value" if name == "fill.Scalar" else "fill_value"
        return full(
            call, sizes, number(call, argument, call.result_element_type()).value
        )
    return full(call, sizes, value)


@lowers("aten.scalar_tensor", "prim.NumToTensor.Scalar")
@lowers("aten.tensor.int", "aten.tensor.float", "aten.tensor.bool")
def lower_scalar_tensor(call: LinalgCall) -> SSAValue:
    value = call.op.operands[0]
    return full(call, [], number_of(call, value, call.result_element_type()).value)


@lowers("aten.arange", "aten.arange.start", "aten.arange.start_step")
def lower_arange(call: LinalgCall) -> SSAValue:
    """PyTorch computes integers in int64, and floats in float64."""
    build, result = call.build, call.result_element_type()
    positions = call.op.schema.positions
    type = f64 if is_float(result) else i64
    operands = {
        name: call.op.arg(name)
        for name in ("start", "end", "step")
        if name in positions
    }
    (size,) = call.result_type().get_shape()
    length: Amount = size
    if size == DYNAMIC_INDEX:
        amounts = {name: call.amount(value) for name, value in operands.items()}
        step = amounts.get("step", 1)
        distance = build.sub(amounts["end"], amounts.get("start", 0))
        length = build.maximum(
            build.sub(0, build.floordiv(build.sub(0, distance), step)), 0
        )

    def body(inner: LinalgBuilder, _: Sequence[SSAValue]) -> SSAValue:
        position = from_size(inner, inner.loop_index(0), type)
        for name, combine in (("step", Number.__mul__), ("start", Number.__add__)):
            if name in scalars and scalars[name] != NEUTRAL[name]:
                position = combine(position, scalar_in(inner, scalars[name], type))
        return position.to(result).value

    scalars = {
        name: scalar(call, operands[name])
        for name in ("start", "step")
        if name in operands
    }
    return build.compute([length], fill_type(result), body)


NEUTRAL = {"start": 0, "step": 1}


def scalar(call: LinalgCall, value: SSAValue) -> Amount | float:
    """A constant number, or a computed integer."""
    try:
        return as_number(constant_value(value))
    except NotConstantError:
        return call.amount(value)


def scalar_in(build: LinalgBuilder, value: Amount | float, type: Attribute) -> Number:
    if isinstance(value, SSAValue):
        return from_size(build, value, type)
    return constant(build, value, type)


@lowers("aten.linspace")
def lower_linspace(call: LinalgCall) -> SSAValue:
    """PyTorch computes each half from its end."""
    build, result = call.build, call.result_element_type()
    (size,) = call.result_type().get_shape()
    first, last = (as_number(call.constant(name)) for name in ("start", "end"))
    if size == DYNAMIC_INDEX or not is_float(result):
        raise Obstacle("a number of steps that is computed", "make it a constant")
    step = (last - first) / (size - 1) if size > 1 else 0.0

    def body(inner: LinalgBuilder, _: Sequence[SSAValue]) -> SSAValue:
        position = from_size(inner, inner.loop_index(0), i64)
        low = first + step * position.to(f64)
        high = last - step * (size - 1 - position).to(f64)
        return (position < size // 2).select(low, high).to(result).value

    if size == 1:
        return full(call, [1], first)
    return build.compute([size], fill_type(result), body)


@lowers("aten.eye", "aten.eye.m")
def lower_eye(call: LinalgCall) -> SSAValue:
    build, result = call.build, call.result_element_type()
    rows = call.amount(call.op.arg("n"))
    columns = call.amount(call.op.arg("m")) if "m" in call.op.schema.positions else rows

    def body(inner: LinalgBuilder, _: Sequence[SSAValue]) -> SSAValue:
        row, column = (from_size(inner, inner.loop_index(dim), i64) for dim in (0, 1))
        return row.equals(column).to(result).value

    return build.compute([rows, columns], fill_type(result), body)


@lowers("aten.meshgrid.indexing", "aten.meshgrid")
def lower_meshgrid(call: LinalgCall) -> Replacement:
    build, given = call.build, call.operands("tensors")
    swaps = (
        call.op.schema.name.endswith("indexing") and call.constant("indexing") == "xy"
    )
    order = list(range(len(given)))
    if swaps and len(given) > 1:
        order[:2] = [1, 0]
    lengths = [build.size(x.tensor, 0) if x.rank else 1 for x in given]
    sizes = [lengths[order.index(dim)] for dim in range(len(given))]
    parts = [
        indexed(build, x.tensor, [AffineExpr.dimension(dim)] * x.rank, sizes)
        for x, dim in zip(given, order, strict=True)
    ]
    return [parts]
