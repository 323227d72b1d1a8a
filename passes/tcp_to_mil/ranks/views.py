"""Ops whose result has the elements of their operand, in the same order."""

from __future__ import annotations

from xdsl.ir import SSAValue

from padc.passes.aten.builder import Integer
from padc.passes.tcp_to_mil.ranks.carrier import VIEWS, Carrier, is_high, symbols
from padc.passes.tcp_to_mil.ranks.grouping import Groups, matching
from padc.passes.tcp_to_mil.ranks.rank_call import RankCall, rewrites


def regrouped(call: RankCall, x: Carrier, sizes: list[Integer]) -> Groups | None:
    """Which dimensions of a view of `sizes` each dimension of the carrier holds."""
    return matching(symbols(call.build.sizes(x.value)), symbols(sizes))


def as_view(call: RankCall, x: Carrier, sizes: list[Integer]) -> SSAValue:
    """The result as a view of the carrier of `x`."""
    return call.view(x.value, sizes, regrouped(call, x, sizes))


@rewrites(*VIEWS)
def rewrite_view(call: RankCall) -> SSAValue | None:
    """`view(view(x)) -> view(x)`; a view of a carrier stays."""
    if not is_high(call.op.arg("self")):
        return None
    x = call.carrier("self")
    if is_high(call.op.results[0]):
        return as_view(call, x, call.build.sizes_of_view(call.op))
    given = call.sizes(VIEWS[call.name])
    return call.view(x.value, given)


@rewrites("aten.unsqueeze", "aten.unsqueeze_copy")
def rewrite_unsqueeze(call: RankCall) -> SSAValue:
    x = call.carrier("self")
    sizes = list(x.sizes)
    sizes.insert(call.integer("dim") % (x.rank + 1), 1)
    return as_view(call, x, sizes)


@rewrites("aten.squeeze", "aten.squeeze.dim", "aten.squeeze.dims", "prims.squeeze")
@rewrites("aten.squeeze_copy", "aten.squeeze_copy.dim", "aten.squeeze_copy.dims")
def rewrite_squeeze(call: RankCall) -> SSAValue:
    x = call.carrier(call.op.schema.arguments[0].name)
    dims = list(range(x.rank))
    if len(call.op.schema.arguments) > 1:
        dims = call.dims(call.op.schema.arguments[1].name, x.rank)
    sizes = [s for dim, s in enumerate(x.sizes) if s != 1 or dim not in dims]
    return as_view(call, x, sizes)


@rewrites("aten.flatten.using_ints")
def rewrite_flatten(call: RankCall) -> SSAValue:
    x = call.carrier("self")
    first, last = (call.integer(name) % x.rank for name in ("start_dim", "end_dim"))
    size = call.build.product(x.sizes[first : last + 1])
    return as_view(call, x, [*x.sizes[:first], size, *x.sizes[last + 1 :]])


@rewrites("aten.unflatten.int")
def rewrite_unflatten(call: RankCall) -> SSAValue:
    x = call.carrier("self")
    dim = call.integer("dim") % x.rank
    given = call.sizes("sizes")
    if -1 in given:
        others = call.build.product([size for size in given if size != -1])
        given[given.index(-1)] = call.build.floordiv(x.sizes[dim], others)
    return as_view(call, x, [*x.sizes[:dim], *given, *x.sizes[dim + 1 :]])


@rewrites("aten.view_as", "aten.reshape_as")
def rewrite_view_as(call: RankCall) -> SSAValue:
    return as_view(call, call.carrier("self"), list(call.carrier("other").sizes))


COPIES = tuple(f"aten.{name}" for name in ("clone", "contiguous", "alias", "detach"))
UNCHANGED = tuple(f"aten.atleast_{rank}d" for rank in (1, 2, 3))
"""Ops that change tensors of few dimensions only."""


@rewrites(*COPIES, *UNCHANGED)
def rewrite_copy(call: RankCall) -> SSAValue:
    """A copy is the tensor itself: nothing is changed in place."""
    x = call.carrier("self")
    return call.view(x.value, list(x.sizes), x.groups)


@rewrites("aten.size.int")
def rewrite_size(call: RankCall) -> SSAValue:
    x = call.carrier("self")
    return call.build.operand(x.sizes[call.integer("dim") % x.rank], "int")


@rewrites("aten.numel")
def rewrite_numel(call: RankCall) -> SSAValue:
    x = call.carrier("self")
    return call.build.operand(call.build.product(call.build.sizes(x.value)), "int")
