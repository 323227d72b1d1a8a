"""The loops of a linalg op on buffers, and how long they take."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.dialects.linalg.attrs import IteratorType
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr
from xdsl.utils.exceptions import PassFailedException

from padc.passes.buffers_to_llvm.buffer_descriptor import BufferDescriptor, Value
from padc.passes.buffers_to_llvm.llvm_builder import LlvmBuilder, Size
from padc.passes.buffers_to_llvm.loops import Loop, linear
from padc.passes.buffers_to_llvm.products.kernel_choice import multiplied_type
from padc.passes.buffers_to_llvm.work_sharing import ELEMENT_WORK, product


def loops_of(
    op: LinalgStructuredOperation, operands: Sequence[Value], main: LlvmBuilder
) -> tuple[list[Loop], list[Size]]:
    """A loop for each dimension of `op`, and the first offset of each operand."""
    kinds = op.get_iterator_types()
    reduces = [kind.data is IteratorType.REDUCTION for kind in kinds]
    rank = len(reduces)
    by_operand: list[list[Size]] = []
    for x, map in zip(operands, op.get_indexing_maps(), strict=True):
        strides = x.strides if isinstance(x, BufferDescriptor) else ()
        by_operand.append(linear(main, map.data.results, strides, rank))
    counts: list[Size] = []
    of = dict(zip(op.operands, operands, strict=True))
    for source in op.get_loop_bound_sources():
        buffer = of[source.operand]
        assert isinstance(buffer, BufferDescriptor)
        counts.append(buffer.sizes[source.dim_index])
    check_sizes(op, operands, counts)
    loops = [
        Loop((i,), counts[i], tuple(steps[i] for steps in by_operand), reduces[i])
        for i in range(rank)
    ]
    return loops, [steps[rank] for steps in by_operand]


def check_sizes(
    op: LinalgStructuredOperation, operands: Sequence[Value], counts: Sequence[Size]
) -> None:
    """
    Compare each loop with the dimensions that it alone indexes.

    Raises:
        PassFailedException: a known dimension is longer or shorter.
    """
    for x, map in zip(operands, op.get_indexing_maps(), strict=True):
        if not isinstance(x, BufferDescriptor):
            continue
        for size, index in zip(x.sizes, map.data.results, strict=True):
            if not isinstance(index, AffineDimExpr):
                continue
            count = counts[index.position]
            if isinstance(size, int) and isinstance(count, int) and size != count:
                raise PassFailedException(
                    f"'{op.name}' has a loop over {count} elements and over {size}"
                )


def captured(op: LinalgStructuredOperation) -> list[SSAValue]:
    """The values from outside that the body uses, each once."""
    inside = {op.body.block, *(inner.parent for inner in op.body.walk())}
    values: dict[SSAValue, None] = {}
    for inner in op.body.walk():
        for operand in inner.operands:
            owner = operand.owner
            block = owner.parent if isinstance(owner, Operation) else owner
            if block not in inside:
                values[operand] = None
    return list(values)


def work_of(
    op: LinalgStructuredOperation, loops: Sequence[Loop], main: LlvmBuilder
) -> Size:
    """About how many products take as long as `op`."""
    steps = product(main, [loop.count for loop in loops])
    if multiplied_type(op) is not None:
        return steps
    names = [inner.name for inner in op.body.walk()]
    each = sum(8 if name.startswith("math.") else 1 for name in names)
    return main.mul(steps, ELEMENT_WORK * each)
