"""Sums of products that letters describe."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from padc.errors import Obstacle
from padc.ir.tcp import tensor_type
from padc.passes.aten.builder import Integer
from padc.passes.tcp_to_mil.ranks.carrier import Carrier
from padc.passes.tcp_to_mil.ranks.grouping import Groups
from padc.passes.tcp_to_mil.ranks.permutes import permuted
from padc.passes.tcp_to_mil.ranks.rank_call import (
    RankBuilder,
    RankCall,
    product_in_type,
    rewrites,
)


@dataclass(frozen=True)
class Lettered:
    """A tensor with a letter for each dimension."""

    x: Carrier
    letters: str

    def size(self, letter: str) -> Integer:
        return self.x.sizes[self.letters.index(letter)]

    def ordered(self, build: RankBuilder, letters: str) -> Carrier:
        """The tensor with its dimensions in the order of `letters`."""
        return permuted(build, self.x, [self.letters.index(each) for each in letters])


@rewrites("aten.einsum")
def rewrite_einsum(call: RankCall) -> SSAValue:
    """The operands are multiplied one after the other, as batches of matrices."""
    build, equation = call.build, call.constant("equation")
    assert isinstance(equation, str)
    inputs, _, output = equation.replace(" ", "").partition("->")
    given = [
        Lettered(build.carrier(x), letters)
        for x, letters in zip(call.elements("tensors"), inputs.split(","), strict=True)
    ]
    check(given, equation)
    first, *others = given
    for i, other in enumerate(others):
        wanted = {
            *output,
            *(letter for each in others[i + 1 :] for letter in each.letters),
        }
        first = product(build, first, other, wanted)
    y = summed(build, first, set(output)).ordered(build, output)
    return call.view(y.value, y.sizes, y.groups)


def check(given: Sequence[Lettered], equation: str) -> None:
    """Raise `Obstacle` for what other ops express better."""
    if "->" not in equation or "." in equation:
        raise Obstacle(f"the equation {equation}", "write out all letters, and ->")
    for each in given:
        if len(set(each.letters)) < len(each.letters):
            raise Obstacle(f"the diagonal in {equation}", "use torch.diagonal")
    letters = {letter for each in given for letter in each.letters}
    for letter in letters:
        sizes = [each.size(letter) for each in given if letter in each.letters]
        if 1 in sizes and any(size != 1 for size in sizes):
            raise Obstacle(f"{letter} broadcasts in {equation}", "expand the operand")


def summed(build: RankBuilder, x: Lettered, kept: set[str]) -> Lettered:
    """`x` without the letters that are not in `kept`."""
    left = "".join(letter for letter in x.letters if letter in kept)
    if left == x.letters:
        return x
    gone = "".join(letter for letter in x.letters if letter not in kept)
    y = x.ordered(build, left + gone)
    value = build.merged(y, blocks(len(left), len(gone)))
    type = tensor_type(value)
    result = TensorType(type.element_type, type.get_shape()[:1])
    value = build.call("sum.dim_IntList", result, self=value, dim=[1])
    return Lettered(Carrier(value, y.sizes[: len(left)], blocks(len(left))), left)


def product(build: RankBuilder, a: Lettered, b: Lettered, wanted: set[str]) -> Lettered:
    """The sum of products over the letters that only `a` and `b` have."""
    a = summed(build, a, wanted | {*b.letters})
    b = summed(build, b, wanted | {*a.letters})
    shared = [letter for letter in a.letters if letter in b.letters]
    batch = "".join(letter for letter in shared if letter in wanted)
    inner = "".join(letter for letter in shared if letter not in wanted)
    rows = "".join(letter for letter in a.letters if letter not in shared)
    columns = "".join(letter for letter in b.letters if letter not in shared)
    counts = [len(batch), len(rows), len(inner), len(columns)]
    x = build.merged(a.ordered(build, batch + rows + inner), blocks(*counts[:3]))
    y = build.merged(
        b.ordered(build, batch + inner + columns), blocks(counts[0], *counts[2:])
    )
    sizes = [
        *(a.size(letter) for letter in batch + rows),
        *(b.size(letter) for letter in columns),
    ]
    groups = blocks(len(batch), len(rows), len(columns))
    type = TensorType(
        tensor_type(x).element_type,
        [product_in_type([sizes[dim] for dim in group]) for group in groups],
    )
    value = build.call("bmm", type, self=x, mat2=y)
    return Lettered(Carrier(value, sizes, groups), batch + rows + columns)


def blocks(*counts: int) -> Groups:
    """Consecutive groups with these numbers of dimensions."""
    ends = [sum(counts[: i + 1]) for i in range(len(counts))]
    return tuple(tuple(range(end - n, end)) for end, n in zip(ends, counts))
