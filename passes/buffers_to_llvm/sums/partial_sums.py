"""Sums over several loops, a block of terms at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from xdsl.dialects import llvm
from xdsl.ir import SSAValue

from padc.passes.buffers_to_llvm.llvm_builder import LlvmBuilder, Size, predicate
from padc.passes.buffers_to_llvm.loops import Loop

Multiply: TypeAlias = "Callable[[Sequence[Size], Sequence[SSAValue]], list[SSAValue]]"
"""Adds one term to each sum; takes the offsets of the operands, and the sums."""
Finish: TypeAlias = (
    "Callable[[Sequence[Size], Sequence[SSAValue], SSAValue | bool], None]"
)
"""Adds sums to the result; takes offsets, sums, and whether they are the first."""
OfBlock: TypeAlias = Callable[
    [Sequence[Loop], Sequence[Size], Sequence[SSAValue], SSAValue | bool],
    Sequence[SSAValue],
]
"""
Computes new values from a block.

It takes the block's loops and offsets, the old values, and whether it is the first
block.
"""

STEP_PRODUCTS, MOST_TERMS = 96, 8
"""The most products, and terms of each sum, in a step of an innermost loop."""
PRODUCTS = 512
"""The number of products that are summed before the sum is added to the result."""


def sum_in_parts(
    build: LlvmBuilder,
    loops: Sequence[Loop],
    offsets: Sequence[Size],
    zeros: Sequence[SSAValue],
    multiply: Multiply,
    finish: Finish,
) -> None:
    """Emit the loops that reduce: sums of about `PRODUCTS` products, each finished."""

    def part(
        loops: Sequence[Loop],
        offsets: Sequence[Size],
        _: Sequence[SSAValue],
        is_first: SSAValue | bool,
    ) -> list[SSAValue]:
        finish(offsets, added_up(build, loops, offsets, zeros, multiply), is_first)
        return []

    in_blocks(build, loops, offsets, PRODUCTS, [], part)


def in_blocks(
    build: LlvmBuilder,
    loops: Sequence[Loop],
    offsets: Sequence[Size],
    most: int,
    values: Sequence[SSAValue],
    body: OfBlock,
    is_first: SSAValue | bool = True,
) -> Sequence[SSAValue]:
    """
    Emit `loops` in blocks of at most `most` steps; `body` emits a block.

    `values` are carried through `body`. If there is only one block, it may have half as
    many steps more.
    """
    first, *rest = loops
    inner = steps_of(rest)
    step = 0 if inner is None else most // max(inner, 1)
    if step and isinstance(first.count, int) and first.count <= step * 3 // 2:
        return body(loops, offsets, values, is_first)
    width = max(step, 1)

    def block(number: SSAValue, values: Sequence[SSAValue]) -> Sequence[SSAValue]:
        is_start = build.insert(llvm.ICmpOp(number, build.value(0), predicate("eq")))
        if isinstance(is_first, SSAValue):
            is_start = build.insert(llvm.AndOp(is_first, is_start))
        place = build.mul(number, width)
        at = first.moved(build, offsets, place)
        if not step:
            return in_blocks(build, rest, at, most, values, body, is_start)
        count = first.steps_of_block(build, place, step)
        return body([replace(first, count=count), *rest], at, values, is_start)

    number = build.floordiv(build.add(first.count, width - 1), width)
    return build.carry(number, values, block)


def steps_of(loops: Sequence[Loop]) -> int | None:
    """The number of steps of a nest; None if it is known only at run time."""
    total = 1
    for loop in loops:
        if not isinstance(loop.count, int):
            return None
        total *= loop.count
    return total


def added_up(
    build: LlvmBuilder,
    loops: Sequence[Loop],
    offsets: Sequence[Size],
    sums: Sequence[SSAValue],
    multiply: Multiply,
    most_terms: int = MOST_TERMS,
) -> list[SSAValue]:
    """
    The sums after all terms of `loops`.

    A step of the innermost one adds up to `most_terms` of them to each sum.
    """
    if not loops:
        return multiply(offsets, sums)
    first, *rest = loops

    def inside(place: Size, carried: Sequence[SSAValue]) -> list[SSAValue]:
        at = first.moved(build, offsets, place)
        return added_up(build, rest, at, carried, multiply, most_terms)

    if rest:
        return build.carry(first.count, sums, inside)
    return carry_terms(build, first.count, sums, inside, most_terms)


def carry_terms(
    build: LlvmBuilder,
    count: Size,
    sums: Sequence[SSAValue],
    add: Callable[[Size, Sequence[SSAValue]], Sequence[SSAValue]],
    most_terms: int = MOST_TERMS,
) -> list[SSAValue]:
    """The sums after `count` terms: `add` adds the term of a number to each of them."""
    terms = terms_of_step(count, len(sums), most_terms)

    def step(number: SSAValue, sums: Sequence[SSAValue]) -> Sequence[SSAValue]:
        first = build.mul(number, terms)
        for term in range(terms):
            sums = add(build.add(first, term), sums)
        return sums

    return build.carry(build.floordiv(count, terms), sums, step)


def terms_of_step(count: Size, sums: int, most_terms: int = MOST_TERMS) -> int:
    """
    The terms that a step of an innermost loop adds to each of its sums.

    The instructions that count steps are a fifth of a step of 12 products. They take
    time where two threads of other programs share a core.
    """
    if not isinstance(count, int):
        return 1
    terms = most_terms
    while count % terms or (terms > 1 and terms * sums > STEP_PRODUCTS):
        terms //= 2
    return terms
