"""ATen ops that reorder dimensions, elements along them, or parts of them."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import DYNAMIC_INDEX

from padc.ir import mil
from padc.passes.torch_to_mil.aten.indices import gathered
from padc.passes.torch_to_mil.aten.mil_call import MilCall, lowers
from padc.passes.torch_to_mil.aten.movement import (
    Size,
    concat,
    reshape,
    size_of,
    sizes_of,
    static,
    transpose,
)
from padc.passes.torch_to_mil.aten.parts import part, steps
from padc.passes.torch_to_mil.aten.reshaping import known_sizes
from padc.passes.torch_to_mil.aten.tensor import Tensor


@lowers("aten.permute", "aten.permute_copy")
def lower_permute(call: MilCall) -> Tensor:
    x = call.tensor("self")
    return transpose(x, call.dims("dims", x.rank))


def swapped(x: Tensor, first: int, second: int) -> Tensor:
    """`x` with two dimensions exchanged."""
    order = list(range(x.rank))
    if x.rank:
        order[first], order[second] = order[second], order[first]
    return transpose(x, order)


def transposed(x: Tensor) -> Tensor:
    """Transposed matrices; scalars and vectors as they are."""
    return swapped(x, x.rank - 2, x.rank - 1) if x.rank > 1 else x


@lowers("aten.transpose.int", "aten.transpose_copy.int")
@lowers("aten.swapaxes", "aten.swapdims")
def lower_transpose(call: MilCall) -> Tensor:
    x = call.tensor("self")
    return swapped(x, *(call.dim(a.name, x.rank) for a in call.op.schema.arguments[1:]))


@lowers("aten.numpy_T", "aten.numpy_T.a")
def lower_numpy_t(call: MilCall) -> Tensor:
    x = call.tensor(call.op.schema.arguments[0].name)
    return transpose(x, [*reversed(range(x.rank))])


@lowers(*(f"aten.{name}" for name in ("t", "t_copy", "adjoint")))
@lowers(*(f"aten.{name}{a}" for name in ("mT", "mH", "matrix_H") for a in ("", ".a")))
def lower_t(call: MilCall) -> Tensor:
    x = call.tensor(call.op.schema.arguments[0].name)
    return transposed(x)


@lowers("aten.movedim.int", "aten.movedim.intlist")
@lowers("aten.moveaxis.int", "aten.moveaxis.intlist")
def lower_movedim(call: MilCall) -> Tensor:
    x = call.tensor("self")
    sources = call.dims("source", x.rank, empty=True)
    targets = call.dims("destination", x.rank, empty=True)
    moves = dict(zip(targets, sources, strict=True))
    rest = iter([dim for dim in range(x.rank) if dim not in sources])
    order = [moves[dim] if dim in moves else next(rest) for dim in range(x.rank)]
    return transpose(x, order)


def flipped(x: Tensor, dims: Sequence[int]) -> Tensor:
    """`x` with the elements along `dims` in reverse order."""
    dims = [dim for dim in dims if x.rank and x.shape[dim] != 1]
    return x.emit("reverse", x.shape, x=x, axes=dims) if dims else x


@lowers("aten.flip")
def lower_flip(call: MilCall) -> Tensor:
    x = call.tensor("self")
    return flipped(x, call.dims("dims", x.rank, empty=True))


@lowers("aten.fliplr")
def lower_fliplr(call: MilCall) -> Tensor:
    return flipped(call.tensor("self"), [1])


@lowers("aten.flipud")
def lower_flipud(call: MilCall) -> Tensor:
    return flipped(call.tensor("self"), [0])


@lowers("aten.rot90")
def lower_rot90(call: MilCall) -> Tensor:
    """`k` quarter turns from the first of two dimensions towards the second."""
    x, turns = call.tensor("self"), call.integer("k") % 4
    first, second = call.dims("dims", x.rank)
    dims: Sequence[int] = [(), [second], [first, second], [first]][turns]
    x = flipped(x, dims)
    return swapped(x, first, second) if turns % 2 else x


@lowers("aten.roll")
def lower_roll(call: MilCall) -> Tensor:
    """`roll(x, n) -> cat([x[-n:], x[:-n]])`; without dims, `x` is flattened first."""
    x, shifts = call.tensor("self"), call.sizes("shifts")
    if not x.rank:
        return x
    sizes = sizes_of(x)
    dims = call.dims("dims", x.rank, empty=True)
    if not dims:
        x = rolled(reshape(x, [-1]), 0, shifts[0])
        return reshape(x, sizes)
    for dim, shift in zip(dims, shifts, strict=True):
        x = rolled(x, dim, shift)
    return x


def rolled(x: Tensor, dim: int, shift: Size) -> Tensor:
    """`roll(x, n) -> cat([x[-n:], x[:-n]])`"""
    size = x.shape[dim]
    if size == DYNAMIC_INDEX or not isinstance(shift, int):
        return rolled_by_index(x, dim, shift)
    if not (shift := shift % size):
        return x
    tail = part(x, dim, size - shift, None, 1, shift)
    return concat([tail, part(x, dim, 0, size - shift, 1, size - shift)], dim)


def rolled_by_index(x: Tensor, dim: int, shift: Size) -> Tensor:
    """`roll(x, n)[i] -> x[(i - n) % size]`, where neither part may be empty."""
    if isinstance(shift, int) and shift == 0:
        return x
    size = size_of(x, dim)
    indices = steps(x, 0, size, 1, x.shape[dim]) - shift
    return gathered(x, indices.binary("mod", size), dim)


@lowers("aten.pixel_shuffle")
def lower_pixel_shuffle(call: MilCall) -> Tensor:
    """`[.., C * r * r, H, W] -> [.., C, H * r, W * r]`."""
    x, r = call.tensor("self"), call.integer("upscale_factor")
    sizes = sizes_of(x)
    *batch, channels, height, width = sizes
    wanted = known_sizes(
        call, [*batch, times(channels, 1, r * r), times(height, r), times(width, r)]
    )
    if x.is_float:
        images = reshape(x, [-1, channels, height, width]) if len(batch) != 1 else x
        shape = [images.shape[0], *call.result_shape()[-3:]]
        y = images.emit("pixel_shuffle", shape, x=images, upscale_factor=r)
        return reshape(y, wanted) if len(batch) != 1 else y
    x = reshape(x, [-1, r, r, height, width])
    return reshape(transpose(x, [0, 3, 1, 4, 2]), wanted)


def times(size: Size, factor: int, divisor: int = 1) -> Size:
    """`size // divisor * factor`."""
    if isinstance(size, int):
        return size // divisor * factor
    size = size if divisor == 1 else size.binary("floor_div", divisor)
    return size if factor == 1 else size * factor


@lowers("aten.pixel_unshuffle")
def lower_pixel_unshuffle(call: MilCall) -> Tensor:
    """`[.., C, H * r, W * r] -> [.., C * r * r, H, W]`."""
    x, r = call.tensor("self"), call.integer("downscale_factor")
    *batch, channels, height, width = sizes_of(x)
    height, width = times(height, 1, r), times(width, 1, r)
    wanted = known_sizes(call, [*batch, times(channels, r * r), height, width])
    if x.is_float and mil.OPS["pixel_unshuffle"].form(call.build.target) is not None:
        images = reshape(x, [-1, *sizes_of(x)[-3:]]) if len(batch) != 1 else x
        # PyTorch computes the channels, even those that are known, from all sizes.
        shape = [images.shape[0], *static(wanted[-3:])]
        y = images.emit("pixel_unshuffle", shape, x=images, downscale_factor=r)
        return reshape(y, wanted) if len(batch) != 1 else y
    x = reshape(x, [-1, height, r, width, r])
    return reshape(transpose(x, [0, 2, 4, 1, 3]), wanted)


@lowers("aten.channel_shuffle", "aten.native_channel_shuffle")
def lower_channel_shuffle(call: MilCall) -> Tensor:
    """`[N, g * c, ..] -> [N, c * g, ..]`."""
    x, groups = call.tensor("self"), call.integer("groups")
    sizes = sizes_of(x)
    x = reshape(x, [sizes[0], groups, times(sizes[1], 1, groups), -1])
    return reshape(transpose(x, [0, 2, 1, 3]), sizes)
