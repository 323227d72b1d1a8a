"""Buffers and their views: what a view is of, who uses it, which views are disjoint."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects import func, memref
from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import Block, Operation, SSAValue

from padc.passes.buffers.builder import memref_type
from padc.passes.buffers.strided_range import StridedRange, disjoint

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


def ranges(view: SSAValue) -> list[StridedRange | None] | None:
    """
    The places of `view` in each dimension of its root; None where they are unknown.

    The answer is None as a whole if the view has other dimensions than its root.
    """
    match view.owner:
        case memref.SubviewOp() as op:
            outer = ranges(op.source)
            inner = [
                strided_range(offset, size, stride)
                for offset, size, stride in zip(
                    op.static_offsets.get_values(),
                    op.static_sizes.get_values(),
                    op.static_strides.get_values(),
                    strict=True,
                )
            ]
            if outer is None or len(outer) != len(inner):
                return None
            return [
                whole.part(part) if whole is not None and part is not None else None
                for whole, part in zip(outer, inner, strict=True)
            ]
        case memref.CastOp() as op:
            return ranges(op.source)
        case owner if isinstance(owner, VIEWS):
            return None
        case _:
            return [strided_range(0, size, 1) for size in memref_type(view).get_shape()]


def strided_range(offset: int, size: int, stride: int) -> StridedRange | None:
    """The range of static or dynamic (`DYNAMIC_INDEX`) numbers; None if unknown."""
    if offset == DYNAMIC_INDEX or stride < 1:
        return None
    return StridedRange(offset, None if size == DYNAMIC_INDEX else size, stride)


def are_disjoint(a: SSAValue, b: SSAValue) -> bool:
    """Whether two views of one buffer are known to share no element."""
    of_a, of_b = ranges(a), ranges(b)
    if of_a is None or of_b is None:
        return False
    return any(
        x is not None and y is not None and disjoint(x, y)
        for x, y in zip(of_a, of_b, strict=True)
    )


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
