"""
The loops of a linalg op: in which order, and how far each moves in each operand.

Loops that do not reduce may change places with all others. The innermost becomes one
along which neighbours in memory are read and written, so that LLVM computes many of
them at a time, and loops that together run through memory in one go become one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
)
from xdsl.utils.exceptions import PassFailedException

from padc.passes.buffers_to_llvm.builder import LlvmBuilder, Size

SHORT = 8
"""Loops of fewer steps are not worth computing many elements at a time in."""


@dataclass(frozen=True)
class Loop:
    """One loop of several around a body."""

    dims: tuple[int, ...]
    """Which dimensions of the op it runs through: several only if none is asked for."""
    count: Size
    steps: tuple[Size, ...]
    """How many elements one step moves in each operand."""
    reduces: bool

    def moved(
        self, build: LlvmBuilder, offsets: Sequence[Size], place: Size
    ) -> list[Size]:
        """Where the operands are at a step, of where they are at the first."""
        return [
            build.add(offset, build.mul(place, step))
            for offset, step in zip(offsets, self.steps, strict=True)
        ]


def coefficients(expr: AffineExpr, rank: int) -> list[int]:
    """What `expr` multiplies each of `rank` dimensions by; last, what it adds."""
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
    """How many elements a step in each dimension moves; last, where the first is."""
    steps: list[Size] = [0] * (rank + 1)
    for expr, stride in zip(exprs, strides, strict=True):
        for i, factor in enumerate(coefficients(expr, rank)):
            steps[i] = build.add(steps[i], build.mul(factor, stride))
    return steps


def ordered(loops: Sequence[Loop], outputs: int) -> list[Loop]:
    """`loops`, the last `outputs` operands of which are written, outermost first."""
    if not loops:
        return []

    def cost(loop: Loop) -> tuple[float, int]:
        """Of a step as the innermost one, in elements that memory has to move."""
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
    """`loops`, where one goes on where the next one inside it ends as one."""
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
