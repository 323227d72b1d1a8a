"""Folding a pad into the convolutions and pools that use it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import FloatAttr, IntegerAttr
from xdsl.ir import Operation, SSAValue

from padc.ir import tcp
from padc.ir.padding import Amounts
from padc.passes.common.mil_builder import MilBuilder
from padc.passes.tcp_to_mil.cropping import crop


@dataclass(frozen=True)
class Padded:
    """The input of a window op, and the padding that the op itself does."""

    input: SSAValue
    """Cropped by the negative amounts."""
    amounts: list[Amounts]
    """For each of the window's dimensions; not negative, without interior."""

    @property
    def pad(self) -> list[int]:
        """The `pad` of Core ML's convolutions and pools."""
        return [n for a in self.amounts for n in (a.lower, a.upper)]


def fold_pad(build: MilBuilder, op: Operation, dims: Sequence[int]) -> Padded:
    """
    The input of a convolution or pool, without the pad that the op can do itself.

    That is a pad of the window's dimensions only, with the fill that the op implies:
    zeros in a convolution or average, the least value in a maximum. Negative amounts
    become slices before it. Other users of the pad do not matter: the pad is folded
    into each op that can do it, and stays for the others only.
    """
    x = op.operands[0]
    unpadded = Padded(x, [Amounts(0, 0)] * len(dims))
    if not isinstance(pad := x.owner, tcp.PadOp):
        return unpadded
    amounts = pad.static_amounts
    if amounts is None or not isinstance(fill := pad.fill.owner, ConstantOp):
        return unpadded
    value = fill.value
    assert isinstance(value, FloatAttr | IntegerAttr)
    if value.value.data != implied_fill(op):
        return unpadded
    for dim, amount in enumerate(amounts):
        if amount.interior or (dim not in dims and amount.added != Amounts(0, 0)):
            return unpadded
    folded = [amounts[dim].added for dim in dims]
    if isinstance(op, tcp.PoolOp) and not pool_can_fold(op, folded):
        return unpadded
    return Padded(crop(replace(build, anchor=pad), pad.input, amounts), folded)


def implied_fill(op: Operation) -> float:
    """The fill of the padding that Core ML's op does itself."""
    return -math.inf if isinstance(op, tcp.MaxPoolOp) else 0.0


def pool_can_fold(op: tcp.PoolOp, amounts: Sequence[Amounts]) -> bool:
    """
    Whether no window is all padding, and Core ML averages the same elements.

    The pool is one that Core ML has, without dilations.
    """
    for amount, kernel in zip(amounts, op.kernel.get_values(), strict=True):
        if max(amount.lower, amount.upper) >= kernel:
            return False
    return not isinstance(op, tcp.AvgPoolOp) or op.uncounted in (
        [(0, 0)] * len(amounts),
        [(amount.lower, amount.upper) for amount in amounts],
    )
