"""Ops that look elements up, or replace them, one by one or along a dimension."""

from __future__ import annotations

from xdsl.ir import SSAValue

from padc.passes.aten.builder import Argument
from padc.passes.tcp_to_mil.ranks.along import axes_of, merged_like
from padc.passes.tcp_to_mil.ranks.carrier import Carrier, shape_of
from padc.passes.tcp_to_mil.ranks.grouping import apart, grouped
from padc.passes.tcp_to_mil.ranks.rank_call import RankCall, rewrites
from padc.passes.tcp_to_mil.ranks.repeats import expanded

ALONG_ONE = (
    *("index_add", "index_copy", "index_fill.int_Scalar", "index_fill.int_Tensor"),
    *("index_reduce", "scatter.reduce", "scatter.src", "scatter.value"),
    *("scatter.value_reduce", "scatter_add", "scatter_reduce.two"),
)
"""Ops that change elements along one dimension, independent of the others."""

FLAT = ("histc", "put", "take")
"""Ops on all elements in their order."""


@rewrites(*(f"aten.{name}" for name in ALONG_ONE))
def rewrite_update(call: RankCall) -> SSAValue:
    """The op on tensors in which the other dimensions are merged."""
    x = call.carrier("self")
    dims = call.dims("dim", x.rank)
    groups = call.build.choose(grouped(apart(x.sizes, dims)), [x])
    arguments: dict[str, Argument] = {}
    for name in ("index", "src", "source"):
        if call.has(name) and call.carrier(name).rank == x.rank:
            arguments[name] = merged_like(call, x, groups, dims, name)
    value = call.build.merged(x, groups)
    (dim,) = axes_of(groups, dims)
    (y,) = call.again(shape_of(value), self=value, dim=dim, **arguments)
    return call.view(y, x.sizes, groups)


@rewrites(*(f"aten.{name}" for name in FLAT))
def rewrite_flat(call: RankCall) -> SSAValue:
    """The op on tensors that hold the same elements in the same order."""
    given = {
        name: call.carrier(name)
        for name in ("self", "index", "source")
        if call.has(name)
    }
    values: dict[str, Argument] = {name: x.value for name, x in given.items()}
    if call.name == "aten.histc":
        return call.again(call.result_shape, **values)[0]
    of = given["self" if call.name == "aten.put" else "index"]
    (y,) = call.again(shape_of(of.value), **values)
    return call.view(y, of.sizes, of.groups)


@rewrites("aten.masked_scatter")
def rewrite_masked_scatter(call: RankCall) -> SSAValue:
    """The op on vectors."""
    x = call.carrier("self")
    mask = expanded(call.build, call.carrier("mask"), x.sizes)
    source = call.carrier("source")
    value = call.build.flat(x)
    (y,) = call.again(
        shape_of(value),
        self=value,
        mask=call.build.flat(mask),
        source=source.value,
    )
    return call.view(y, x.sizes, (tuple(range(x.rank)),))


@rewrites("aten.bucketize.Tensor")
def rewrite_bucketize(call: RankCall) -> SSAValue:
    return of_each(call, call.carrier("self"))


def of_each(call: RankCall, x: Carrier) -> SSAValue:
    """The op on each element of `x`, its argument `self`."""
    (y,) = call.again(shape_of(x.value), self=x.value)
    return call.view(y, x.sizes, x.groups)


@rewrites("aten.searchsorted.Tensor")
def rewrite_searchsorted(call: RankCall) -> SSAValue:
    """The op on a batch of one dimension."""
    sequence, x = call.carrier("sorted_sequence"), call.carrier("self")
    if sequence.rank == 1:
        return of_each(call, x)
    names = ["sorted_sequence", "self"]
    names += ["sorter"] if call.has("sorter") else []
    groups = tuple(range(x.rank - 1)), (x.rank - 1,)
    values: dict[str, Argument] = {
        name: call.build.merged(call.carrier(name), groups) for name in names
    }
    shape = shape_of(call.build.merged(x, groups))
    (y,) = call.again(shape, **values)
    return call.view(y, x.sizes, groups)
