"""
Write tensors as buffers: allocated, filled, copied into, viewed, freed.

A pad is the allocation of what is padded, a fill, and a copy into a subview; where
amounts are negative only a subview, where they are interior one with strides. A pad
that repeats its input copies it, and then rows of the padded buffer within it. What
computes a tensor writes into the buffer of its init where nobody else uses that.
Functions take buffers that they do not write to, and return ones that they made.
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from padc.passes.buffers.lowerings import Bufferization
from padc.passes.to_linalg.convert_tcp_to_linalg import ConvertTcpToLinalgPass


class BufferizeTcpPass(ModulePass):
    """Lower tensors, and the `tcp` ops on them, to buffers."""

    name = "bufferize-tcp"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        ConvertTcpToLinalgPass(pads=False).apply(ctx, op)
        for function in op.ops:
            if isinstance(function, func.FuncOp) and not function.is_declaration:
                Bufferization(function).run()
