"""Ops along some of a tensor's dimensions: reductions, softmax, slices and the like."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import SSAValue

from padc.errors import Obstacle
from padc.ir import mil
from padc.passes.aten.builder import Argument, Integer
from padc.passes.tcp_to_mil.ranks.carrier import Carrier, shape_of
from padc.passes.tcp_to_mil.ranks.grouping import Groups, apart, grouped
from padc.passes.tcp_to_mil.ranks.permutes import permuted
from padc.passes.tcp_to_mil.ranks.rank_call import (
    RankCall,
    batches,
    product_in_type,
    rewrites,
)

REDUCTIONS = (
    *("all", "all.dim", "all.dims", "amax", "amin", "aminmax", "any", "any.dim"),
    *("any.dims", "count_nonzero", "count_nonzero.dim_IntList", "linalg_vector_norm"),
    *("logsumexp", "max", "mean", "mean.dim", "median", "min", "nanmedian", "nansum"),
    *("norm.Scalar", "norm.ScalarOpt_dim", "norm.ScalarOpt_dim_dtype", "prod", "std"),
    *("special_logsumexp", "std.correction", "std.dim", "std_mean.correction", "sum"),
    *("sum.dim_IntList", "var", "var.correction", "var.dim", "var_mean.correction"),
)
"""Ops that reduce any number of dimensions: none given means all."""

ALONG_ONE = (
    *("_log_softmax", "_safe_softmax", "_softmax", "argmax", "argmin", "argsort"),
    *("argsort.stable", "cummax", "cummin", "cumprod", "cumsum", "gather", "glu"),
    *("index_select", "log_softmax.int", "logcumsumexp", "max.dim", "median.dim"),
    *("min.dim", "mode", "nanmedian.dim", "narrow", "prod.dim_int", "select.int"),
    *("kthvalue", "slice.Tensor"),
    *("softmax.int", "sort", "sort.stable", "special_log_softmax", "special_softmax"),
    "topk",
)
"""Ops along one dimension, independent of the others."""


@rewrites(*(f"aten.{name}" for name in (*REDUCTIONS, *ALONG_ONE)))
def rewrite_along(call: RankCall) -> Sequence[SSAValue]:
    """The op on a tensor in which the other dimensions are merged."""
    x = call.carrier("self")
    dims = dims_of(call, x)
    if not dims:
        return along_all(call, x)
    required = grouped(apart(x.sizes, dims))
    if len(required) > mil.MAX_RANK:
        return along_last(call, x, dims)
    # The row of mode adds a dimension.
    most = mil.MAX_RANK - (call.name == "aten.mode")
    groups = call.build.choose(required, [x], most)
    return along(call, x, groups, dims, **merged_index(call, x, groups, dims))


def merged_index(
    call: RankCall, x: Carrier, groups: Groups, dims: Collection[int]
) -> dict[str, Argument]:
    """The index of `gather`, with a dimension for each group; other ops have none."""
    if call.name != "aten.gather":
        return {}
    return {"index": merged_like(call, x, groups, dims, "index")}


def merged_like(
    call: RankCall, x: Carrier, groups: Groups, dims: Collection[int], name: str
) -> SSAValue:
    """
    An operand with the groups of `x`, whose sizes it has except along `dims`.

    Obstacle if it has other sizes elsewhere.
    """
    index = call.carrier(name)
    sizes = [*enumerate(zip(x.sizes, index.sizes, strict=True))]
    if name == "source":  # PyTorch only takes one of these sizes.
        same = [other if dim in dims else own for dim, (own, other) in sizes]
        index = replace(index, sizes=same)
    elif any(own != other for dim, (own, other) in sizes if dim not in dims):
        raise Obstacle(
            f"apart from the dimension that it is along, its {name} has other sizes "
            "than the tensor, or unknown ones, and Core ML's tensors have rank "
            f"{mil.MAX_RANK} at most",
            "slice the tensor to these sizes, or flatten both in the same way",
        )
    return call.build.merged(index, groups)


def dims_of(call: RankCall, x: Carrier) -> list[int]:
    """The dimensions that an op is along; none if it has no such argument."""
    for name in ("dim", "dims"):
        if call.has(name):
            return call.dims(name, x.rank)
    return []


def axes_of(groups: Groups, dims: Collection[int]) -> list[int]:
    """The merged dimensions that hold some of `dims`."""
    return [i for i, group in enumerate(groups) if not set(group).isdisjoint(dims)]


def along(
    call: RankCall,
    x: Carrier,
    groups: Groups,
    dims: Collection[int],
    **arguments: Argument,
) -> list[SSAValue]:
    """The results of the op on a tensor with a dimension for each group."""
    results = range(len(call.op.results))
    made = call.again(
        *(result_shape(call, index, x, groups, dims) for index in results),
        self=call.build.merged(x, groups),
        **dims_argument(call, axes_of(groups, dims)),
        **arguments,
    )
    return [
        as_result(call, value, index, x, groups, dims)
        for index, value in enumerate(made)
    ]


def dims_argument(call: RankCall, axes: list[int]) -> dict[str, Argument]:
    """The argument that says which dimensions an op is along."""
    name = "dim" if call.has("dim") else "dims"
    is_list = isinstance(call.constant(name), list)
    return {name: axes if is_list else axes[0]}


def is_removed(call: RankCall, index: int, x: Carrier) -> bool:
    """Whether a result lacks the dimensions that the op is along."""
    return len(call.result_type(index).get_shape()) < x.rank


def result_shape(
    call: RankCall, index: int, x: Carrier, groups: Groups, dims: Collection[int]
) -> list[int]:
    """The sizes of a result with a dimension for each group that it has."""
    sizes = list(x.sizes)
    if is_removed(call, index, x):
        groups = tuple(group for group in groups if set(group).isdisjoint(dims))
    else:
        for dim in dims:
            sizes[dim] = call.result_type(index).get_shape()[dim]
    return [product_in_type([sizes[dim] for dim in group]) for group in groups]


def as_result(
    call: RankCall,
    value: SSAValue,
    index: int,
    x: Carrier,
    groups: Groups,
    dims: Collection[int],
) -> SSAValue:
    """The result in its own shape, as a view of the computed value."""
    if is_removed(call, index, x):
        left = [dim for dim in range(x.rank) if dim not in dims]
        groups = tuple(
            tuple(left.index(dim) for dim in group)
            for group in groups
            if set(group).isdisjoint(dims)
        )
        return call.view(value, [x.sizes[dim] for dim in left], groups, index)
    sizes = list(x.sizes)
    for axis in axes_of(groups, dims):
        for dim in set(groups[axis]) & set(dims):
            sizes[dim] = call.result_type(index).get_shape()[dim]
            if sizes[dim] == DYNAMIC_INDEX:
                sizes[dim] = call.build.size(value, axis)
    return call.view(value, sizes, groups, index)


def along_all(call: RankCall, x: Carrier) -> list[SSAValue]:
    """The op on all elements: it does not matter how they are arranged."""
    ones = [1] * len(shape_of(x.value))
    shapes = [
        ones if call.result_type(index).get_shape() else []
        for index in range(len(call.op.results))
    ]
    made = call.again(*shapes, self=x.value)
    return [
        call.view(y, [1] * x.rank if shape else [], None, index)
        for index, (y, shape) in enumerate(zip(made, shapes, strict=True))
    ]


def along_last(call: RankCall, x: Carrier, dims: Collection[int]) -> list[SSAValue]:
    """A reduction of many dimensions, after they have been moved to the end."""
    left = [dim for dim in range(x.rank) if dim not in dims]
    y = permuted(call.build, x, [*left, *sorted(dims)])
    last = range(len(left), x.rank)
    groups = call.build.choose(grouped(apart(y.sizes, last)), [y])
    axes = axes_of(groups, last)
    kept = [group for i, group in enumerate(groups) if i not in axes]
    shape = [product_in_type([y.sizes[dim] for dim in group]) for group in kept]
    made = call.again(
        *(
            shape if is_removed(call, index, x) else shape + [1] * len(axes)
            for index in range(len(call.op.results))
        ),
        self=call.build.merged(y, groups),
        **dims_argument(call, axes),
    )
    ones: list[Integer] = [1 if dim in dims else s for dim, s in enumerate(x.sizes)]
    sizes = [x.sizes[dim] for dim in left]
    return [
        call.view(value, sizes if is_removed(call, index, x) else ones, None, index)
        for index, value in enumerate(made)
    ]


@rewrites("aten.flip")
def rewrite_flip(call: RankCall) -> SSAValue:
    """A reversal of merged dimensions reverses each of them."""
    x = call.carrier("self")
    dims = [dim for dim in call.dims("dims", x.rank) if x.sizes[dim] != 1]
    for part in batches([dim in dims for dim in range(x.rank)], x.sizes):
        groups = call.build.choose(grouped(apart(x.sizes, part)), [x])
        value = call.build.merged(x, groups)
        (value,) = call.again(shape_of(value), self=value, dims=axes_of(groups, part))
        x = Carrier(value, x.sizes, groups)
    return call.view(x.value, x.sizes, x.groups)


@rewrites("aten.tril", "aten.triu")
def rewrite_triangle(call: RankCall) -> SSAValue:
    """Of the last two dimensions."""
    x = call.carrier("self")
    labels = apart(x.sizes, [x.rank - 2], [x.rank - 1])
    groups = call.build.choose(grouped(labels), [x])
    value = call.build.merged(x, groups)
    (value,) = call.again(shape_of(value), self=value)
    return call.view(value, x.sizes, groups)
