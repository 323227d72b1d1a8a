"""
Write functions of buffers in LLVM's dialect.

Each linalg op, or several that write parts of one buffer, becomes a kernel: a function
with loops. Equal kernels become one function. A function of buffers becomes a function
that calls kernels.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from padc.passes.buffers_to_llvm.access_check import ACCESSES
from padc.passes.buffers_to_llvm.function_lowering import lower_function
from padc.passes.buffers_to_llvm.llvm_builder import GRAIN
from padc.passes.buffers_to_llvm.llvm_module import LlvmModule, declare_library
from padc.passes.common.options import check_option, check_vector_bytes


@dataclass(frozen=True)
class ConvertBuffersToLlvmPass(ModulePass):
    """Lower functions of buffers to LLVM's dialect."""

    name = "convert-buffers-to-llvm"

    vector_bytes: int = 32
    """The bytes of a vector, in sums of products: 16, 32 or 64."""
    check: bool = False
    """Whether each load and store is checked, in functions that take a status word."""

    grain: int = GRAIN
    """The least work of a thread, in products; kernels with less run on one thread."""

    def __post_init__(self) -> None:
        check_vector_bytes(self)
        check_option(self, "grain", range(1, sys.maxsize), "a positive number")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        module = LlvmModule(op, self.vector_bytes, self.check, self.grain)
        for function in list(op.ops):
            if not isinstance(function, func.FuncOp):
                raise PassFailedException(
                    f"{self.name} takes functions of buffers, not '{function.name}'"
                )
            lower_function(function, module)
            function.detach()
            function.erase()
        declare_library(op)
        if module.checked is not None:
            op.attributes[ACCESSES] = module.checked.attribute()
