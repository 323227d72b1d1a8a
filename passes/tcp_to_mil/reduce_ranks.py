"""
Rewrite ops on tensors of more dimensions than Core ML has.

Most models take them to reorder elements: they split dimensions, permute them and merge
them again. The steps of such a rearrangement need fewer dimensions, since adjacent ones
that an op treats alike can be merged before it:

    view(permute(view(x, [b, 8, 7, 8, 7, c]), [0, 1, 3, 2, 4, 5]), [b * 64, 49, c])
    -> view(permute(view(x, [b * 8, 7, 8, 7 * c]), [0, 2, 1, 3]), [b * 64, 49, c])

Each op is rewritten on its own, in program order. Its result becomes a view of a tensor
of few dimensions, its carrier. The next op works on the carrier, so that the view is
left without uses.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from padc.errors import Obstacle, Problem, UnsupportedError
from padc.ir import mil, tcp
from padc.ir.torch import (
    AtenOp,
    BindSymbolicShapeOp,
    FromBuiltinTensorOp,
    ListConstructOp,
    ListUnpackOp,
    LiteralOp,
    ToBuiltinTensorOp,
    VTensorType,
)
from padc.passes.common.lowering import Replacement, lower_all, problem
from padc.passes.tcp_to_mil.ranks import RULES
from padc.passes.tcp_to_mil.ranks.carrier import is_high, rank_of, stripped
from padc.passes.tcp_to_mil.ranks.constants import rewrite_literal
from padc.passes.tcp_to_mil.ranks.pads import rewrite_pad
from padc.passes.tcp_to_mil.ranks.rank_call import (
    RankBuilder,
    RankCall,
    RefusedOperandError,
    Views,
)

STRUCTURE = (
    *(BindSymbolicShapeOp, FromBuiltinTensorOp, ListConstructOp, ListUnpackOp),
    *(ReturnOp, ToBuiltinTensorOp),
)
"""Ops that only name, cast, list or return tensors."""


class ReduceRanksPass(ModulePass):
    """Rewrite ops on tensors of more dimensions than Core ML has."""

    name = "reduce-ranks"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if problems := [x for each in op.walk() for x in problems_of_outputs(each)]:
            raise UnsupportedError(problems)
        views = Views()
        lower_all(op, Operation, partial(rewrite, views=views), cast=in_torch)


def problems_of_outputs(op: Operation) -> Iterator[Problem]:
    """Core ML cannot return a tensor that it lacks."""
    for x in op.operands if isinstance(op, ReturnOp) else ():
        if is_high(x) and isinstance(owner := stripped(x).owner, Operation):
            yield problem(
                owner,
                f"the output has rank {rank_of(x.type)}; Core ML's tensors have rank "
                f"{mil.MAX_RANK} at most",
                "join dimensions of the output in the model",
            )


def rewrite(op: Operation, views: Views) -> Replacement:
    """Build what replaces the results of `op`; None if it stays."""
    values = (*op.operands, *op.results)
    if isinstance(op, STRUCTURE) or not any(map(is_high, values)):
        return None
    build = RankBuilder(op, views=views)
    try:
        if isinstance(op, AtenOp) and (rule := RULES.get(op.schema.name)) is not None:
            return rule(RankCall(op, build))
        if isinstance(op, tcp.ExpandOp):
            return rewrite_pad(build, op)
        if isinstance(op, LiteralOp):
            return rewrite_literal(build, op)
    except RefusedOperandError:
        return None
    raise Obstacle(
        f"Core ML's tensors have rank {mil.MAX_RANK} at most",
        "join dimensions before the op with flatten, and split them after it",
    )


def in_torch(op: Operation, new: SSAValue, old: SSAValue) -> SSAValue:
    """A new value in the form of the old one: of the torch dialect, or builtin."""
    if not isinstance(old.type, VTensorType):
        return new
    return RankBuilder(op).insert(FromBuiltinTensorOp(new))
