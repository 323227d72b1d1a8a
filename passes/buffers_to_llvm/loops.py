"""
The loops of a linalg op: their order, and their step in each operand.

Loops that do not reduce may be interchanged with all others. The innermost loop runs
along contiguous memory, so that LLVM can vectorize it. Nested loops that together run
through contiguous memory become one loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
)
from xdsl.utils.exceptions import PassFailedException

from padc.passes.buffers_to_llvm.llvm_builder import LlvmBuilder, Size
from padc.passes.buffers_to_llvm.work_sharing import split_loop

SHORT = 8
"""Loops with fewer steps are not worth vectorizing."""


@dataclass(frozen=True)
class Loop:
    """One loop of a nest."""

    dims: tuple[int, ...]
    """The dimensions of the op that it runs through: several if it is merged."""
    count: Size
    steps: tuple[Size, ...]
    """The distance that one step moves in each operand, in elements."""
    reduces: bool

    def moved(
        self, build: LlvmBuilder, offsets: Sequence[Size], place: Size
    ) -> list[Size]:
        """The offsets of the operands at step `place`; at step 0 they are `offsets`."""
        return [
            build.add(offset, build.mul(place, step))
            for offset, step in zip(offsets, self.steps, strict=True)
        ]

    def steps_of_block(self, build: LlvmBuilder, first: Size, most: int) -> Size:
        """The steps of a block of up to `most`, whose `first` is a multiple of it."""
        if isinstance(self.count, int) and self.count % most == 0:
            return most
        return build.minimum(build.sub(self.count, first), most)


def known(size: Size) -> int:
    """A size that is not dynamic."""
    assert isinstance(size, int)
    return size


def nested(
    build: LlvmBuilder,
    loops: Sequence[Loop],
    offsets: Sequence[Size],
    body: Callable[[Sequence[Size]], None],
) -> None:
    """
    Emit `loops`, outermost first; `body` takes the offsets of the operands.

    They may be split, and must not reduce.
    """
    if not loops:
        return body(offsets)
    first, *rest = loops

    def inside(build: LlvmBuilder, place: Size) -> None:
        nested(build, rest, first.moved(build, offsets, place), body)

    split_loop(build, first.count, inside)


def coefficients(expr: AffineExpr, rank: int) -> list[int]:
    """The factor of each of `rank` dimensions in `expr`; last, its constant term."""
    match expr:
        case AffineDimExpr():
            return [int(i == expr.position) for i in range(rank)] + [0]
        case AffineConstantExpr():
            return [0] * rank + [expr.value]
        case AffineBinaryOpExpr(kind=AffineBinaryOpKind.Add):
            left, right = coefficients(expr.lhs, rank), coefficients(expr.rhs, rank)
            return [a + b for a, b in zip(left, right, strict=True)]
        case AffineBinaryOpExpr(
            kind=AffineBinaryOpKind.Mul, rhs=AffineConstantExpr(value=factor)
        ):
            return [a * factor for a in coefficients(expr.lhs, rank)]
        case _:
            raise PassFailedException(f"linalg ops may not be indexed by {expr}")


def linear(
    build: LlvmBuilder, exprs: Sequence[AffineExpr], strides: Sequence[Size], rank: int
) -> list[Size]:
    """The distance that a step in each dimension moves; last, the first offset."""
    steps: list[Size] = [0] * (rank + 1)
    for expr, stride in zip(exprs, strides, strict=True):
        for i, factor in enumerate(coefficients(expr, rank)):
            steps[i] = build.add(steps[i], build.mul(factor, stride))
    return steps


def ordered(loops: Sequence[Loop], outputs: int) -> list[Loop]:
    """The best order of `loops`, outermost first; `outputs` operands are written."""
    if not loops:
        return []

    def cost(loop: Loop) -> tuple[float, int]:
        """The memory traffic of a step as the innermost loop, in elements."""
        total = 0.0
        for i, step in enumerate(loop.steps):
            written = i >= len(loop.steps) - outputs
            each = {0: 0.0, 1: 1.0}.get(step, 8.0) if isinstance(step, int) else 8.0
            total += 2 * each if written else each
        if isinstance(loop.count, int) and loop.count < SHORT:
            total += 8.0
        return total, -loops.index(loop)

    innermost = min(loops, key=cost)
    if innermost.reduces:
        rest = [loop for loop in loops if loop is not innermost]
        return [
            *(loop for loop in rest if not loop.reduces),
            *(loop for loop in rest if loop.reduces),
            innermost,
        ]
    return [
        *(loop for loop in loops if not loop.reduces and loop is not innermost),
        *(loop for loop in loops if loop.reduces),
        innermost,
    ]


def merged(build: LlvmBuilder, loops: Sequence[Loop]) -> list[Loop]:
    """`loops`, with two joined where the inner one ends at the next outer step."""
    result: list[Loop] = []
    for loop in loops:
        outer = result[-1] if result else None
        if (
            outer is not None
            and outer.reduces == loop.reduces
            and all(
                far == build.mul(step, loop.count)
                for far, step in zip(outer.steps, loop.steps, strict=True)
            )
        ):
            count = build.mul(outer.count, loop.count)
            dims = (*outer.dims, *loop.dims)
            result[-1] = Loop(dims, count, loop.steps, loop.reduces)
        else:
            result.append(loop)
    return result
