"""Pads, which pad each dimension on its own."""

from __future__ import annotations

from xdsl.ir import SSAValue

from padc.ir import tcp
from padc.ir.tcp import Amount
from padc.passes.tcp_to_mil.ranks.carrier import Carrier
from padc.passes.tcp_to_mil.ranks.grouping import Groups, apart, grouped
from padc.passes.tcp_to_mil.ranks.rank_call import RankBuilder, batches


def rewrite_pad(build: RankBuilder, op: tcp.ExpandOp) -> SSAValue:
    """
    Pads of as many dimensions at once as fit, with those between them merged.

    The pads of a tensor's dimensions may be done one after the other, in any mode.
    """
    x, expansions = build.carrier(op.input), op.expansions
    changes = [amounts != (0, 0, 0) for amounts in expansions]
    for dims in batches(changes, x.sizes):
        each = [[dim] for dim in sorted(dims)]
        groups = build.choose(grouped(apart(x.sizes, *each)), [x])
        value = padded(build, op, build.merged(x, groups), groups, dims)
        sizes = list(x.sizes)
        for dim in dims:
            sizes[dim] = build.size(value, groups.index((dim,)))
        x = Carrier(value, sizes, groups)
    return build.view(x.value, x.sizes, op.result.type, x.groups)


def padded(
    build: RankBuilder, op: tcp.ExpandOp, x: SSAValue, groups: Groups, dims: set[int]
) -> SSAValue:
    """`x` padded by the amounts of `dims`, each of which is alone in its group."""
    none: tuple[Amount, Amount, Amount] = (0, 0, 0)
    amounts = [
        op.expansions[group[0]] if group and group[0] in dims else none
        for group in groups
    ]
    lower, upper, interior = (list(each) for each in zip(*amounts))
    if isinstance(op, tcp.PadOp):
        return build.insert(tcp.PadOp(x, op.fill, lower, upper, interior))
    assert isinstance(op, tcp.BorderPadOp)
    return build.insert(op.__class__(x, lower, upper))
