"""
Let the producer of a value write it into the padded buffer that it is copied into.

    %a = alloc                               %p = alloc
    op outs(%a)                              fill outs(%p)
    %p = alloc                       ->      %s = subview %p
    fill outs(%p)                            op outs(%s)
    %s = subview %p
    copy ins(%a) outs(%s)

The padded buffer and its fill move before the producer. Other readers of the value read
the interior of the padded buffer. The same holds for concatenations and other inserts,
except that sums of products stay in rows: see `has_products`.
Before that, buffers that pad the same value with the same fill become views of one.
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects import memref
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.linalg import ops as linalg
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from padc.ir.main_function import body_of, functions_of
from padc.passes.buffers.deallocation import place_deallocs, remove_deallocs
from padc.passes.buffers.hoisting import hoist
from padc.passes.buffers.shared_pads import share_pads
from padc.passes.buffers.views import (
    may_be_strided,
    replace_buffer,
    touches,
    within,
    writes,
)
from padc.passes.common.buffer_views import root, users, views
from padc.passes.common.memref_builder import memref_type
from padc.passes.common.sums_of_products import multiplies_and_adds


class PadIntoProducerPass(ModulePass):
    """Write values directly into the buffers that they are copied into."""

    name = "pad-into-producer"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions_of(op):
            block = body_of(function)
            remove_deallocs(block)
            share_pads(block)
            for copy in [o for o in block.ops if isinstance(o, linalg.CopyOp)]:
                if may_replace(copy):
                    WriteThrough(block, copy).run()
            place_deallocs(function)


def may_replace(copy: linalg.CopyOp) -> bool:
    """Whether the target of `copy` can hold its source: both are allocated here."""
    value, target = copy.inputs[0], copy.outputs[0]
    return (
        isinstance(value.owner, memref.AllocOp)
        and isinstance(root(target).owner, memref.AllocOp)
        and isinstance(target.owner, memref.SubviewOp | memref.AllocOp)
        and may_be_strided(value)
        and (has_rows(target) or not has_products(value))
    )


def has_rows(buffer: SSAValue) -> bool:
    """Whether neighbors in the last dimension are neighbors in memory."""
    strides = memref_type(buffer).get_strides()
    return not strides or strides[-1] == 1


def has_products(buffer: SSAValue) -> bool:
    """Whether an op sums products into `buffer`, for which kernels need rows."""
    return any(
        isinstance(op, LinalgStructuredOperation)
        and len(op.inputs) == 2
        and multiplies_and_adds(op)
        and writes(op, buffer)
        for op in users(buffer)
    )


class WriteThrough:
    """The replacement of the source of a copy by its target."""

    def __init__(self, block: Block, copy: linalg.CopyOp):
        self.block = block
        self.copy = copy
        self.value, self.target = copy.inputs[0], copy.outputs[0]
        self.whole = root(self.target)
        """The buffer that the target is, or is a view of."""
        self.order = {op: i for i, op in enumerate(block.ops)}

    def run(self) -> None:
        """Replace the source, unless that would change a result."""
        first = self.first_use()
        if first is self.copy or self.changes_later():
            return
        fills = self.fills_to_move(first)
        alloc, view, old = self.whole.owner, self.target.owner, self.value.owner
        assert isinstance(alloc, Operation) and isinstance(view, Operation)
        assert isinstance(old, Operation)
        if fills is None:
            return
        if hoist(self.block, [alloc, *fills, view], first):
            Rewriter.erase_op(self.copy)
            replace_buffer(self.value, self.target)
            Rewriter.erase_op(old)

    def place(self, op: Operation) -> int:
        return self.order[within(self.block, op)]

    def is_later(self, op: Operation) -> bool:
        return self.place(op) > self.order[self.copy]

    def first_use(self) -> Operation:
        """The first op of the block that uses the value: the target must exist then."""
        uses = [use.operation for view in views(self.value) for use in view.uses]
        return within(self.block, min(uses, key=self.place))

    def changes_later(self) -> bool:
        """Whether the value is written after it was copied."""
        return any(
            self.is_later(op) and writes(op, self.value) for op in users(self.value)
        )

    def fills_to_move(self, first: Operation) -> list[linalg.FillOp] | None:
        """
        The fills of the target, which must come before `first`; None if other ops
        forbid it.

        Before the copy, only fills may touch the target. After it, nothing may write to
        the target if the value is still read. A fill must not move across an op that
        touches what it fills.
        """
        is_read_later = any(map(self.is_later, users(self.value)))
        fills: list[linalg.FillOp] = []
        crossed: list[Operation] = []
        for op in sorted(users(self.whole), key=self.place):
            if op is self.copy:
                continue
            if not touches(op, self.target):
                if self.place(op) >= self.order[first]:
                    crossed.append(op)
            elif self.is_later(op):
                if is_read_later and writes(op, self.whole):
                    return None
            elif not isinstance(op, linalg.FillOp):
                return None
            elif any(touches(other, op.outputs[0]) for other in crossed):
                return None
            else:
                fills.append(op)
        return fills
