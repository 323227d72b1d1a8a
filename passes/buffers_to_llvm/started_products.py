"""
A matrix product together with the op before it, which writes what the sums start from.

That is 0, or the bias of a linear layer. The tiles read it where they would read the
result, which then need not be written before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from xdsl.dialects.linalg import ops as linalg
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineDimExpr

from padc.passes.buffers_to_llvm.buffer_descriptor import BufferDescriptor, Value
from padc.passes.buffers_to_llvm.contractions import multiplied_type
from padc.passes.buffers_to_llvm.kernel_key import KernelKey
from padc.passes.buffers_to_llvm.kernels import (
    Kernel,
    Outline,
    loops_of,
    work_of,
)
from padc.passes.buffers_to_llvm.llvm_builder import LlvmBuilder
from padc.passes.buffers_to_llvm.loop_fusion import Move
from padc.passes.buffers_to_llvm.loops import Loop, merged
from padc.passes.buffers_to_llvm.matrix_products import (
    MatrixProductKernel,
    matrix_product_of,
)
from padc.passes.buffers_to_llvm.work_sharing import threads_for


def started_product(
    op: LinalgStructuredOperation,
    start: Move,
    values: Mapping[SSAValue, Value],
    main: LlvmBuilder,
    vector_bytes: int,
) -> Kernel | None:
    """The kernel of `start` and the op after it; None if they are no such pair."""
    type, copied = multiplied_type(op), copied_operand(start)
    if type is None or copied is None or start.op.outputs[0] is not op.outputs[0]:
        return None
    source = start.values[start.op.operands[copied]]
    loops, firsts = loops_of(op, [values[x] for x in op.operands], main)
    result = op.get_indexing_maps().data[2].data
    extended: list[Loop] = []
    for number, loop in enumerate(loops):
        steps = [
            outer.steps[copied]
            for expr, outer in zip(result.results, start.loops, strict=True)
            if isinstance(expr, AffineDimExpr) and expr.position == number
        ]
        extended.append(replace(loop, steps=(*loop.steps, *(steps or [0]))))
    loops = merged(main, [loop for loop in extended if loop.count != 1])
    firsts = [*firsts, start.firsts[copied]]
    lanes = vector_bytes // type.size
    product = matrix_product_of(loops, type, lanes)
    if (
        product is None
        or not isinstance(product.sum.count, int)
        or product.sum.count == 0
        or product.columns.steps[3] not in (0, 1)
    ):
        return None
    of = KernelKey()
    check = None if main.check is None else main.check.of(op)
    key = (
        of.op(op, values),
        of.loops(loops),
        of.sizes(firsts),
        of.value(source),
        of.check(check),
    )

    threads = threads_for(main, work_of(op, loops, main))

    def make() -> Outline:
        kernel = Outline(check, threads)
        inner = [kernel.loop(loop) for loop in loops]
        product = matrix_product_of(inner, type, lanes)
        assert product is not None
        buffers: list[BufferDescriptor] = []
        for operand in op.operands:
            buffer = kernel.value(values[operand])
            assert isinstance(buffer, BufferDescriptor)
            buffers.append(buffer)
        first = kernel.value(source)
        assert not isinstance(first, int)
        MatrixProductKernel(kernel.build, product, buffers, first).run(
            kernel.sizes(firsts)
        )
        return kernel

    return Kernel(key, of.values, make, threads)


def copied_operand(move: Move) -> int | None:
    """The number of the operand that an op copies as it is; None if it computes."""
    block = move.op.body.block
    match list(block.ops):
        case [linalg.YieldOp() as end]:
            (copied,) = end.operands
            inputs = range(len(move.op.inputs))
            return next((i for i in inputs if block.args[i] is copied), None)
        case _:
            return None
