"""Ops that repeat a tensor along dimensions."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from padc.ir.tcp import tensor_type
from padc.passes.aten.builder import Integer
from padc.passes.tcp_to_mil.ranks.carrier import Carrier
from padc.passes.tcp_to_mil.ranks.grouping import apart, grouped
from padc.passes.tcp_to_mil.ranks.rank_call import (
    RankBuilder,
    RankCall,
    batches,
    product_in_type,
    rewrites,
)


def expanded(build: RankBuilder, x: Carrier, sizes: Sequence[Integer]) -> Carrier:
    """`x`, with its dimensions of size 1 repeated to `sizes`; -1 keeps a size."""
    x = x.aligned(len(sizes))
    wanted = [
        own if own != 1 or size == -1 else size for own, size in zip(x.sizes, sizes)
    ]
    for dims in batches([own != size for own, size in zip(x.sizes, wanted)], wanted):
        x = expand_along(build, x, dims, wanted)
    return x


def expand_along(
    build: RankBuilder, x: Carrier, dims: set[int], sizes: Sequence[Integer]
) -> Carrier:
    after = [sizes[dim] if dim in dims else own for dim, own in enumerate(x.sizes)]
    groups = build.choose(grouped(apart(x.sizes, dims)), [x])
    products = [[after[dim] for dim in group] for group in groups]
    value = build.merged(x, groups)
    type = TensorType(
        tensor_type(value).element_type, [*map(product_in_type, products)]
    )
    size = [build.product(each) for each in products]
    return Carrier(build.call("expand", type, self=value, size=size), after, groups)


@rewrites("aten.expand", "aten.expand_copy", "aten.broadcast_to")
def rewrite_expand(call: RankCall) -> SSAValue:
    x, sizes = call.carrier("self"), call.sizes("size")
    return as_expanded(call, x, sizes)


@rewrites("aten.expand_as")
def rewrite_expand_as(call: RankCall) -> SSAValue:
    return as_expanded(call, call.carrier("self"), call.carrier("other").sizes)


@rewrites("aten.copy")
def rewrite_copy(call: RankCall) -> SSAValue:
    """`src`, broadcast and converted to the shape and type of `self`."""
    x = expanded(call.build, call.carrier("src"), call.carrier("self").sizes)
    element = call.result_type().element_type
    return call.view(call.build.cast(x.value, element), x.sizes, x.groups)


def as_expanded(call: RankCall, x: Carrier, sizes: Sequence[Integer]) -> SSAValue:
    y = expanded(call.build, x, sizes)
    return call.view(y.value, y.sizes, y.groups)


@rewrites("aten.repeat", "aten.tile")
def rewrite_repeat(call: RankCall) -> SSAValue:
    """Each repeated dimension is one of its own, those of size 1 are expanded."""
    build, x = call.build, call.carrier("self")
    times = call.sizes(call.op.schema.arguments[1].name)
    times = [*[1] * (x.rank - len(times)), *times]
    x = x.aligned(len(times))
    for dim, count in enumerate(times):
        if count != 1 and x.sizes[dim] != 1:
            x = repeated(build, x, dim, count)
    # A size of 1 that is repeated becomes the count.
    y = expanded(build, x, [c if s == 1 else s for s, c in zip(x.sizes, times)])
    return call.view(y.value, y.sizes, y.groups)


def repeated(build: RankBuilder, x: Carrier, dim: int, times: Integer) -> Carrier:
    """`[.., n, ..] -> [.., 1, n, ..] -> [.., times, n, ..] -> [.., times * n, ..]`."""
    before, after = x.sizes[:dim], x.sizes[dim + 1 :]
    size = x.sizes[dim]
    y = Carrier(x.value, [*before, 1, size, *after], None)
    y = expanded(build, y, [*before, times, size, *after])
    sizes = [*before, build.mul(times, size), *after]
    return Carrier(y.value, sizes, None)
