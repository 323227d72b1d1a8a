"""ATen ops that reorder dimensions, or parts of dimensions."""

from __future__ import annotations

from xdsl.ir import SSAValue

from padc.passes.common.tensor_shapes import collapse, expand, permute, rank_of
from padc.passes.to_linalg.aten.linalg_call import LinalgCall, lowers


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
    if "numpy" in call.name:
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
