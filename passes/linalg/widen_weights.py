"""
Convert weights to float32 once, when they are bound.

    linalg.generic (i, j): y[i, j] = arith.extf %w[i, j]

of an argument that is a weight becomes a further argument, whose attribute
`padc.narrow` has the type of the weight itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from padc.ir.main_function import body_of, functions_of
from padc.passes.common.linalg_builder import element_type
from padc.passes.linalg.elementwise import is_elementwise, is_identity
from padc.passes.linalg.weights import WideWeights


@dataclass(frozen=True)
class WidenWeightsPass(ModulePass):
    """Convert weights to float32 once, when they are bound."""

    name = "widen-weights"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions_of(op):
            weights = WideWeights(function)
            for inner in list(body_of(function).ops):
                weight = widened_by(inner)
                if weight is not None and weight in weights:
                    Rewriter.replace_op(inner, [], [weights.wide(weight)])
            weights.declare()


def widened_by(op: object) -> SSAValue | None:
    """The tensor that `op` converts to f32, and does nothing else to; None if none."""
    if not isinstance(op, linalg.GenericOp) or not is_elementwise(op):
        return None
    if len(op.inputs) != 1 or not is_identity(op, 0):
        return None
    first = op.body.block.first_op
    is_one = isinstance(first, arith.ExtFOp) and first.next_op is op.body.block.last_op
    return op.inputs[0] if is_one and element_type(op.results[0]) == f32 else None
