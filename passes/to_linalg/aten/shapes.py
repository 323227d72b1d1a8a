"""Ops that give the same elements in another shape, or some of them, or several."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ArrayAttr,
    IntegerAttr,
    TensorType,
    UnrealizedConversionCastOp,
    i64,
)
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr

from padc.errors import Obstacle
from padc.ir.element_types import wide
from padc.ir.tcp import Amount, tensor_type
from padc.passes.lowering import Replacement
from padc.passes.to_linalg.aten.call import LinalgCall, lowers
from padc.passes.to_linalg.aten.tensors import Operand, pointwise
from padc.passes.to_linalg.build.linalg_builder import (
    LinalgBuilder,
    element_type,
    type_of,
)
from padc.passes.to_linalg.build.numbers import Number

# --- building ---------------------------------------------------


def rank_of(x: SSAValue) -> int:
    return tensor_type(x).get_num_dims()


def product(build: LinalgBuilder, sizes: Sequence[Amount]) -> Amount:
    total: Amount = 1
    for size in sizes:
        total = build.mul(total, size)
    return total


def indexed(
    build: LinalgBuilder,
    x: SSAValue,
    exprs: Sequence[AffineExpr],
    sizes: Sequence[Amount],
) -> SSAValue:
    """A new tensor of `sizes`, the elements of which are those of `x` at `exprs`."""
    return build.compute(
        sizes, element_type(x), lambda inner, args: args[0], [(x, exprs)]
    )


def dims(count: int) -> list[AffineExpr]:
    return [AffineExpr.dimension(dim) for dim in range(count)]


def same(a: Amount, b: Amount) -> bool:
    """Whether two sizes are known to be the same."""
    return a == b or (
        isinstance(a, SSAValue) and isinstance(b, SSAValue) and origin(a) == origin(b)
    )


def origin(size: SSAValue) -> object:
    """What a size was read from."""
    match size.owner:
        case arith.IndexCastOp(input=number) if isinstance(
            number.owner, arith.IndexCastOp
        ):
            return origin(number.owner.input)
        case tensor.DimOp(source=x, index=SSAValue(owner=arith.ConstantOp() as dim)):
            while isinstance(x.owner, tensor.CastOp | UnrealizedConversionCastOp):
                x = x.owner.operands[0]
            return x, dim.value
        case _:
            return size


def _groups(groups: Sequence[Sequence[int]]) -> ArrayAttr[ArrayAttr[IntegerAttr]]:
    return ArrayAttr(ArrayAttr(IntegerAttr(i, i64) for i in group) for group in groups)


def collapse(build: LinalgBuilder, x: SSAValue, first: int, count: int) -> SSAValue:
    """`count` dimensions from `first` on as one."""
    shape = list(tensor_type(x).get_shape())
    joined = shape[first : first + count]
    size = DYNAMIC_INDEX if DYNAMIC_INDEX in joined else math.prod(joined)
    groups = [[i] for i in range(len(shape))]
    groups[first : first + count] = [list(range(first, first + count))]
    shape[first : first + count] = [size]
    return build.insert(
        tensor.CollapseShapeOp(
            operands=[x],
            result_types=[TensorType(element_type(x), shape)],
            properties={"reassociation": _groups(groups)},
        )
    )


def expand(
    build: LinalgBuilder, x: SSAValue, dim: int, sizes: Sequence[Amount]
) -> SSAValue:
    """Dimension `dim` as several."""
    full = build.sizes(x)
    full[dim : dim + 1] = sizes
    groups = [[i] for i in range(dim)]
    groups.append(list(range(dim, dim + len(sizes))))
    groups += [[i] for i in range(dim + len(sizes), len(full))]
    type = type_of(full, element_type(x))
    # The size of what is split is known where those that it is split into are.
    split = list(tensor_type(x).get_shape())
    parts = type.get_shape()[dim : dim + len(sizes)]
    split[dim] = DYNAMIC_INDEX if DYNAMIC_INDEX in parts else math.prod(parts)
    x = build.cast(x, TensorType(element_type(x), split))
    dynamic = [size for size in full if isinstance(size, SSAValue)]
    return build.insert(
        tensor.ExpandShapeOp(x, dynamic, _groups(groups), list(type.get_shape()), type)
    )


def reshape(build: LinalgBuilder, x: SSAValue, sizes: Sequence[Amount]) -> SSAValue:
    """The same elements as a tensor of `sizes`."""
    old, new = build.sizes(x), list(sizes)
    if len(old) == len(new) and all(map(same, old, new)):
        return x
    if 0 in new:
        return build.empty(new, element_type(x))
    if not old:
        return indexed(build, x, [], new)
    if not new:
        return build.insert(
            tensor.CollapseShapeOp(
                operands=[x],
                result_types=[TensorType(element_type(x), [])],
                properties={"reassociation": ArrayAttr([])},
            )
        )
    shorter = min(len(old), len(new))
    first = 0
    while first < shorter - 1 and same(old[first], new[first]):
        first += 1
    last = 0
    while last < shorter - 1 - first and same(old[-1 - last], new[-1 - last]):
        last += 1
    if (count := len(old) - first - last) > 1:
        x = collapse(build, x, first, count)
    middle = new[first : len(new) - last]
    return expand(build, x, first, middle) if len(middle) > 1 else x


def unsqueeze(build: LinalgBuilder, x: SSAValue, dim: int) -> SSAValue:
    sizes = build.sizes(x)
    return reshape(build, x, [*sizes[:dim], 1, *sizes[dim:]])


def squeeze(build: LinalgBuilder, x: SSAValue, dims: Sequence[int]) -> SSAValue:
    """`x` without dimensions that have one element."""
    sizes = build.sizes(x)
    return reshape(
        build, x, [size for dim, size in enumerate(sizes) if dim not in dims]
    )


def permute(build: LinalgBuilder, x: SSAValue, order: Sequence[int]) -> SSAValue:
    """Dimension i of the result is dimension `order[i]` of `x`."""
    if list(order) == sorted(order):
        return x
    sizes = build.sizes(x)
    moved = [dim for dim in order if sizes[dim] != 1]
    if moved == sorted(moved):
        return reshape(build, x, [sizes[dim] for dim in order])
    exprs = [AffineExpr.dimension(list(order).index(dim)) for dim in range(len(order))]
    return indexed(build, x, exprs, [sizes[dim] for dim in order])


def part(
    build: LinalgBuilder,
    x: SSAValue,
    dim: int,
    start: Amount,
    size: Amount,
    step: Amount = 1,
) -> SSAValue:
    """`size` elements of dimension `dim`, from `start` on, each `step` further."""
    offsets: list[Amount] = [0] * rank_of(x)
    steps: list[Amount] = [1] * rank_of(x)
    sizes = build.sizes(x)
    if start == 0 and step == 1 and same(size, sizes[dim]):
        return x
    offsets[dim], sizes[dim], steps[dim] = start, size, step
    return build.slice(x, offsets, sizes, steps)


def concat(build: LinalgBuilder, parts: Sequence[SSAValue], dim: int) -> SSAValue:
    """The parts one behind the other along `dim`."""
    if len(parts) == 1:
        return parts[0]
    shapes = [tensor_type(x).get_shape() for x in parts]
    # A size that one part knows is that of all.
    shape = [max(known) for known in zip(*shapes, strict=True)]
    sizes = [each[dim] for each in shapes]
    shape[dim] = DYNAMIC_INDEX if DYNAMIC_INDEX in sizes else sum(sizes)
    type = TensorType(element_type(parts[0]), shape)
    return build.insert(tensor.ConcatOp(parts, dim, type))


def at_least_zero(build: LinalgBuilder, place: Amount, size: Amount) -> Amount:
    """A place; below 0 it is counted from the end."""
    if isinstance(place, int):
        return place if place >= 0 else build.add(size, place)
    below = build.insert(arith.CmpiOp(place, build.index(0), "slt"))
    from_end = build.index(build.add(place, size))
    return build.insert(arith.SelectOp(below, from_end, place))


def bounded(build: LinalgBuilder, place: Amount, size: Amount) -> Amount:
    """Where a slice starts or ends, as Python understands `place`."""
    if isinstance(place, int) and place == 0:
        return 0
    place = at_least_zero(build, place, size)
    if not (isinstance(place, int) and place >= 0):
        place = build.maximum(place, 0)
    return build.minimum(place, size)


# --- the same elements in another shape -------------------------------------------


@lowers(
    *(f"aten.{name}" for name in ("view", "reshape", "_unsafe_view", "view_copy")),
    *("aten._reshape_copy", "aten._reshape_alias"),
)
def lower_reshape(call: LinalgCall) -> SSAValue:
    name = "shape" if call.op.schema.name == "aten.reshape" else "size"
    return reshape_to(call, call.tensor("self"), call.amounts(name))


def reshape_to(call: LinalgCall, x: SSAValue, sizes: Sequence[Amount]) -> SSAValue:
    """`x` as PyTorch says that the result is; one of `sizes` may be -1."""
    build = call.build
    known = [
        size if static == DYNAMIC_INDEX else static
        for size, static in zip(sizes, call.result_type().get_shape(), strict=True)
    ]
    if -1 in known:
        rest = product(build, [size for size in known if size != -1])
        total = product(build, build.sizes(x))
        known[known.index(-1)] = build.floordiv(total, build.maximum(rest, 1))
    return reshape(build, x, known)


@lowers("aten.reshape_as", "aten.view_as")
def lower_reshape_as(call: LinalgCall) -> SSAValue:
    return reshape(
        call.build, call.tensor("self"), call.build.sizes(call.tensor("other"))
    )


@lowers("aten.flatten.using_ints")
def lower_flatten(call: LinalgCall) -> SSAValue:
    x = call.tensor("self")
    if not (rank := rank_of(x)):
        return reshape(call.build, x, [1])
    first, last = (call.integer(name) % rank for name in ("start_dim", "end_dim"))
    if first == last:
        return x
    return collapse(call.build, x, first, last - first + 1)


@lowers("aten.ravel")
def lower_ravel(call: LinalgCall) -> SSAValue:
    x = call.tensor("self")
    return reshape(call.build, x, [product(call.build, call.build.sizes(x))])


@lowers("aten.unflatten.int")
def lower_unflatten(call: LinalgCall) -> SSAValue:
    x = call.tensor("self")
    dim = call.integer("dim") % rank_of(x)
    sizes = call.build.sizes(x)
    sizes[dim : dim + 1] = call.amounts("sizes")
    return reshape_to(call, x, sizes)


@lowers("aten.squeeze", "aten.squeeze.dim", "aten.squeeze.dims", "prims.squeeze")
@lowers("aten.squeeze_copy", "aten.squeeze_copy.dim", "aten.squeeze_copy.dims")
def lower_squeeze(call: LinalgCall) -> SSAValue:
    x = call.tensor(call.op.schema.arguments[0].name)
    shape = tensor_type(x).get_shape()
    dims = range(len(shape))
    if len(call.op.schema.arguments) > 1:
        dims = call.dims(call.op.schema.arguments[1].name, len(shape), empty=True)
    return squeeze(call.build, x, [d for d in dims if shape and shape[d] == 1])


@lowers("aten.unsqueeze", "aten.unsqueeze_copy")
def lower_unsqueeze(call: LinalgCall) -> SSAValue:
    x = call.tensor("self")
    return unsqueeze(call.build, x, call.integer("dim") % (rank_of(x) + 1))


@lowers("aten.atleast_1d", "aten.atleast_2d")
def lower_atleast(call: LinalgCall) -> SSAValue:
    x = call.tensor("self")
    least = 1 if call.op.schema.name == "aten.atleast_1d" else 2
    while rank_of(x) < least:
        x = unsqueeze(call.build, x, 0)
    return x


@lowers("aten.permute", "aten.permute_copy")
def lower_permute(call: LinalgCall) -> SSAValue:
    x = call.tensor("self")
    return permute(call.build, x, call.dims("dims", rank_of(x)))


@lowers("aten.transpose.int", "aten.transpose_copy.int")
@lowers("aten.swapaxes", "aten.swapdims")
def lower_transpose(call: LinalgCall) -> SSAValue:
    x = call.tensor("self")
    if not (rank := rank_of(x)):
        return x
    first, second = (call.integer(a.name) % rank for a in call.op.schema.arguments[1:])
    order = list(range(rank))
    order[first], order[second] = second, first
    return permute(call.build, x, order)


@lowers(
    "aten.t", "aten.t_copy", "aten.numpy_T", "aten.numpy_T.a", "aten.mT", "aten.mT.a"
)
@lowers("aten.adjoint", "aten.mH", "aten.mH.a", "aten.matrix_H", "aten.matrix_H.a")
def lower_t(call: LinalgCall) -> SSAValue:
    x = call.tensor(call.op.schema.arguments[0].name)
    rank = rank_of(x)
    order = list(range(rank))
    if "numpy" in call.op.schema.name:
        order.reverse()
    elif rank > 1:
        order[-2:] = reversed(order[-2:])
    return permute(call.build, x, order)


@lowers("aten.movedim.int", "aten.movedim.intlist")
@lowers("aten.moveaxis.int", "aten.moveaxis.intlist")
def lower_movedim(call: LinalgCall) -> SSAValue:
    x = call.tensor("self")
    rank = rank_of(x)
    sources = call.dims("source", rank, empty=True)
    targets = call.dims("destination", rank, empty=True)
    moves = dict(zip(targets, sources, strict=True))
    rest = iter([dim for dim in range(rank) if dim not in sources])
    order = [moves[dim] if dim in moves else next(rest) for dim in range(rank)]
    return permute(call.build, x, order)


@lowers("aten.pixel_shuffle")
def lower_pixel_shuffle(call: LinalgCall) -> SSAValue:
    """`[.., C * r * r, H, W] -> [.., C, H * r, W * r]`."""
    x, build, r = call.tensor("self"), call.build, call.integer("upscale_factor")
    dim = rank_of(x) - 3
    channels = build.floordiv(build.size(x, dim), r * r)
    x = expand(build, x, dim, [channels, r, r])
    order = [*range(dim), *(dim + i for i in (0, 3, 1, 4, 2))]
    x = permute(build, x, order)
    return collapse(build, collapse(build, x, dim + 3, 2), dim + 1, 2)


@lowers("aten.pixel_unshuffle")
def lower_pixel_unshuffle(call: LinalgCall) -> SSAValue:
    """`[.., C, H * r, W * r] -> [.., C * r * r, H, W]`."""
    x, build, r = call.tensor("self"), call.build, call.integer("downscale_factor")
    dim = rank_of(x) - 3
    width = build.floordiv(build.size(x, dim + 2), r)
    x = expand(build, x, dim + 2, [width, r])
    height = build.floordiv(build.size(x, dim + 1), r)
    x = expand(build, x, dim + 1, [height, r])
    order = [*range(dim), *(dim + i for i in (0, 2, 4, 1, 3))]
    return collapse(build, permute(build, x, order), dim, 3)


@lowers("aten.channel_shuffle", "aten.native_channel_shuffle")
def lower_channel_shuffle(call: LinalgCall) -> SSAValue:
    x, build, groups = call.tensor("self"), call.build, call.integer("groups")
    each = build.floordiv(build.size(x, 1), groups)
    x = expand(build, x, 1, [groups, each])
    x = permute(build, x, [0, 2, 1, *range(3, rank_of(x))])
    return collapse(build, x, 1, 2)


# --- some of the elements ---------------------------------------------------


@lowers("aten.slice.Tensor", "aten.slice_copy.Tensor")
def lower_slice(call: LinalgCall) -> SSAValue:
    x, build = call.tensor("self"), call.build
    dim = call.integer("dim") % rank_of(x)
    start, count, step = places(call, build.size(x, dim))
    static = call.result_type().get_shape()[dim]
    return part(
        build, x, dim, start, count if static == DYNAMIC_INDEX else static, step
    )


def places(call: LinalgCall, size: Amount) -> tuple[Amount, Amount, Amount]:
    """Where a slice of so many elements starts, how many it has, and its step."""
    build = call.build
    start: Amount = 0
    if call.has("start"):
        start = bounded(build, call.amount(call.op.arg("start")), size)
    end = size
    if call.has("end"):
        end = bounded(build, call.amount(call.op.arg("end")), size)
    step = call.amount(call.op.arg("step"))
    count = build.maximum(build.sub(end, start), 0)
    if start == 0 and same(end, size):
        count = size
    if step != 1:
        count = build.floordiv(build.sub(build.add(count, step), 1), step)
    return start, count, step


@lowers("aten.slice_scatter")
def lower_slice_scatter(call: LinalgCall) -> SSAValue:
    x, build = call.tensor("self"), call.build
    dim = call.integer("dim") % rank_of(x)
    start, _, step = places(call, build.size(x, dim))
    return with_part(build, x, call.converted("src"), dim, start, step)


@lowers("aten.select_scatter")
def lower_select_scatter(call: LinalgCall) -> SSAValue:
    x, build = call.tensor("self"), call.build
    dim = call.integer("dim") % rank_of(x)
    place = call.amount(call.op.arg("index"))
    place = at_least_zero(build, place, build.size(x, dim))
    row = unsqueeze(build, call.converted("src"), dim)
    return with_part(build, x, row, dim, place, 1)


def with_part(
    build: LinalgBuilder,
    x: SSAValue,
    rows: SSAValue,
    dim: int,
    start: Amount,
    step: Amount,
) -> SSAValue:
    """`x` with `rows` in dimension `dim`, from `start` on, each `step` further."""
    offsets: list[Amount] = [0] * rank_of(x)
    steps: list[Amount] = [1] * rank_of(x)
    offsets[dim], steps[dim] = start, step
    return build.insert_slice(rows, x, offsets, build.sizes(rows), steps)


@lowers("aten.narrow", "aten.narrow_copy")
def lower_narrow(call: LinalgCall) -> SSAValue:
    x, build = call.tensor("self"), call.build
    dim = call.integer("dim") % rank_of(x)
    start = at_least_zero(build, call.amount(call.op.arg("start")), build.size(x, dim))
    return part(build, x, dim, start, call.amount(call.op.arg("length")))


@lowers("aten.select.int", "aten.select_copy.int")
def lower_select(call: LinalgCall) -> SSAValue:
    x, build = call.tensor("self"), call.build
    dim = call.integer("dim") % rank_of(x)
    place = call.amount(call.op.arg("index"))
    return selected(build, x, dim, at_least_zero(build, place, build.size(x, dim)))


def selected(build: LinalgBuilder, x: SSAValue, dim: int, place: Amount) -> SSAValue:
    """The elements at `place` in dimension `dim`, which the result has not."""
    return squeeze(build, part(build, x, dim, place, 1), [dim])


def cut(
    build: LinalgBuilder, x: SSAValue, dim: int, sizes: Sequence[Amount]
) -> list[SSAValue]:
    """Parts of these sizes, one behind the other."""
    parts: list[SSAValue] = []
    start: Amount = 0
    for size in sizes:
        parts.append(part(build, x, dim, start, size))
        start = build.add(start, size)
    return parts


def count_of(call: LinalgCall) -> int:
    """How many tensors the list has that an op returns."""
    for use in call.op.results[0].uses:
        return len(use.operation.results)
    return 0


@lowers("aten.split.Tensor", "aten.unsafe_split.Tensor", "aten.split_copy.Tensor")
def lower_split(call: LinalgCall) -> Replacement:
    x = call.tensor("self")
    dim = call.integer("dim") % rank_of(x)
    size = call.amount(call.op.arg("split_size"))
    return [equal_parts(call, x, dim, size)]


def equal_parts(
    call: LinalgCall, x: SSAValue, dim: int, size: Amount
) -> list[SSAValue]:
    """Parts of one size, but the last."""
    build, count = call.build, count_of(call)
    before = build.mul(size, count - 1)
    last = build.sub(build.size(x, dim), before)
    return cut(build, x, dim, [*[size] * (count - 1), last])


@lowers("aten.chunk", "aten.unsafe_chunk")
def lower_chunk(call: LinalgCall) -> Replacement:
    x, build = call.tensor("self"), call.build
    dim, chunks = call.integer("dim") % rank_of(x), call.integer("chunks")
    size = build.size(x, dim)
    each = build.floordiv(build.add(size, chunks - 1), chunks)
    return [equal_parts(call, x, dim, each)]


@lowers("aten.tensor_split.sections")
def lower_tensor_split(call: LinalgCall) -> Replacement:
    x, build = call.tensor("self"), call.build
    dim, sections = call.integer("dim") % rank_of(x), call.integer("sections")
    size = build.size(x, dim)
    if not isinstance(size, int):
        raise Obstacle("parts of a dynamic size", "use torch.chunk")
    sizes = [size // sections + (i < size % sections) for i in range(sections)]
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
    return [[selected(call.build, x, dim, i) for i in range(count_of(call))]]


@lowers("aten.glu")
def lower_glu(call: LinalgCall) -> SSAValue:
    """The first half of a dimension, times the sigmoid of the second."""
    x, build = call.operand("self"), call.build
    dim = call.integer("dim") % x.rank
    half = build.floordiv(build.size(x.tensor, dim), 2)
    halves = [Operand(each, x.type) for each in cut(build, x.tensor, dim, [half, half])]

    def gated(x: Number, gate: Number) -> Number:
        x, gate = x.to(wide(x.type)), gate.to(wide(gate.type))
        return x / (1 + (-gate).apply("exp"))

    return pointwise(build, halves, x.type, gated)


@lowers("aten.unfold", "aten.unfold_copy")
def lower_unfold(call: LinalgCall) -> SSAValue:
    """Windows along a dimension; a new one, the last, is for places in a window."""
    x, build = call.tensor("self"), call.build
    size, step = call.integer("size"), call.integer("step")
    if not (rank := rank_of(x)):
        return indexed(build, x, [], [size])
    dim = call.integer("dimension") % rank
    sizes = build.sizes(x)
    sizes[dim] = build.add(build.floordiv(build.sub(sizes[dim], size), step), 1)
    exprs = dims(rank)
    exprs[dim] = exprs[dim] * step + AffineExpr.dimension(rank)
    return indexed(build, x, exprs, [*sizes, size])


@lowers("aten.diagonal", "aten.diagonal_copy")
def lower_diagonal(call: LinalgCall) -> SSAValue:
    x, build, offset = call.tensor("self"), call.build, call.integer("offset")
    rank = rank_of(x)
    first, second = (call.integer(name) % rank for name in ("dim1", "dim2"))
    sizes = build.sizes(x)
    length = build.minimum(
        build.sub(sizes[first], max(-offset, 0)),
        build.sub(sizes[second], max(offset, 0)),
    )
    rest = [dim for dim in range(rank) if dim not in (first, second)]
    along = AffineExpr.dimension(len(rest))
    exprs = {dim: AffineExpr.dimension(i) for i, dim in enumerate(rest)}
    exprs[first], exprs[second] = along + max(-offset, 0), along + max(offset, 0)
    result = [*(sizes[dim] for dim in rest), build.maximum(length, 0)]
    return indexed(build, x, [exprs[dim] for dim in range(rank)], result)


# --- several of them ---------------------------------------------------


@lowers("aten.cat", "aten.concat", "aten.concatenate")
def lower_cat(call: LinalgCall) -> SSAValue:
    """Vectors without elements count for nothing, whatever the other ranks are."""
    rank = len(call.result_type().get_shape())
    parts = [x for x in call.operands("tensors") if rank == 1 or x.shape != (0,)]
    parts = [call.as_result(x) for x in parts if x.rank == rank]
    if not parts:
        return call.build.empty([0], call.signless_result_type())
    return concat(call.build, parts, call.integer("dim") % rank)


@lowers("aten.stack")
def lower_stack(call: LinalgCall) -> SSAValue:
    rank = len(call.result_type().get_shape())
    dim = call.integer("dim") % rank
    parts = [
        unsqueeze(call.build, call.as_result(x), dim) for x in call.operands("tensors")
    ]
    return concat(call.build, parts, dim)


@lowers("aten.expand", "aten.expand_copy", "aten.broadcast_to")
def lower_expand(call: LinalgCall) -> SSAValue:
    return expanded_to(call, call.tensor("self"), call.amounts("size"))


@lowers("aten.copy")
def lower_copy(call: LinalgCall) -> SSAValue:
    """`src` in the shape and type of `self`, of which only these are needed."""
    sizes = call.build.sizes(call.tensor("self"))
    return expanded_to(call, call.converted("src"), sizes)


@lowers("aten.expand_as")
def lower_expand_as(call: LinalgCall) -> SSAValue:
    sizes = call.build.sizes(call.tensor("other"))
    return expanded_to(call, call.tensor("self"), sizes)


def expanded_to(call: LinalgCall, x: SSAValue, sizes: Sequence[Amount]) -> SSAValue:
    """`x`, repeated where it has one element, or no dimension; -1 leaves a size."""
    build = call.build
    old, shape = build.sizes(x), call.result_type().get_shape()
    first = len(sizes) - len(old)
    exprs = [
        AffineExpr.constant(0) if size == 1 else AffineExpr.dimension(first + dim)
        for dim, size in enumerate(old)
    ]
    new: list[Amount] = []
    for dim, (size, static) in enumerate(zip(sizes, shape, strict=True)):
        if static != DYNAMIC_INDEX:
            new.append(static)
        else:
            kept = dim >= first and old[dim - first] != 1
            new.append(old[dim - first] if kept or size == -1 else size)
    if all(map(same, old, new[first:])):
        return (
            reshape(build, x, new)
            if 0 not in new and all(size == 1 for size in new[:first])
            else indexed(build, x, exprs, new)
        )
    return indexed(build, x, exprs, new)


@lowers("aten.repeat", "aten.tile")
def lower_repeat(call: LinalgCall) -> SSAValue:
    """Each dimension as two, the first of which runs through the repetitions."""
    x, build = call.tensor("self"), call.build
    repeats = call.amounts(call.op.schema.arguments[1].name)
    sizes = build.sizes(x)
    rank = max(len(repeats), len(sizes))
    repeats = [*[1] * (rank - len(repeats)), *repeats]
    sizes = [*[1] * (rank - len(sizes)), *sizes]
    if all(times == 1 for times in repeats):
        return reshape(build, x, sizes)
    loops: list[Amount] = []
    places: list[int] = []
    groups: list[int] = []
    for times, size in zip(repeats, sizes, strict=True):
        pair = [each for each in (times, size) if each != 1] or [1]
        if times != 1 and size == 1:
            loops.append(times)
            places.append(-1)
        elif times == 1:
            places.append(len(loops))
            loops.append(size)
        else:
            places.append(len(loops) + 1)
            loops += [times, size]
        groups.append(len(pair))
    exprs = [
        AffineExpr.constant(0)
        if place < 0 or size == 1
        else AffineExpr.dimension(place)
        for place, size in zip(places, sizes, strict=True)
    ]
    result = indexed(build, x, exprs[rank - rank_of(x) :], loops)
    for dim in range(rank):
        if groups[dim] == 2:
            result = collapse(build, result, dim, 2)
    return result


@lowers("aten.repeat_interleave.self_int")
def lower_repeat_interleave(call: LinalgCall) -> SSAValue:
    x, build = call.tensor("self"), call.build
    times = call.amount(call.op.arg("repeats"))
    if not call.has("dim"):
        x = reshape(build, x, [product(build, build.sizes(x))])
    dim = call.integer("dim") % rank_of(x) if call.has("dim") else 0
    sizes = build.sizes(x)
    exprs = dims(len(sizes) + 1)
    del exprs[dim + 1]
    result = indexed(build, x, exprs, [*sizes[: dim + 1], times, *sizes[dim + 1 :]])
    return collapse(build, result, dim, 2)


@lowers("aten.roll")
def lower_roll(call: LinalgCall) -> SSAValue:
    """`roll(x, n) -> cat([x[-n:], x[:-n]])`; without dims, of all elements in a row."""
    x, build = call.tensor("self"), call.build
    sizes, shifts = build.sizes(x), call.amounts("shifts")
    if not sizes:
        return x
    along = call.dims("dims", len(sizes), empty=True)
    if not along:
        x, along = reshape(build, x, [product(build, sizes)]), [0]
    for dim, shift in zip(along, shifts, strict=True):
        size = build.size(x, dim)
        if size == 0:
            continue
        # Of no elements, all are rolled by nothing.
        divisor = build.maximum(size, 1)
        turns = build.floordiv(shift, divisor)
        tail = build.sub(shift, build.mul(turns, divisor))
        head = build.maximum(build.sub(size, tail), 0)
        if tail == 0:
            continue
        parts = [part(build, x, dim, head, tail), part(build, x, dim, 0, head)]
        x = concat(build, parts, dim)
    return reshape(build, x, sizes)
