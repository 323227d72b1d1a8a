"""What buffers a function has: their views, and when each is last used."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects import func, memref
from xdsl.ir import Block, Operation, SSAValue

VIEWS = (
    memref.SubviewOp,
    memref.CastOp,
    memref.ExpandShapeOp,
    memref.CollapseShapeOp,
    memref.ViewOp,
)
"""Ops whose result is memory of their first operand."""


def root(value: SSAValue) -> SSAValue:
    """The buffer that `value` is, or is a view of."""
    while isinstance(value.owner, VIEWS):
        value = value.owner.operands[0]
    return value


def views(buffer: SSAValue) -> Iterator[SSAValue]:
    """`buffer`, and every view of it."""
    yield buffer
    for use in buffer.uses:
        if isinstance(use.operation, VIEWS):
            yield from views(use.operation.results[0])


def users(buffer: SSAValue) -> Iterator[Operation]:
    """The ops that use `buffer` or a view of it, but to make views or free it."""
    for view in views(buffer):
        for use in view.uses:
            if not isinstance(use.operation, (*VIEWS, memref.DeallocOp)):
                yield use.operation


def within(block: Block, op: Operation) -> Operation:
    """The op of `block` that is `op`, or has it in a region."""
    found = block.find_ancestor_op_in_block(op)
    assert found is not None
    return found


def place_deallocs(function: func.FuncOp) -> None:
    """Free each buffer of `function` behind its last use, and no other."""
    block = function.body.block
    for op in list(function.walk()):
        if isinstance(op, memref.DeallocOp):
            op.detach()
            op.erase()
    order = {op: i for i, op in enumerate(block.ops)}
    for alloc in [op for op in block.ops if isinstance(op, memref.AllocOp)]:
        # Views that nobody reads must not be behind the end either.
        uses = [
            within(block, use.operation)
            for view in views(alloc.memref)
            for use in view.uses
        ]
        if any(isinstance(use, func.ReturnOp) for use in uses):
            continue
        last = max([alloc, *uses], key=order.__getitem__)
        block.insert_op_after(memref.DeallocOp.get(alloc.memref), last)
