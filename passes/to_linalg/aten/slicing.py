"""ATen ops that read or replace a regular part of a tensor."""

from __future__ import annotations

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr

from padc.ir.arithmetic import ceil_div
from padc.ir.padding import conv_output_size
from padc.ir.tcp import Amount, tensor_type
from padc.passes.aten.operand_checks import check_dim, check_index, check_source
from padc.passes.common.tensor_shapes import (
    dims,
    indexed,
    rank_of,
    same,
    unsqueeze,
)
from padc.passes.to_linalg.aten.linalg_call import LinalgCall, lowers
from padc.passes.to_linalg.build.slices import (
    bounded,
    from_start,
    part,
    position,
    selected,
    with_part,
)


@lowers("aten.slice.Tensor", "aten.slice_copy.Tensor")
def lower_slice(call: LinalgCall) -> SSAValue:
    x, build = call.tensor("self"), call.build
    dim = call.integer("dim") % rank_of(x)
    start, count, step = slice_range(call, build.size(x, dim))
    static = call.result_type().get_shape()[dim]
    return part(
        build, x, dim, start, count if static == DYNAMIC_INDEX else static, step
    )


def slice_range(call: LinalgCall, size: Amount) -> tuple[Amount, Amount, Amount]:
    """The start, number of elements and step of a slice of `size` elements."""
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
        count = ceil_div(build.wrap(count), build.wrap(step)).value
    return start, count, step


@lowers("aten.slice_scatter")
def lower_slice_scatter(call: LinalgCall) -> SSAValue:
    x, build = call.tensor("self"), call.build
    check_dim(dim := call.integer("dim"), rank_of(x))
    dim %= rank_of(x)
    start, count, step = slice_range(call, build.size(x, dim))
    source = call.converted("src")
    shape: list[Amount] = [*tensor_type(x).get_shape()]
    shape[dim] = count
    check_source(tensor_type(source).get_shape(), shape)
    return with_part(build, x, source, dim, start, step)


@lowers("aten.select_scatter")
def lower_select_scatter(call: LinalgCall) -> SSAValue:
    x, build, source = call.tensor("self"), call.build, call.converted("src")
    shape = [*tensor_type(x).get_shape()]
    check_dim(dim := call.integer("dim"), rank_of(x))
    dim %= rank_of(x)
    index = call.amount(call.op.arg("index"))
    check_index(index, shape.pop(dim))
    check_source(tensor_type(source).get_shape(), shape)
    index = position(build, index, build.size(x, dim))
    row = unsqueeze(build, source, dim)
    return with_part(build, x, row, dim, index, 1)


@lowers("aten.narrow", "aten.narrow_copy")
def lower_narrow(call: LinalgCall) -> SSAValue:
    x, build = call.tensor("self"), call.build
    dim = call.integer("dim") % rank_of(x)
    start = from_start(build, call.amount(call.op.arg("start")), build.size(x, dim))
    return part(build, x, dim, start, call.amount(call.op.arg("length")))


@lowers("aten.select.int", "aten.select_copy.int")
def lower_select(call: LinalgCall) -> SSAValue:
    x, build = call.tensor("self"), call.build
    dim = call.integer("dim") % rank_of(x)
    index = call.amount(call.op.arg("index"))
    return selected(build, x, dim, position(build, index, build.size(x, dim)))


@lowers("aten.unfold", "aten.unfold_copy")
def lower_unfold(call: LinalgCall) -> SSAValue:
    """Windows along a dimension; the new last dimension runs along each window."""
    x, build = call.tensor("self"), call.build
    size, step = call.integer("size"), call.integer("step")
    if not (rank := rank_of(x)):
        return indexed(build, x, [], [size])
    dim = call.integer("dimension") % rank
    sizes = build.sizes(x)
    sizes[dim] = conv_output_size(build.wrap(sizes[dim]), size, step).value
    exprs = dims(rank)
    exprs[dim] = exprs[dim] * step + AffineExpr.dimension(rank)
    return indexed(build, x, exprs, [*sizes, size])


@lowers("aten.diagonal", "aten.diagonal_copy")
def lower_diagonal(call: LinalgCall) -> SSAValue:
    x, build, offset = call.tensor("self"), call.build, call.integer("offset")
    rank = rank_of(x)
    first, second = (call.integer(name) % rank for name in ("dim1", "dim2"))
    sizes = build.sizes(x)
    # The part of rows and columns that the diagonal passes: an index of a loop alone
    # runs along its whole dimension.
    starts = {first: max(-offset, 0), second: max(offset, 0)}
    starts = {d: build.wrap(sizes[d]).minimum(start) for d, start in starts.items()}
    lengths = [build.wrap(sizes[d]) - start for d, start in starts.items()]
    length = lengths[0].minimum(lengths[1]).value
    for dim, start in starts.items():
        x = part(build, x, dim, start.value, length)
    rest = [dim for dim in range(rank) if dim not in starts]
    exprs = {dim: AffineExpr.dimension(i) for i, dim in enumerate(rest)}
    exprs |= dict.fromkeys(starts, AffineExpr.dimension(len(rest)))
    result = [*(sizes[dim] for dim in rest), length]
    return indexed(build, x, [exprs[dim] for dim in range(rank)], result)
