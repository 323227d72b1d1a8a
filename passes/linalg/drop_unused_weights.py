"""
Remove the arguments that are weights which nothing reads.

The packed form of a weight is a further argument. If nothing reads the weight itself
any more, the caller would keep it in memory for nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, ModuleOp
from xdsl.ir import BlockArgument
from xdsl.passes import ModulePass
from xdsl.transforms.dead_code_elimination import dce

from padc.ir.main_function import body_of, functions_of
from padc.passes.linalg.weights import weight_arguments


@dataclass(frozen=True)
class DropUnusedWeightsPass(ModulePass):
    """Remove the arguments of functions that are weights which nothing reads."""

    name = "drop-unused-weights"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        # What is left of a weight that was packed in another shape: an unused reshape.
        dce(op)
        for function in functions_of(op):
            drop_unused_weights(function)


def drop_unused_weights(function: func.FuncOp) -> None:
    block = body_of(function)
    unused = {x for x in weight_arguments(function) if x.first_use is None}
    if not unused:
        return
    attributes = zip(block.args, function.arg_attrs or (), strict=True)
    function.arg_attrs = ArrayAttr([each for x, each in attributes if x not in unused])
    for arg in unused:
        assert isinstance(arg, BlockArgument)
        block.erase_arg(arg)
    function.update_function_type()
