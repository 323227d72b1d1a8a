"""ATen ops that broadcast a tensor or repeat its elements."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr

from padc.ir.tcp import Amount
from padc.passes.common.tensor_shapes import (
    collapse,
    dims,
    indexed,
    product,
    rank_of,
    reshape,
    same,
)
from padc.passes.to_linalg.aten.linalg_call import LinalgCall, lowers


@lowers("aten.expand", "aten.expand_copy", "aten.broadcast_to")
def lower_expand(call: LinalgCall) -> SSAValue:
    return expanded_to(call, call.tensor("self"), call.amounts("size"))


@lowers("aten.copy")
def lower_copy(call: LinalgCall) -> SSAValue:
    """`src`, broadcast and converted to the shape and type of `self`."""
    sizes = call.build.sizes(call.tensor("self"))
    return expanded_to(call, call.converted("src"), sizes)


@lowers("aten.expand_as")
def lower_expand_as(call: LinalgCall) -> SSAValue:
    sizes = call.build.sizes(call.tensor("other"))
    return expanded_to(call, call.tensor("self"), sizes)


def expanded_to(call: LinalgCall, x: SSAValue, sizes: Sequence[Amount]) -> SSAValue:
    """Broadcast `x` to `sizes`, where -1 keeps a size."""
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
    """Compute dimensions `[times, size]` for each dimension, then merge each pair."""
    x, build = call.tensor("self"), call.build
    repeats = call.amounts(call.op.schema.arguments[1].name)
    sizes = build.sizes(x)
    rank = max(len(repeats), len(sizes))
    repeats = [*[1] * (rank - len(repeats)), *repeats]
    sizes = [*[1] * (rank - len(sizes)), *sizes]
    if all(times == 1 for times in repeats):
        return reshape(build, x, sizes)
    loops: list[Amount] = []
    exprs: list[AffineExpr] = []
    for times, size in zip(repeats, sizes, strict=True):
        if times != 1:
            loops.append(times)
        is_one = size == 1
        exprs.append(
            AffineExpr.constant(0) if is_one else AffineExpr.dimension(len(loops))
        )
        if times == 1 or not is_one:
            loops.append(size)
    result = indexed(build, x, exprs[rank - rank_of(x) :], loops)
    for dim, (times, size) in enumerate(zip(repeats, sizes, strict=True)):
        if times != 1 and size != 1:
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
