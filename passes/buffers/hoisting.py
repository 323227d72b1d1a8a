"""Moving ops up in a block, together with the ops that they depend on."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import memref
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Block, Operation

MOVABLE = (memref.AllocOp, memref.SubviewOp, memref.DimOp, linalg.FillOp)
"""Ops that the caller knows may move; arithmetic always may."""


def hoist(block: Block, ops: Sequence[Operation], before: Operation) -> bool:
    """
    Move `ops`, in their order, before the op `before`; False if one cannot move.

    Nothing moves in that case. Ops that are before it already stay.
    """
    order = {op: i for i, op in enumerate(block.ops)}
    if not all(_can_hoist(op, order, order[before]) for op in ops):
        return False
    for op in ops:
        _hoist(op, block, order, before)
    return True


def _can_hoist(op: Operation, order: dict[Operation, int], before: int) -> bool:
    if op not in order:
        return False
    if order[op] < before:
        return True
    if not isinstance(op, MOVABLE) and not op.name.startswith(("arith.", "math.")):
        return False
    return all(
        _can_hoist(operand.owner, order, before)
        for operand in op.operands
        if isinstance(operand.owner, Operation)
    )


def _hoist(
    op: Operation, block: Block, order: dict[Operation, int], before: Operation
) -> None:
    if order[op] < order[before]:
        return
    for operand in op.operands:
        if isinstance(operand.owner, Operation):
            _hoist(operand.owner, block, order, before)
    op.detach()
    block.insert_op_before(op, before)
    order[op] = order[before] - 1
