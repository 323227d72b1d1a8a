"""Freeing buffers."""

from __future__ import annotations

from xdsl.dialects import func, memref
from xdsl.ir import Block
from xdsl.rewriter import Rewriter

from padc.ir.main_function import body_of
from padc.passes.buffers.views import within
from padc.passes.common.buffer_views import views


def place_deallocs(function: func.FuncOp) -> None:
    """Free each buffer of `function` after its last use, except those it returns."""
    block = body_of(function)
    remove_deallocs(block)
    order = {op: i for i, op in enumerate(block.ops)}
    for alloc in [op for op in block.ops if isinstance(op, memref.AllocOp)]:
        # A view that nothing reads must not come after the end of its buffer either.
        uses = [
            within(block, use.operation)
            for view in views(alloc.memref)
            for use in view.uses
        ]
        if any(isinstance(use, func.ReturnOp) for use in uses):
            continue
        last = max([alloc, *uses], key=order.__getitem__)
        block.insert_op_after(memref.DeallocOp.get(alloc.memref), last)


def remove_deallocs(block: Block) -> None:
    """Remove every op that frees a buffer."""
    for op in list(block.walk()):
        if isinstance(op, memref.DeallocOp):
            Rewriter.erase_op(op)
