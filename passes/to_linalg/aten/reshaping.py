"""ATen ops that give the same elements, in the same order, another shape."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import SSAValue

from padc.errors import Obstacle
from padc.ir.tcp import Amount, tensor_type
from padc.passes.common.tensor_shapes import (
    collapse,
    product,
    rank_of,
    reshape,
    squeeze,
    unsqueeze,
)
from padc.passes.to_linalg.aten.linalg_call import LinalgCall, lowers


@lowers(
    *(f"aten.{name}" for name in ("view", "reshape", "_unsafe_view", "view_copy")),
    *("aten._reshape_copy", "aten._reshape_alias"),
)
def lower_reshape(call: LinalgCall) -> SSAValue:
    name = "shape" if call.name == "aten.reshape" else "size"
    return reshape_to(call, call.tensor("self"), call.amounts(name))


def reshape_to(call: LinalgCall, x: SSAValue, sizes: Sequence[Amount]) -> SSAValue:
    """Reshape `x` to the result's sizes; -1 in `sizes` is computed from the others."""
    build, shape = call.build, call.result_type().get_shape()
    if len(sizes) != len(shape):
        raise Obstacle(f"{len(sizes)} sizes for a result of {len(shape)} dimensions")
    known = [
        size if static == DYNAMIC_INDEX else static
        for size, static in zip(sizes, shape, strict=True)
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
    least = 1 if call.name == "aten.atleast_1d" else 2
    while rank_of(x) < least:
        x = unsqueeze(call.build, x, 0)
    return x
