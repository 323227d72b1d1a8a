"""ATen ops that give the same elements, in the same order, another shape."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import DYNAMIC_INDEX

from padc.passes.torch_to_mil.aten.mil_call import MilCall, lowers
from padc.passes.torch_to_mil.aten.movement import (
    Size,
    broadcast_to,
    expand_dims,
    reshape,
    sizes_of,
    squeeze,
)
from padc.passes.torch_to_mil.aten.tensor import Tensor


def known_sizes(call: MilCall, sizes: Sequence[Size], index: int = 0) -> list[Size]:
    """`sizes` of a result, where those that its type tells are integers."""
    return [
        size if static == DYNAMIC_INDEX else static
        for size, static in zip(sizes, call.result_shape(index), strict=True)
    ]


@lowers(
    *(f"aten.{name}" for name in ("view", "reshape", "_unsafe_view", "view_copy")),
    *("aten._reshape_copy", "aten._reshape_alias", "aten._reshape_alias_copy"),
)
def lower_reshape(call: MilCall) -> Tensor:
    sizes = call.sizes(call.op.schema.arguments[1].name)
    return reshape(call.tensor("self"), known_sizes(call, sizes))


@lowers("aten.reshape_as", "aten.view_as")
def lower_reshape_as(call: MilCall) -> Tensor:
    sizes = sizes_of(call.tensor("other"))
    return reshape(call.tensor("self"), known_sizes(call, sizes))


@lowers("aten.flatten.using_ints", "prims.collapse")
def lower_flatten(call: MilCall) -> Tensor:
    x = call.tensor(call.op.schema.arguments[0].name)
    first, last = (call.dim(a.name, x.rank) for a in call.op.schema.arguments[1:])
    sizes = sizes_of(x)
    return reshape(x, known_sizes(call, [*sizes[:first], -1, *sizes[last + 1 :]]))


@lowers("aten.ravel")
def lower_ravel(call: MilCall) -> Tensor:
    return reshape(call.tensor("self"), known_sizes(call, [-1]))


@lowers("aten.unflatten.int")
def lower_unflatten(call: MilCall) -> Tensor:
    x = call.tensor("self")
    sizes, dim = sizes_of(x), call.dim("dim", x.rank)
    sizes[dim : dim + 1] = call.sizes("sizes")
    return reshape(x, known_sizes(call, sizes))


@lowers("prims.split_dim")
def lower_split_dim(call: MilCall) -> Tensor:
    x = call.tensor("a")
    sizes, dim = sizes_of(x), call.dim("dim", x.rank)
    sizes[dim : dim + 1] = [call.size("outer_length"), -1]
    return reshape(x, known_sizes(call, sizes))


@lowers("aten.squeeze", "aten.squeeze.dim", "aten.squeeze.dims", "prims.squeeze")
@lowers("aten.squeeze_copy", "aten.squeeze_copy.dim", "aten.squeeze_copy.dims")
def lower_squeeze(call: MilCall) -> Tensor:
    """A dynamic size is not 1: PyTorch guards that."""
    first, *rest = call.op.schema.arguments
    x = call.tensor(first.name)
    dims = call.dims(rest[0].name, x.rank, empty=True) if rest else range(x.rank)
    return squeeze(x, [dim for dim in dims if x.rank and x.shape[dim] == 1])


@lowers("aten.unsqueeze", "aten.unsqueeze_copy")
def lower_unsqueeze(call: MilCall) -> Tensor:
    x = call.tensor("self")
    return expand_dims(x, [call.dim("dim", x.rank + 1)])


@lowers(*(f"aten.atleast_{rank}d" for rank in (1, 2, 3)))
def lower_atleast(call: MilCall) -> Tensor:
    return raised(call.tensor("self"), int(call.name[-2]))


@lowers(*(f"aten.atleast_{rank}d.Sequence" for rank in (1, 2, 3)))
def lower_atleast_of_each(call: MilCall) -> list[list[Tensor]]:
    rank = int(call.name.removesuffix(".Sequence")[-2])
    return [[raised(x, rank) for x in call.tensors("tensors")]]


def raised(x: Tensor, rank: int) -> Tensor:
    """
    `x` with dimensions of size 1, up to `rank`.

    The third dimension is the last one of a matrix; a vector becomes the second.
    """
    first = list(range(rank - x.rank))
    return expand_dims(x, {(3, 2): [2], (3, 1): [0, 2]}.get((rank, x.rank), first))


@lowers("aten.expand", "aten.expand_copy", "aten.broadcast_to")
def lower_expand(call: MilCall) -> Tensor:
    """A size of -1 keeps a size."""
    return broadcast_to(call.tensor("self"), known_sizes(call, call.sizes("size")))


@lowers("aten.expand_as")
def lower_expand_as(call: MilCall) -> Tensor:
    sizes = sizes_of(call.tensor("other"))
    return broadcast_to(call.tensor("self"), known_sizes(call, sizes))


@lowers("aten.copy")
def lower_copy(call: MilCall) -> Tensor:
    """`src`, broadcast and converted to the shape and type of `self`."""
    sizes = sizes_of(call.tensor("self"))
    x = call.tensor("src").to(call.result_element_type())
    return broadcast_to(x, known_sizes(call, sizes))
