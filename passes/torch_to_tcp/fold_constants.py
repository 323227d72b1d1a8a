"""Compute ATen ops on constants: see `eager_evaluation`."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.transforms.dead_code_elimination import region_dce

from padc.ir.weights import weights_of


class FoldConstantsPass(ModulePass):
    """Compute ATen ops on constants."""

    name = "fold-constants"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        # Imported here: the help of padc-opt describes all passes without PyTorch.
        from padc.passes.aten.eager_evaluation import Folding

        Folding(weights_of(ctx)).run(op)
        region_dce(op.body)
