"""Views of buffers: which are disjoint, and replacing them."""

from __future__ import annotations

from xdsl.builder import Builder
from xdsl.dialects import func, memref
from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.dialects.utils.dynamic_index_list import get_dynamic_index_list
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from padc.ir import tcp
from padc.passes.buffers.strided_range import StridedRange, disjoint
from padc.passes.common.buffer_views import VIEWS, root, users, views
from padc.passes.common.memref_builder import MemRefBuilder, memref_type


def ranges(view: SSAValue) -> list[StridedRange | None] | None:
    """
    The range of `view` in each dimension of its root; None for unknown ones.

    Returns None if the view does not have the dimensions of its root.
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
    """The op of `block` that is `op`, or that holds it in a region."""
    found = block.find_ancestor_op_in_block(op)
    assert found is not None
    return found


def writes(op: Operation, buffer: SSAValue) -> bool:
    """Whether `op` writes to `buffer` or a view of it."""
    match op:
        case LinalgStructuredOperation() | tcp.WinogradConvOp():
            return any(root(output) is buffer for output in op.outputs)
        case memref.StoreOp():
            return root(op.memref) is buffer
        case _:
            return False


def touches(op: Operation, part: SSAValue) -> bool:
    """Whether `op` may read or write an element of `part`, a buffer or a view."""
    whole = root(part)
    return any(
        root(operand) is whole and not are_disjoint(operand, part)
        for operand in op.operands
    )


def may_be_strided(buffer: SSAValue) -> bool:
    """
    Whether a strided view of another buffer can replace this one.

    It cannot if this buffer is reshaped or returned, which takes contiguous memory.
    """
    is_returned = any(isinstance(op, func.ReturnOp) for op in users(buffer))
    return not is_returned and all(
        view is buffer or isinstance(view.owner, memref.SubviewOp)
        for view in views(buffer)
    )


def replace_buffer(old: SSAValue, new: SSAValue) -> None:
    """Use `new` instead of `old`; subviews of `old` get the strides of `new`."""
    new.name_hint = new.name_hint or old.name_hint
    for use in list(old.uses):
        view = use.operation
        if isinstance(view, memref.SubviewOp):
            build = MemRefBuilder(Builder(InsertPoint.before(view)))
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
