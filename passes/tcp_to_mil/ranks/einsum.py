"""Sums of products whose dimensions have names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from padc.ir.tcp import tensor_type
from padc.passes.aten.builder import Integer
from padc.passes.aten.einsum import parse_equation
from padc.passes.tcp_to_mil.ranks.carrier import Carrier
from padc.passes.tcp_to_mil.ranks.grouping import Groups
from padc.passes.tcp_to_mil.ranks.permutes import permuted, renamed
from padc.passes.tcp_to_mil.ranks.rank_call import (
    RankBuilder,
    RankCall,
    product_in_type,
    rewrites,
)


@dataclass(frozen=True)
class Named:
    """A tensor with a name for each dimension."""

    x: Carrier
    names: Sequence[str]

    def size(self, name: str) -> Integer:
        return self.x.sizes[self.names.index(name)]

    def ordered(self, build: RankBuilder, names: Sequence[str]) -> Carrier:
        """The tensor with its dimensions in the order of `names`."""
        return permuted(build, self.x, [self.names.index(each) for each in names])


@rewrites("aten.einsum")
def rewrite_einsum(call: RankCall) -> SSAValue:
    """The operands are multiplied one after the other, as batches of matrices."""
    build, equation = call.build, call.constant("equation")
    assert isinstance(equation, str)
    carriers = [build.carrier(x) for x in call.elements("tensors")]
    names, output = parse_equation(equation, [x.rank for x in carriers])
    first, *others = without_broadcasts(
        [diagonal(build, Named(*each)) for each in zip(carriers, names, strict=True)]
    )
    for i, other in enumerate(others):
        wanted = {*output, *(name for each in others[i + 1 :] for name in each.names)}
        first = product(build, first, other, wanted)
    y = summed(build, first, set(output)).ordered(build, output)
    return call.view(y.value, y.sizes, y.groups)


def diagonal(build: RankBuilder, x: Named) -> Named:
    """`x` with each name once: of dimensions of one name, their diagonal."""
    for name in dict.fromkeys(x.names):
        while x.names.count(name) > 1:
            first, second, *_ = (i for i, each in enumerate(x.names) if each == name)
            left = [i for i in range(x.x.rank) if i not in (first, second)]
            y = permuted(build, x.x, [*left, first, second])
            value = build.merged(y, blocks(len(left), 1, 1))
            type = tensor_type(value)
            result = TensorType(type.element_type, type.get_shape()[:2])
            value = build.call("diagonal", result, self=value, offset=0, dim1=1, dim2=2)
            y = Carrier(value, y.sizes[:-1], blocks(len(left), 1))
            x = Named(y, [*(x.names[i] for i in left), name])
    return x


def without_broadcasts(given: Sequence[Named]) -> list[Named]:
    """The operands without the dimensions of size 1 that others have in full."""
    wide = {name for x in given for name in x.names if x.size(name) != 1}

    def kept(x: Named) -> Named:
        dims = [
            i for i, name in enumerate(x.names) if x.x.sizes[i] != 1 or name not in wide
        ]
        sizes = [x.x.sizes[dim] for dim in dims]
        groups = renamed(x.x, {dim: i for i, dim in enumerate(dims)})
        return Named(Carrier(x.x.value, sizes, groups), [x.names[i] for i in dims])

    return [kept(x) for x in given]


def summed(build: RankBuilder, x: Named, kept: set[str]) -> Named:
    """`x` without the dimensions whose names are not in `kept`."""
    left = [name for name in x.names if name in kept]
    gone = [name for name in x.names if name not in kept]
    if not gone:
        return x
    y = x.ordered(build, left + gone)
    value = build.merged(y, blocks(len(left), len(gone)))
    type = tensor_type(value)
    result = TensorType(type.element_type, type.get_shape()[:1])
    value = build.call("sum.dim_IntList", result, self=value, dim=[1])
    return Named(Carrier(value, y.sizes[: len(left)], blocks(len(left))), left)


def product(build: RankBuilder, a: Named, b: Named, wanted: set[str]) -> Named:
    """The sum of products over the names that only `a` and `b` have."""
    a = summed(build, a, wanted | {*b.names})
    b = summed(build, b, wanted | {*a.names})
    shared = [name for name in a.names if name in b.names]
    batch = [name for name in shared if name in wanted]
    inner = [name for name in shared if name not in wanted]
    rows = [name for name in a.names if name not in shared]
    columns = [name for name in b.names if name not in shared]
    counts = [len(batch), len(rows), len(inner), len(columns)]
    x = build.merged(a.ordered(build, batch + rows + inner), blocks(*counts[:3]))
    y = build.merged(
        b.ordered(build, batch + inner + columns), blocks(counts[0], *counts[2:])
    )
    sizes = [*(a.size(name) for name in batch + rows), *(b.size(n) for n in columns)]
    groups = blocks(len(batch), len(rows), len(columns))
    type = TensorType(
        tensor_type(x).element_type,
        [product_in_type([sizes[dim] for dim in group]) for group in groups],
    )
    value = build.call("bmm", type, self=x, mat2=y)
    return Named(Carrier(value, sizes, groups), batch + rows + columns)


def blocks(*counts: int) -> Groups:
    """Consecutive groups with these numbers of dimensions."""
    ends = [sum(counts[: i + 1]) for i in range(len(counts))]
    return tuple(tuple(range(end - n, end)) for end, n in zip(ends, counts))
