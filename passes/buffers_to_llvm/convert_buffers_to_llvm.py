"""
Write functions of buffers in LLVM's dialect.

Each linalg op, or several that write parts of one buffer, becomes a function with
loops, those that are the same one function; a function of buffers becomes what calls
these (see `buffers_to_llvm`).
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from padc.passes.buffers_to_llvm.function import Module, declare_library, lower_function


@dataclass(frozen=True)
class ConvertBuffersToLlvmPass(ModulePass):
    """Lower functions of buffers to LLVM's dialect."""

    name = "convert-buffers-to-llvm"

    vector_bytes: int = 32
    """How long the vectors are that sums of products are computed in."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        module = Module(op, self.vector_bytes)
        for function in list(op.ops):
            if not isinstance(function, func.FuncOp):
                raise PassFailedException(
                    f"{self.name} takes functions of buffers, not '{function.name}'"
                )
            lower_function(function, module)
            function.detach()
            function.erase()
        declare_library(op)
