"""
Taps: the elements along a dimension that a point reads, and their weights.

A point reads an element for each combination of one tap of each dimension.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

from xdsl.dialects import arith
from xdsl.dialects.builtin import i1, i32
from xdsl.ir import Attribute, SSAValue

from padc.passes.common.linalg_builder import LinalgBuilder
from padc.passes.to_linalg.build.numbers import Number
from padc.passes.to_linalg.build.scalars import as_index, widened


@dataclass(frozen=True)
class TapTable:
    """A tap of all points: a tensor of i32 positions, and one of weights; None is 1."""

    positions: SSAValue
    weights: SSAValue | None
    may_miss: bool = False
    """Whether a position may be -1, for an element that does not exist."""

    @property
    def tensors(self) -> list[SSAValue]:
        return [x for x in (self.positions, self.weights) if x is not None]


@dataclass(frozen=True)
class Tap:
    """A tap of one point, in the body of a loop."""

    index: SSAValue
    weight: SSAValue | None
    exists: SSAValue | None
    """None if it is known to exist. Otherwise its index is 0, but it has no part."""


def taps_of_point(
    build: LinalgBuilder,
    axes: Sequence[Sequence[TapTable]],
    args: Sequence[SSAValue],
    total: Attribute,
) -> list[list[Tap]]:
    """The taps of each axis, from the elements of their tensors, in order."""
    given = iter(args)

    def tap(table: TapTable) -> Tap:
        position = next(given)
        weight = table.weights and next(given)
        return tap_of(build, position, weight, table.may_miss, total)

    return [[tap(table) for table in tables] for tables in axes]


def tap_of(
    build: LinalgBuilder,
    position: SSAValue,
    weight: SSAValue | None,
    may_miss: bool,
    total: Attribute,
) -> Tap:
    """The tap at an i32 position; `may_miss` as in `TapTable`."""
    exists = None
    if may_miss:
        zero = build.constant(0, i32)
        exists = build.insert(arith.CmpiOp(position, zero, "sge"))
        position = build.insert(arith.MaxSIOp(position, zero))
    weight = weight and widened(build, weight, total)
    return Tap(as_index(build, position), weight, exists)


def sum_of_taps(
    build: LinalgBuilder,
    axes: Sequence[Sequence[Tap]],
    element: Callable[[Sequence[SSAValue]], SSAValue],
) -> SSAValue:
    """The weighted sum of the elements at one index for each axis."""
    if not axes:
        return element([])
    parts: list[SSAValue] = []
    for tap in axes[0]:
        part = sum_of_taps(
            build, axes[1:], lambda at, tap=tap: element([tap.index, *at])
        )
        if tap.weight is not None:
            part = build.insert(arith.MulfOp(tap.weight, part))
        if tap.exists is not None:
            exists = Number(build, tap.exists, i1)
            part = exists.select(Number(build, part, part.type), 0).value
        parts.append(part)
    return reduce(lambda a, b: build.insert(arith.AddfOp(a, b)), parts)


def weighted_sum(
    build: LinalgBuilder,
    axes: Sequence[Sequence[SSAValue]],
    elements: Iterator[SSAValue],
) -> SSAValue:
    """The sum of elements with weights for each axis, those of the last innermost."""
    if not axes:
        return next(elements)
    parts = [
        build.insert(arith.MulfOp(weight, weighted_sum(build, axes[1:], elements)))
        for weight in axes[0]
    ]
    return reduce(lambda a, b: build.insert(arith.AddfOp(a, b)), parts)
