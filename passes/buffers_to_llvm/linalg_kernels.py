"""The kernel of one linalg op: its loops, and what they compute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from xdsl.dialects import arith, memref
from xdsl.dialects.linalg import ops as linalg
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import SSAValue

from padc.passes.buffers_to_llvm.bodies import Body
from padc.passes.buffers_to_llvm.buffer_descriptor import Value
from padc.passes.buffers_to_llvm.channel_rows import channel_rows
from padc.passes.buffers_to_llvm.kernel_key import KernelKey
from padc.passes.buffers_to_llvm.kernels import Kernel, Outline
from padc.passes.buffers_to_llvm.llvm_builder import LlvmBuilder, Size
from padc.passes.buffers_to_llvm.loop_nests import nest_of
from padc.passes.buffers_to_llvm.loops import Loop, merged, ordered
from padc.passes.buffers_to_llvm.op_loops import captured, loops_of, work_of
from padc.passes.buffers_to_llvm.transpositions import transposition_of
from padc.passes.buffers_to_llvm.vector_math import OF_SMALL
from padc.passes.buffers_to_llvm.work_sharing import threads_for

JAMMED = 4
"""The most steps of a loop that gathers share the places for."""


def kernel_of(
    op: LinalgStructuredOperation, values: Mapping[SSAValue, Value], main: LlvmBuilder
) -> Kernel:
    """
    The kernel of `op`, whose operands are `values` of the function `main`.

    Sums of products have kernels of their own (see `fused_products`).
    """
    operands = [values[x] for x in op.operands]
    loops, firsts = plan(op, operands, main)
    of = KernelKey()
    check = None if main.check is None else main.check.of(op)
    key = of.op(op, values), of.loops(loops), of.sizes(firsts), of.check(check)
    threads = most_threads(op, loops, main)

    def make() -> Outline:
        kernel = Outline(main, check, threads)
        outline(kernel, op, values, loops, firsts)
        return kernel

    return Kernel(key, of.values, make, threads)


def most_threads(
    op: LinalgStructuredOperation, loops: Sequence[Loop], main: LlvmBuilder
) -> Size:
    """The most threads that are worth it for `op`."""
    free = [loop for loop in loops if not loop.reduces]
    outputs = len(op.outputs)
    if not free or any(0 in loop.steps[-outputs:] for loop in free if loop.count != 1):
        return 1
    return threads_for(main, work_of(op, loops, main))


def outline(
    kernel: Outline,
    op: LinalgStructuredOperation,
    values: Mapping[SSAValue, Value],
    loops: Sequence[Loop],
    firsts: Sequence[Size],
) -> None:
    """Emit the loops of `op` in `kernel`."""
    sizes = kernel.sizes(firsts)
    loops = [kernel.loop(loop) for loop in loops]
    inner = {x: kernel.value(values[x]) for x in (*op.operands, *captured(op))}
    loops = ordered(loops, len(op.outputs))
    operands = [inner[x] for x in op.operands]
    if (transposition := transposition_of(op, operands, loops)) is not None:
        if kernel.build.check is not None:
            kernel.build.check = kernel.build.check.of(op)
        return transposition.run(kernel.build, sizes)
    body = Body(op, kernel, operands, inner, len(op.outputs))
    if (rows := channel_rows(body, loops)) is not None:
        return rows.run(sizes)
    loops, jammed = jam(op, loops)
    body = Body(op, kernel, operands, inner, len(op.outputs), jammed)
    nest = nest_of(body, loops)
    nest.share(loops)
    nest.nest(loops, sizes, {})


def jam(
    op: LinalgStructuredOperation, loops: Sequence[Loop]
) -> tuple[Sequence[Loop], Loop | None]:
    """
    Take out a loop whose few steps are joined inside of the innermost one.

    This is called unroll and jam. The loop is one along which `op` gathers from the
    same places, so that these are computed only once: the channels of a grid sample.
    Or it is the innermost one, too short to be vectorized, and the loop around it is.
    """
    if not any(isinstance(x, memref.LoadOp) for x in op.body.walk()):
        return loops, None
    if any(loop.reduces for loop in loops) or any(
        isinstance(x, (*OF_SMALL, arith.DivUIOp)) for x in op.body.walk()
    ):
        return loops, None
    inputs = len(op.inputs)
    if len(loops) < 2:
        return loops, None
    last = loops[-1]
    if not inputs and isinstance(last.count, int) and last.count <= JAMMED:
        return loops[:-1], last
    for loop in reversed(loops):
        is_short = isinstance(loop.count, int) and 1 < loop.count <= JAMMED
        if is_short and inputs and not any(loop.steps[:inputs]):
            return [each for each in loops if each is not loop], loop
    return loops, None


def plan(
    op: LinalgStructuredOperation, operands: Sequence[Value], main: LlvmBuilder
) -> tuple[list[Loop], list[Size]]:
    """The loops of `op`, merged if possible, and the first offset of each operand."""
    loops, firsts = loops_of(op, operands, main)
    numbers = {
        inner.dim.value.data
        for inner in op.body.walk()
        if isinstance(inner, linalg.IndexOp)
    }
    result: list[Loop] = []
    # The body uses the numbers of some loops: they stay as they are.
    for are_numbered, group in groupby(loops, lambda x: x.dims[0] in numbers):
        if are_numbered:
            result += group
        else:
            result += merged(main, [loop for loop in group if loop.count != 1])
    return result, firsts
