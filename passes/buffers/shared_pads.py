"""
One buffer for several pads of a value: the widest, of which the others are views.

    %p = alloc [1 + n]; fill; copy %x to %p[1:]         %q = alloc [2 + n]
    %q = alloc [2 + n]; fill; copy %x to %q[2:]    ->   fill; copy %x to %q[2:]
                                                        %p = subview %q[1:]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.builder import Builder
from xdsl.dialects import arith, memref
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from padc.passes.buffers.hoisting import hoist
from padc.passes.buffers.views import (
    may_be_strided,
    replace_buffer,
    within,
    writes,
)
from padc.passes.common.buffer_views import root, users
from padc.passes.common.memref_builder import MemRefBuilder, memref_type


def share_pads(block: Block) -> None:
    """Make buffers that pad the same value with the same fill views of one buffer."""
    order = {op: i for i, op in enumerate(block.ops)}
    groups: dict[tuple[object, ...], list[Pad]] = {}
    for op in block.ops:
        if isinstance(op, linalg.CopyOp) and (pad := pad_of(op)) is not None:
            key = (pad.copy.inputs[0], fill_key(pad.fill.inputs[0]), pad.sizes)
            groups.setdefault(key, []).append(pad)
    # Chosen first: `order` does not have the ops that `share` inserts.
    chosen = [x for x in groups.values() if len(x) > 1 and not changes(x, order)]
    for pads in chosen:
        if hoist_fill(pads[0]):
            share(pads)


def fill_key(value: SSAValue) -> object:
    """A key that is equal for values that are known to be equal."""
    op = value.owner
    return op.value if isinstance(op, arith.ConstantOp) else value


def changes(pads: Sequence[Pad], order: Mapping[Operation, int]) -> bool:
    """Whether the value that is padded is written between its copies."""
    first, last = order[pads[0].copy], order[pads[-1].copy]
    value = root(pads[0].copy.inputs[0])
    block = pads[0].copy.parent
    assert block is not None
    return any(
        first < order[within(block, op)] < last and writes(op, value)
        for op in users(value)
    )


def hoist_fill(pad: Pad) -> bool:
    """Define the fill value before the buffer; False if that is impossible."""
    op, block = pad.fill.inputs[0].owner, pad.alloc.parent
    assert block is not None
    return not isinstance(op, Operation) or hoist(block, [op], pad.alloc)


@dataclass(frozen=True)
class Pad:
    """A buffer that is filled, and whose interior is then a copy of a value."""

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
        """The number of elements after the interior, in each dimension."""
        shape = memref_type(self.alloc.memref).get_shape()
        return [
            full - offset - size
            for full, offset, size in zip(shape, self.offsets, self.sizes, strict=True)
        ]


def pad_of(copy: linalg.CopyOp) -> Pad | None:
    """The pad by static amounts whose interior `copy` writes, if there is one."""
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
            is_pad = may_be_strided(alloc.memref) and follows(others, fill, copy)
            return Pad(alloc, fill, interior, copy) if is_pad else None
        case _:
            return None


def follows(
    readers: Sequence[Operation], fill: linalg.FillOp, copy: linalg.CopyOp
) -> bool:
    """Whether `fill`, `copy` and then all `readers` stand in this order."""
    block = copy.parent
    assert block is not None
    if not fill.is_before_in_block(copy):
        return False
    return all(
        op is fill or copy.is_before_in_block(within(block, op)) for op in readers
    )


def share(pads: Sequence[Pad]) -> None:
    """Allocate a buffer with the largest amounts, and make all others views of it."""
    first = pads[0]
    rank = range(len(first.sizes))
    lower = [max(pad.offsets[dim] for pad in pads) for dim in rank]
    upper = [max(pad.upper[dim] for pad in pads) for dim in rank]
    full = [
        low + size + high
        for low, size, high in zip(lower, first.sizes, upper, strict=True)
    ]
    build = MemRefBuilder(Builder(InsertPoint.before(first.alloc)))
    wide = build.alloc(full, memref_type(first.alloc.memref).element_type)
    build.fill(first.fill.inputs[0], wide)
    interior = build.subview(wide, lower, first.sizes)
    after = MemRefBuilder(Builder(InsertPoint.before(first.copy)))
    after.copy(first.copy.inputs[0], interior)
    for pad in pads:
        shape = memref_type(pad.alloc.memref).get_shape()
        offsets = [low - offset for low, offset in zip(lower, pad.offsets, strict=True)]
        part = build.subview(wide, offsets, shape)
        Rewriter.erase_op(pad.copy)
        Rewriter.erase_op(pad.fill)
        replace_buffer(pad.alloc.memref, part)
    # Last, since the new ops are inserted before the first of them.
    for pad in pads:
        Rewriter.erase_op(pad.alloc)


def is_static(view: memref.SubviewOp) -> bool:
    """Whether offsets and sizes of a view are static, and its strides are 1."""
    steps = view.static_strides.get_values()
    return not (view.offsets or view.sizes) and all(step == 1 for step in steps)
