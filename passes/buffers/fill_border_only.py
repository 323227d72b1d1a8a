"""
Fill only the border around the part of a buffer that is written anyway.

If the first op that uses a buffer after its fill writes all of a subview, the fill
becomes two fills for each dimension: below and above the subview. They have the extent
of the subview in the dimensions before, and the full extent in those after.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects import memref
from xdsl.dialects.builtin import DYNAMIC_INDEX, ModuleOp
from xdsl.dialects.linalg import ops as linalg
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.dialects.utils.dynamic_index_list import get_dynamic_index_list
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from padc.ir.main_function import body_of, functions_of
from padc.ir.tcp import Amount
from padc.passes.buffers.views import within
from padc.passes.common.buffer_views import root, users
from padc.passes.common.memref_builder import MemRefBuilder
from padc.passes.common.size_builder import SizeBuilder


class FillBorderOnlyPass(ModulePass):
    """Fill the borders of buffers instead of the buffers."""

    name = "fill-border-only"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions_of(op):
            block = body_of(function)
            for fill in [o for o in block.ops if isinstance(o, linalg.FillOp)]:
                if (part := overwritten(block, fill)) is not None:
                    fill_around(fill, part)


def overwritten(block: Block, fill: linalg.FillOp) -> memref.SubviewOp | None:
    """The part of a filled buffer that the next op writes completely, unread."""
    whole = root(fill.outputs[0])
    if whole is not fill.outputs[0]:
        return None
    order = {op: i for i, op in enumerate(block.ops)}
    later = [op for op in users(whole) if order[within(block, op)] > order[fill]]
    if not later:
        return None
    next_op = min(later, key=lambda op: order[within(block, op)])
    if next_op.parent is not block or not isinstance(
        next_op, LinalgStructuredOperation
    ):
        return None
    for i, output in enumerate(next_op.outputs):
        view = output.owner
        if (
            isinstance(view, memref.SubviewOp)
            and view.source is whole
            and all(step == 1 for step in view.static_strides.get_values())
            and writes_all(next_op, len(next_op.inputs) + i)
            and not reads(next_op, whole, len(next_op.inputs) + i)
        ):
            return view
    return None


def writes_all(op: LinalgStructuredOperation, number: int) -> bool:
    """Whether `op` writes each element of an operand, and reads none of it."""
    map = op.get_indexing_maps().data[number].data
    dims = {e.position for e in map.results if isinstance(e, AffineDimExpr)}
    is_read = op.body.block.args[number].first_use is not None
    return len(dims) == len(map.results) and not is_read


def reads(op: LinalgStructuredOperation, whole: SSAValue, number: int) -> bool:
    """Whether `op` uses `whole` in its body or in an operand other than `number`."""
    operands = [x for i, x in enumerate(op.operands) if i != number]
    inner = [x for each in op.body.walk() for x in each.operands]
    return any(root(x) is whole for x in (*operands, *inner))


def fill_around(fill: linalg.FillOp, part: memref.SubviewOp) -> None:
    """Replace `fill` by fills of the border around `part`."""
    (value,), whole = fill.inputs, fill.outputs[0]
    block = fill.parent
    assert block is not None
    # If the part is defined after the fill, its border is filled there.
    order = {op: i for i, op in enumerate(block.ops)}
    later: Operation = max(fill, part, key=order.__getitem__)
    build = MemRefBuilder(Builder(InsertPoint.after(later)))
    low = get_dynamic_index_list(
        part.static_offsets.get_values(), part.offsets, DYNAMIC_INDEX
    )
    inner = get_dynamic_index_list(
        part.static_sizes.get_values(), part.sizes, DYNAMIC_INDEX
    )
    for offsets, sizes in borders(build, low, inner, build.sizes(whole)):
        if 0 not in sizes:
            build.fill(value, build.subview(whole, offsets, sizes))
    Rewriter.erase_op(fill)


def borders(
    build: SizeBuilder,
    low: Sequence[Amount],
    inner: Sequence[Amount],
    full: Sequence[Amount],
) -> Iterator[tuple[list[Amount], list[Amount]]]:
    """Offsets and sizes of the parts around the part of size `inner` at `low`."""
    for dim in range(len(full)):
        end = build.add(low[dim], inner[dim])
        above = build.sub(full[dim], end)
        for offset, size in ((0, low[dim]), (end, above)):
            offsets = [*low[:dim], offset, *[0] * (len(full) - dim - 1)]
            yield offsets, [*inner[:dim], size, *full[dim + 1 :]]
