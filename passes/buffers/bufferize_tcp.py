"""
Write tensors as buffers: allocated, filled, copied into, viewed, freed.

It takes what `convert-tcp-to-linalg{border-pads=false}` writes: border pads of `tcp`,
and upstream's ops on tensors. A pad allocates the padded buffer, fills it, and copies
into a subview of it; a border pad copies its input, and then rows within the padded
buffer. A linalg op writes into the buffer of its output operand if that has no other
use. A function does not write to the buffers that it takes, and returns buffers that it
allocates.
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from padc.ir.main_function import functions_of
from padc.passes.buffers.lowerings import FunctionBufferizer


class BufferizeTcpPass(ModulePass):
    """Lower ops on tensors, and border pads of `tcp`, to buffers."""

    name = "bufferize-tcp"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions_of(op):
            FunctionBufferizer(function).run()
