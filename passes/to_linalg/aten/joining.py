"""ATen ops that concatenate tensors, or parts of one."""

from __future__ import annotations

from xdsl.ir import SSAValue

from padc.passes.common.tensor_shapes import product, reshape, unsqueeze
from padc.passes.to_linalg.aten.linalg_call import LinalgCall, lowers
from padc.passes.to_linalg.build.slices import concat, part


@lowers("aten.cat", "aten.concat", "aten.concatenate")
def lower_cat(call: LinalgCall) -> SSAValue:
    """Empty vectors are skipped, whatever the rank of the other tensors is."""
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


@lowers("aten.roll")
def lower_roll(call: LinalgCall) -> SSAValue:
    """`roll(x, n) -> cat([x[-n:], x[:-n]])`; without dims, `x` is flattened first."""
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
        length = build.wrap(size)
        # A dynamic size may be 0.
        rolled = build.wrap(shift) % length.maximum(1)
        head, tail = (length - rolled).maximum(0).value, rolled.value
        if tail == 0:
            continue
        parts = [part(build, x, dim, head, tail), part(build, x, dim, 0, head)]
        x = concat(build, parts, dim)
    return reshape(build, x, sizes)
