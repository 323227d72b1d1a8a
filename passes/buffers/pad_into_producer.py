"""
Let what makes a value write it into the padded buffer, or the concatenation, it is for.

    %a = alloc                               %p = alloc
    op outs(%a)                              fill outs(%p)
    %p = alloc                       ->      %s = subview %p
    fill outs(%p)                            op outs(%s)
    %s = subview %p
    copy ins(%a) outs(%s)

The padded buffer and its fill move before what makes the value; whoever reads the
value reads the padded buffer's interior. Before that, buffers that pad one value
differently, by the same fill, become parts of one that is as wide as the widest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects import arith, func, memref
from xdsl.dialects.builtin import DYNAMIC_INDEX, ModuleOp
from xdsl.dialects.linalg import ops as linalg
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.dialects.utils.dynamic_index_list import get_dynamic_index_list
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from padc.passes.buffers.builder import BufferBuilder, memref_type
from padc.passes.buffers.views import (
    are_disjoint,
    place_deallocs,
    root,
    users,
    views,
    within,
)


class PadIntoProducerPass(ModulePass):
    """Write values straight into the buffers that they are copied into."""

    name = "pad-into-producer"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.ops:
            if isinstance(function, func.FuncOp) and not function.is_declaration:
                block = function.body.block
                for free in [o for o in block.ops if isinstance(o, memref.DeallocOp)]:
                    Rewriter.erase_op(free)
                share_pads(block)
                for copy in [o for o in block.ops if isinstance(o, linalg.CopyOp)]:
                    write_through(block, copy)
                place_deallocs(function)


def share_pads(block: Block) -> None:
    """Make buffers that pad one value with one fill parts of a single one."""
    groups: dict[tuple[object, ...], list[Pad]] = {}
    for op in block.ops:
        if isinstance(op, linalg.CopyOp) and (pad := pad_of(op)) is not None:
            key = (pad.copy.inputs[0], same_fill(pad.fill.inputs[0]), pad.sizes)
            groups.setdefault(key, []).append(pad)
    for pads in groups.values():
        if len(pads) > 1:
            share(pads)


def same_fill(value: SSAValue) -> object:
    """What is the same of two values that fill the same."""
    op = value.owner
    return op.value if isinstance(op, arith.ConstantOp) else value


@dataclass(frozen=True)
class Pad:
    """A buffer that is filled, and into whose interior one value is copied."""

    alloc: memref.AllocOp
    fill: linalg.FillOp
    interior: memref.SubviewOp
    copy: linalg.CopyOp

    @property
    def offsets(self) -> Sequence[int]:
        return self.interior.static_offsets.get_values()

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(self.interior.static_sizes.get_values())

    @property
    def upper(self) -> list[int]:
        """How much is behind the interior."""
        shape = memref_type(self.alloc.memref).get_shape()
        return [
            full - offset - size
            for full, offset, size in zip(shape, self.offsets, self.sizes, strict=True)
        ]


def pad_of(copy: linalg.CopyOp) -> Pad | None:
    """The pad by constant amounts of which `copy` is a part; None if it is of none."""
    interior = copy.outputs[0].owner
    if not isinstance(interior, memref.SubviewOp) or not is_static(interior):
        return None
    alloc = interior.source.owner
    if not isinstance(alloc, memref.AllocOp) or alloc.dynamic_sizes:
        return None
    others = [op for op in users(alloc.memref) if op is not copy]
    written = [op for op in others if writes(op, alloc.memref)]
    match written:
        case [linalg.FillOp() as fill] if fill.outputs[0] is alloc.memref:
            is_pad = may_have_gaps(alloc.memref)
            return Pad(alloc, fill, interior, copy) if is_pad else None
        case _:
            return None


def share(pads: Sequence[Pad]) -> None:
    """Make the first buffer as wide as the widest, and the others parts of it."""
    first = pads[0]
    rank = range(len(first.sizes))
    lower = [max(pad.offsets[dim] for pad in pads) for dim in rank]
    upper = [max(pad.upper[dim] for pad in pads) for dim in rank]
    full = [
        low + size + high
        for low, size, high in zip(lower, first.sizes, upper, strict=True)
    ]
    build = BufferBuilder(Builder(InsertPoint.before(first.alloc)))
    wide = build.alloc(full, memref_type(first.alloc.memref).element_type)
    build.fill(first.fill.inputs[0], wide)
    interior = build.subview(wide, lower, first.sizes)
    after = BufferBuilder(Builder(InsertPoint.before(first.copy)))
    after.copy(first.copy.inputs[0], interior)
    for pad in pads:
        shape = memref_type(pad.alloc.memref).get_shape()
        offsets = [low - offset for low, offset in zip(lower, pad.offsets, strict=True)]
        part = build.subview(wide, offsets, shape)
        Rewriter.erase_op(pad.copy)
        Rewriter.erase_op(pad.fill)
        replace_buffer(pad.alloc.memref, part)
    # Last, as the new ops are before the first of them.
    for pad in pads:
        Rewriter.erase_op(pad.alloc)


def is_static(view: memref.SubviewOp) -> bool:
    """Whether a view has constant places and sizes, and every element between."""
    steps = view.static_strides.get_values()
    return not (view.offsets or view.sizes) and all(step == 1 for step in steps)


def writes(op: Operation, buffer: SSAValue) -> bool:
    """Whether `op` writes to `buffer` or a view of it."""
    match op:
        case LinalgStructuredOperation():
            return any(root(output) is buffer for output in op.outputs)
        case memref.StoreOp():
            return root(op.memref) is buffer
        case _:
            return False


def may_have_gaps(buffer: SSAValue) -> bool:
    """
    Whether a part of another buffer, between whose rows is more, may replace this one.

    What is reshaped has none, nor what is returned.
    """
    is_returned = any(isinstance(op, func.ReturnOp) for op in users(buffer))
    return not is_returned and all(
        view is buffer or isinstance(view.owner, memref.SubviewOp)
        for view in views(buffer)
    )


def write_through(block: Block, copy: linalg.CopyOp) -> None:
    """Replace what `copy` copies by where it copies that to, if nothing forbids it."""
    value, target = copy.inputs[0], copy.outputs[0]
    alloc, whole = value.owner, root(target)
    if (
        not isinstance(alloc, memref.AllocOp)
        or not isinstance(whole.owner, memref.AllocOp)
        or whole is value
        or not isinstance(target.owner, memref.SubviewOp | memref.AllocOp)
        or not may_have_gaps(value)
    ):
        return
    order = {op: i for i, op in enumerate(block.ops)}
    at = order[copy]

    def place(op: Operation) -> int:
        return order[within(block, op)]

    of_value = [op for op in users(value) if op is not copy]
    if any(place(op) > at and writes(op, value) for op in of_value):
        return
    uses = [use.operation for view in views(value) for use in view.uses]
    first = min(place(op) for op in uses)
    is_read_later = any(place(op) > at for op in of_value)
    moved: list[Operation] = []
    for op in users(whole):
        if op is copy:
            continue
        if is_apart(op, whole, target):
            continue
        if place(op) < at:
            if not isinstance(op, linalg.FillOp) or op.parent is not block:
                return
            moved.append(op)
        elif is_read_later and writes(op, whole):
            return
    moved = [whole.owner, *sorted(moved, key=place)]
    if isinstance(target.owner, memref.SubviewOp):
        moved.append(target.owner)
    here = list(block.ops)[first]
    if here is copy or not all(can_hoist(op, block, order, first) for op in moved):
        return
    for op in moved:
        hoist(op, block, order, here)
    Rewriter.erase_op(copy)
    replace_buffer(value, target)
    Rewriter.erase_op(alloc)


def is_apart(op: Operation, whole: SSAValue, target: SSAValue) -> bool:
    """Whether all that `op` uses of `whole` is known to have no element of `target`."""
    return all(
        are_disjoint(operand, target)
        for operand in op.operands
        if root(operand) is whole
    )


def can_hoist(
    op: Operation, block: Block, order: dict[Operation, int], first: int
) -> bool:
    """Whether `op` can be computed before the op at `first`."""
    if op not in order:
        return False
    if order[op] < first:
        return True
    movable = isinstance(
        op, memref.AllocOp | memref.SubviewOp | memref.DimOp | linalg.FillOp
    )
    if not movable and not op.name.startswith(("arith.", "math.")):
        return False
    return all(
        can_hoist(operand.owner, block, order, first)
        for operand in op.operands
        if isinstance(operand.owner, Operation)
    )


def hoist(
    op: Operation, block: Block, order: dict[Operation, int], here: Operation
) -> None:
    """Move `op`, and what it needs, before `here`."""
    if order[op] < order[here]:
        return
    for operand in op.operands:
        if isinstance(operand.owner, Operation):
            hoist(operand.owner, block, order, here)
    if order[op] >= order[here]:
        op.detach()
        block.insert_op_before(op, here)
        order[op] = order[here] - 1


def replace_buffer(old: SSAValue, new: SSAValue) -> None:
    """Use `new` for `old`; views of it get the strides of `new`."""
    new.name_hint = new.name_hint or old.name_hint
    for use in list(old.uses):
        view = use.operation
        if isinstance(view, memref.SubviewOp):
            build = BufferBuilder(Builder(InsertPoint.before(view)))
            lists = [
                get_dynamic_index_list(static.get_values(), dynamic, DYNAMIC_INDEX)
                for static, dynamic in (
                    (view.static_offsets, view.offsets),
                    (view.static_sizes, view.sizes),
                    (view.static_strides, view.strides),
                )
            ]
            part = build.subview(new, *lists)
            replace_buffer(view.result, part)
            Rewriter.erase_op(view)
    old.replace_all_uses_with(new)
