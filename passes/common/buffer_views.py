"""Views of buffers: their root, and their users."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects import memref
from xdsl.ir import Operation, SSAValue

VIEWS = (
    memref.SubviewOp,
    memref.CastOp,
    memref.ExpandShapeOp,
    memref.CollapseShapeOp,
    memref.ViewOp,
)
"""Ops whose result is a view of their first operand."""


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
    """The ops that use `buffer` or a view of it, except those that view or free it."""
    for view in views(buffer):
        for use in view.uses:
            if not isinstance(use.operation, (*VIEWS, memref.DeallocOp)):
                yield use.operation
