"""
Integers of 8 and 16 bits for targets that do not have them: int32 of the same values.

The rows compute with int32 already, and wrap results around. What is left are casts.
"""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp, i32
from xdsl.rewriter import Rewriter

from padc.ir import mil, mil_types
from padc.ir.tcp import tensor_type
from padc.ir.weights import Weights
from padc.passes.common.retyping import retype


def widen_integers(module: ModuleOp, weights: Weights, target: str) -> None:
    """Widen the integer tensors that `target` lacks to int32."""
    for type, name in mil_types.ELEMENT_TYPES.items():
        if mil.is_widened(name, target):
            retype(module, weights, type, i32)
    for op in list(module.walk()):
        if isinstance(op, mil.MilOp) and op.name == "mil.cast":
            widen_cast(op, target)


def widen_cast(op: mil.MilOp, target: str) -> None:
    """`cast(x, uint8) -> cast(x, int32)`, or x itself."""
    (x,), (result,) = op.operands, op.results
    if tensor_type(x) == tensor_type(result):
        Rewriter.replace_op(op, [], [x])
    elif mil.is_widened(str(op.input("dtype")), target):
        new = mil.op("cast", [result.type], x=x, dtype="int32")
        new.location = op.location
        Rewriter.replace_op(op, new)
