"""Sums of products over several loops, a few hundred products at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from xdsl.dialects import llvm
from xdsl.ir import SSAValue

from padc.passes.buffers_to_llvm.llvm_builder import LlvmBuilder, Size, predicate
from padc.passes.buffers_to_llvm.loops import Loop

Multiply: TypeAlias = "Callable[[Sequence[Size], Sequence[SSAValue]], list[SSAValue]]"
"""Adds one product to each sum; takes the offsets of the operands, and the sums."""
Finish: TypeAlias = (
    "Callable[[Sequence[Size], Sequence[SSAValue], SSAValue | bool], None]"
)
"""Adds sums to the result; takes offsets, sums, and whether they are the first."""

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
    first, *rest = loops
    inner = 1
    for loop in rest:
        inner *= loop.count if isinstance(loop.count, int) else 1
    step = max(PRODUCTS // max(inner, 1), 1)
    if isinstance(first.count, int) and first.count <= step * 3 // 2:
        sums = added_up(build, loops, offsets, zeros, multiply)
        return finish(offsets, sums, True)

    def part(build: LlvmBuilder, place: SSAValue) -> None:
        count = build.minimum(build.sub(first.count, place), step)
        at = first.moved(build, offsets, place)
        few = [replace(first, count=count), *rest]
        is_first = build.insert(llvm.ICmpOp(place, build.value(0), predicate("eq")))
        finish(at, added_up(build, few, at, zeros, multiply), is_first)

    build.loop(0, first.count, step, part)


def added_up(
    build: LlvmBuilder,
    loops: Sequence[Loop],
    offsets: Sequence[Size],
    sums: Sequence[SSAValue],
    multiply: Multiply,
) -> list[SSAValue]:
    """The sums after all products of `loops`."""
    if not loops:
        return multiply(offsets, sums)
    first, *rest = loops

    def inside(place: SSAValue, carried: Sequence[SSAValue]) -> list[SSAValue]:
        at = first.moved(build, offsets, place)
        return added_up(build, rest, at, carried, multiply)

    return build.carry(first.count, sums, inside)
