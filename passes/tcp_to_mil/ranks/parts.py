"""Ops that put tensors together, or take them apart."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import SSAValue

from padc.ir import mil
from padc.ir.torch import ListUnpackOp, VTensorType, builtin_type
from padc.passes.aten.builder import Integer
from padc.passes.tcp_to_mil.ranks.carrier import Carrier, shape_of
from padc.passes.tcp_to_mil.ranks.grouping import Groups, apart, grouped
from padc.passes.tcp_to_mil.ranks.rank_call import RankCall, product_in_type, rewrites

SPLITS = (
    *("chunk", "split.Tensor", "split.sizes", "split_copy.Tensor", "split_with_sizes"),
    *("split_with_sizes_copy", "tensor_split.sections", "unbind.int"),
    *("unbind_copy.int", "unsafe_chunk", "unsafe_split.Tensor"),
    "unsafe_split_with_sizes",
)


@rewrites("aten.cat", "aten.concat", "aten.concatenate")
def rewrite_cat(call: RankCall) -> SSAValue:
    """Empty vectors are left out, whatever the rank of the other tensors is."""
    rank = len(call.result_shape)
    given = [call.build.carrier(x) for x in call.elements("tensors")]
    return joined(
        call, [x for x in given if x.rank == rank], call.integer("dim") % rank
    )


@rewrites("aten.stack")
def rewrite_stack(call: RankCall) -> SSAValue:
    """The concatenation along a new dimension."""
    dim = call.integer("dim") % len(call.result_shape)
    given = [call.build.carrier(x) for x in call.elements("tensors")]
    return joined(call, [with_dim(x, dim) for x in given], dim)


def with_dim(x: Carrier, dim: int) -> Carrier:
    """`x` with a new dimension of size 1."""
    groups = x.groups
    if groups is not None:
        groups = tuple(tuple(d + (d >= dim) for d in group) for group in groups)
    return Carrier(x.value, [*x.sizes[:dim], 1, *x.sizes[dim:]], groups)


def joined(call: RankCall, parts: Sequence[Carrier], dim: int) -> SSAValue:
    """The parts along `dim`, with the other dimensions merged."""
    groups, axis = along_one(call, parts[0], dim)
    value = call.build.cat([call.build.merged(x, groups) for x in parts], axis)
    sizes = list(parts[0].sizes)
    sizes[dim] = call.build.size(value, axis)
    return call.view(value, sizes, groups)


def along_one(call: RankCall, x: Carrier, dim: int) -> tuple[Groups, int]:
    """Groups of dimensions, `dim` alone in one of them; the index of that one."""
    groups = call.build.choose(grouped(apart(x.sizes, [dim])), [x])
    return groups, groups.index((dim,))


def without(groups: Groups, axis: int) -> Groups:
    return (*groups[:axis], *groups[axis + 1 :])


@rewrites("aten.slice_scatter", "aten.select_scatter")
def rewrite_scatter(call: RankCall) -> SSAValue:
    """Both tensors with the other dimensions merged."""
    x, src = call.carrier("self"), call.carrier("src")
    dim = call.integer("dim") % x.rank
    groups, axis = along_one(call, x, dim)
    if call.name == "aten.select_scatter":
        source = call.build.merged(with_dim(src, dim), without(groups, axis))
    else:
        source = call.build.merged(src, groups)
    value = call.build.merged(x, groups)
    (value,) = call.again(shape_of(value), self=value, src=source, dim=axis)
    return call.view(value, x.sizes, groups)


@rewrites(*(f"aten.{name}" for name in SPLITS))
def rewrite_split(call: RankCall) -> list[list[SSAValue]]:
    """The op on a tensor with the other dimensions merged."""
    x = call.carrier("self")
    dim = call.integer("dim") % x.rank
    groups, axis = along_one(call, x, dim)
    if not (wanted := call.parts()):
        return [[]]  # Nothing uses the parts.
    is_removed = len(wanted[0].get_shape()) < x.rank
    merged = [product_in_type([x.sizes[d] for d in group]) for group in groups]
    types: list[VTensorType] = []
    for type in wanted:
        along = [] if is_removed else [type.get_shape()[dim]]
        shape = [*merged[:axis], *along, *merged[axis + 1 :]]
        types.append(VTensorType.get(type.element_type, tuple(shape)))
    op = call.rebuilt(
        [call.op.results[0].type], self=call.build.merged(x, groups), dim=axis
    )
    unpack = ListUnpackOp(op.results[0], types)
    call.insert(unpack)
    return [
        [
            part(
                call,
                call.build.builtin(value),
                type,
                x,
                dim,
                None if is_removed else axis,
            )
            for value, type in zip(unpack.results, wanted, strict=True)
        ]
    ]


def part(
    call: RankCall,
    value: SSAValue,
    type: VTensorType,
    x: Carrier,
    dim: int,
    axis: int | None,
) -> SSAValue:
    """A part of `x` along `dim`, which is `axis` of `value`; None if removed."""
    along: list[Integer] = []
    if axis is not None:
        size = type.get_shape()[dim]
        along = [call.build.size(value, axis) if size == DYNAMIC_INDEX else size]
    sizes = [*x.sizes[:dim], *along, *x.sizes[dim + 1 :]]
    return call.build.view(value, sizes, builtin_type(type))


@rewrites("aten.unfold", "aten.unfold_copy")
def rewrite_unfold(call: RankCall) -> SSAValue:
    """Windows along a dimension; the new last dimension runs along each window."""
    x, size = call.carrier("self"), call.integer("size")
    dim = call.integer("dimension") % x.rank
    groups = call.build.choose(grouped(apart(x.sizes, [dim])), [x], mil.MAX_RANK - 1)
    axis = groups.index((dim,))
    shape = [product_in_type([x.sizes[d] for d in group]) for group in groups]
    shape[axis] = call.result_shape[dim]
    value = call.build.merged(x, groups)
    (value,) = call.again([*shape, size], self=value, dimension=axis)
    sizes = [*x.sizes, size]
    sizes[dim] = call.build.size(value, axis)
    return call.view(value, sizes, (*groups, (x.rank,)))


@rewrites("aten.diagonal", "aten.diagonal_copy")
def rewrite_diagonal(call: RankCall) -> SSAValue:
    """The diagonal of two dimensions becomes the last one."""
    x = call.carrier("self")
    first, second = (call.integer(name) % x.rank for name in ("dim1", "dim2"))
    groups = call.build.choose(grouped(apart(x.sizes, [first], [second])), [x])
    axes = [groups.index((dim,)) for dim in (first, second)]
    kept = [dim for dim in range(x.rank) if dim not in (first, second)]
    left = tuple(
        tuple(kept.index(dim) for dim in group)
        for i, group in enumerate(groups)
        if i not in axes
    )
    shape = [product_in_type([x.sizes[kept[d]] for d in group]) for group in left]
    (value,) = call.again(
        [*shape, call.result_shape[-1]],
        self=call.build.merged(x, groups),
        dim1=axes[0],
        dim2=axes[1],
    )
    size = call.build.size(value, len(left))
    sizes = [*(x.sizes[dim] for dim in kept), size]
    return call.view(value, sizes, (*left, (len(kept),)))
