"""Permutations of dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from xdsl.ir import SSAValue

from padc.errors import Obstacle
from padc.passes.tcp_to_mil.ranks.carrier import Carrier
from padc.passes.tcp_to_mil.ranks.grouping import Groups, without_ones
from padc.passes.tcp_to_mil.ranks.permutations import Step, steps
from padc.passes.tcp_to_mil.ranks.rank_call import RankBuilder, RankCall, rewrites


def permuted(build: RankBuilder, x: Carrier, dims: Sequence[int]) -> Carrier:
    """Dimension i of the result is dimension `dims[i]` of `x`."""
    if sorted(dims) != list(range(x.rank)):
        raise Obstacle(f"{list(dims)} does not have each of {x.rank} dimensions once")
    sizes = [x.sizes[dim] for dim in dims]
    # Only dimensions of more than one element have an order.
    after = [i for i, size in enumerate(sizes) if size != 1]
    before = sorted(dims[i] for i in after)
    place = {dim: i for i, dim in enumerate(before)}
    y = Carrier(x.value, [x.sizes[dim] for dim in before], renamed(x, place))
    for step in steps(tuple(place[dims[i]] for i in after)):
        y = stepped(build, y, step)
    return Carrier(y.value, sizes, renamed(y, dict(enumerate(after))))


def renamed(x: Carrier, names: dict[int, int]) -> Groups | None:
    """The groups of `x` by other numbers of its dimensions."""
    if x.groups is None:
        return None
    groups = without_ones(x.groups, x.shape)
    return tuple(tuple(names[dim] for dim in group) for group in groups)


def stepped(build: RankBuilder, x: Carrier, step: Step) -> Carrier:
    """A permutation of blocks of dimensions, by one transposition."""
    groups = build.choose(tuple(map(tuple, step.blocks)), [x])
    place = {dim: i for i, dim in enumerate(step.dims)}
    order = sorted(
        range(len(groups)),
        # A group without dimensions has one element: it may be anywhere.
        key=lambda i: place[groups[i][0]] if groups[i] else -1,
    )
    value = build.permute(build.merged(x, groups), order)
    counts = [len(groups[i]) for i in order]
    moved = tuple(
        tuple(range(end - count, end)) for end, count in zip(accumulate(counts), counts)
    )
    return Carrier(value, [x.sizes[dim] for dim in step.dims], moved)


def as_permutation(call: RankCall, x: Carrier, dims: Sequence[int]) -> SSAValue:
    y = permuted(call.build, x, dims)
    return call.view(y.value, y.sizes, y.groups)


@rewrites("aten.permute", "aten.permute_copy")
def rewrite_permute(call: RankCall) -> SSAValue:
    x = call.carrier("self")
    return as_permutation(call, x, call.dims("dims", x.rank))


@rewrites("aten.transpose.int", "aten.transpose_copy.int")
@rewrites("aten.swapaxes", "aten.swapdims")
def rewrite_transpose(call: RankCall) -> SSAValue:
    x = call.carrier("self")
    dims = list(range(x.rank))
    first, second = (
        call.integer(argument.name) % max(x.rank, 1)
        for argument in call.op.schema.arguments[1:]
    )
    dims[first], dims[second] = second, first
    return as_permutation(call, x, dims)


@rewrites("aten.numpy_T", "aten.numpy_T.a", "aten.mT", "aten.mT.a")
@rewrites("aten.adjoint", "aten.mH", "aten.mH.a")
def rewrite_t(call: RankCall) -> SSAValue:
    x = call.carrier(call.op.schema.arguments[0].name)
    dims = list(range(x.rank))
    last = 0 if "numpy" in call.name else x.rank - 2
    return as_permutation(call, x, [*dims[:last], *dims[last:][::-1]])


@rewrites("aten.movedim.int", "aten.movedim.intlist")
@rewrites("aten.moveaxis.int", "aten.moveaxis.intlist")
def rewrite_movedim(call: RankCall) -> SSAValue:
    x = call.carrier("self")
    sources, targets = (call.dims(name, x.rank) for name in ("source", "destination"))
    moves = dict(zip(targets, sources))
    rest = iter([dim for dim in range(x.rank) if dim not in sources])
    # One that is missing is -1, which is no dimension.
    dims = [moves[dim] if dim in moves else next(rest, -1) for dim in range(x.rank)]
    return as_permutation(call, x, dims)
