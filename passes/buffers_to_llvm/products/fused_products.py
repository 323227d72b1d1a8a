"""
Sums of products in one kernel with the ops around them on the same buffer.

The op before writes what the sums start from: 0, or a bias. The tiles read it where
they would read the result, which then need not be written before. The op after, an
elementwise one, runs on each tile while that is in the first cache.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

from xdsl.dialects.linalg import ops as linalg
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import SSAValue

from padc.ir import tcp
from padc.passes.buffers_to_llvm.access_check import AccessCheck
from padc.passes.buffers_to_llvm.bodies import Body
from padc.passes.buffers_to_llvm.buffer_descriptor import Value
from padc.passes.buffers_to_llvm.kernel_key import KernelKey
from padc.passes.buffers_to_llvm.kernels import Kernel, Outline
from padc.passes.buffers_to_llvm.llvm_builder import LlvmBuilder, Size
from padc.passes.buffers_to_llvm.loop_nests import LoopNest
from padc.passes.buffers_to_llvm.looped_ops import Move
from padc.passes.buffers_to_llvm.loops import Loop, coefficients, merged, ordered
from padc.passes.buffers_to_llvm.op_loops import loops_of, work_of
from padc.passes.buffers_to_llvm.products.accumulation import (
    RESULT_OPERAND,
    START_OPERAND,
    Accumulation,
    Epilogue,
)
from padc.passes.buffers_to_llvm.products.kernel_choice import (
    Product,
    emit_product,
    product_of,
    takes_start,
)
from padc.passes.buffers_to_llvm.vectors import Vectors
from padc.passes.buffers_to_llvm.work_sharing import threads_for


@dataclass(frozen=True)
class Start:
    """An op that copies what sums start from."""

    move: Move
    operand: int
    """The number of the operand that it copies."""

    @property
    def value(self) -> Value:
        return self.move.values[self.move.op.operands[self.operand]]


@dataclass(frozen=True)
class FusedProduct:
    """Sums of products, and the ops before and after them."""

    op: LinalgStructuredOperation
    values: Mapping[SSAValue, Value]
    start: Start | None = None
    end: Move | None = None

    def kernel(self, main: LlvmBuilder, vector_bytes: int) -> Kernel | None:
        """One kernel for all of the ops; None if that is not possible."""
        loops, firsts = self.loops(main)
        if self.product(loops, vector_bytes) is None:
            return None
        source = self.start and self.start.value
        of = KernelKey()
        check = None if main.check is None else main.check.of(self.op)
        threads = threads_for(main, work_of(self.op, loops, main))
        key = (
            of.op(self.op, self.values),
            of.loops(loops),
            of.sizes(firsts),
            key_around(of, check, self.start, self.end),
        )

        def make() -> Outline:
            kernel = Outline(main, check, threads)
            inner = [kernel.loop(loop) for loop in loops]
            product = self.product(inner, vector_bytes)
            assert product is not None
            operands = [kernel.buffer(self.values[x]) for x in self.op.operands]
            first = None if source is None else kernel.value(source)
            assert not isinstance(first, int)
            end = None if self.end is None else epilogue(self.end, kernel)
            vectors = Vectors(kernel.build, product.type, product.lanes)
            into = Accumulation(vectors, operands[RESULT_OPERAND], first, end)
            emit_product(product, operands, into, kernel.sizes(firsts))
            return kernel

        return Kernel(key, of.values, make, threads)

    def is_empty(self, main: LlvmBuilder) -> bool:
        """
        Whether there are no products: the result stays as it is.

        Kernels take no such op, as steps of 0 say nothing about its loops.
        """
        loops, _ = self.loops(main)
        return any(loop.count == 0 for loop in loops)

    def is_possible(self, main: LlvmBuilder, vector_bytes: int) -> bool:
        loops, _ = self.loops(main)
        return self.product(loops, vector_bytes) is not None

    def product(self, loops: Sequence[Loop], vector_bytes: int) -> Product | None:
        """The product of these loops; None if it cannot take the start."""
        product = product_of(self.op, loops, vector_bytes)
        if product is None or self.start is None or takes_start(product):
            return product
        return None

    def loops(self, main: LlvmBuilder) -> tuple[list[Loop], list[Size]]:
        """The loops of the product, with steps in the operands of all ops."""
        operands = [self.values[x] for x in self.op.operands]
        loops, firsts = loops_of(self.op, operands, main)
        (_, _, result) = self.op.get_indexing_maps().data
        exprs = result.data.results

        def steps(number: int) -> list[Size]:
            """The steps of a loop in the operands of the other ops."""
            factors = [coefficients(expr, len(loops))[number] for expr in exprs]
            start, end = self.start, self.end

            def moved(move: Move, operand: int) -> Size:
                total: Size = 0
                for factor, loop in zip(factors, move.loops, strict=True):
                    total = main.add(total, main.mul(factor, loop.steps[operand]))
                return total

            found = [moved(start.move, start.operand) if start else 0]
            if end is not None:
                found += [moved(end, i) for i in range(len(end.op.operands))]
            return found

        extended = [
            replace(loop, steps=(*loop.steps, *steps(number)))
            for number, loop in enumerate(loops)
        ]
        start = self.start
        place = start.move.firsts[start.operand] if start else 0
        firsts = [*firsts, place, *(self.end.firsts if self.end else ())]
        return merged(main, [loop for loop in extended if loop.count != 1]), firsts


def key_around(
    of: KernelKey, check: AccessCheck | None, start: Start | None, end: Move | None
) -> Hashable:
    """What kernels of an op with `check` share if the ops before and after it do."""
    return (
        start is None or of.value(start.value),
        end and of.op(end.op, end.values),
        of.check(check),
        of.check(check and end and check.of(end.op)),
    )


def is_on_result(
    move: Move, op: LinalgStructuredOperation | tcp.WinogradConvOp
) -> bool:
    """Whether `move` writes the result of `op`, and reads no other part of it."""
    return move.op.outputs[0] is op.outputs[0] and len(move.own) == 1


def start_of(
    move: Move, op: LinalgStructuredOperation | tcp.WinogradConvOp
) -> Start | None:
    """`move` as the start of the sums of `op`; None if it is not one."""
    if not is_on_result(move, op):
        return None
    block = move.op.body.block
    match list(block.ops):
        case [linalg.YieldOp() as end]:
            (copied,) = end.operands
            inputs = range(len(move.op.inputs))
            copies = [i for i in inputs if block.args[i] is copied]
            return Start(move, copies[0]) if copies else None
        case _:
            return None


def epilogue(move: Move, kernel: Outline) -> Epilogue:
    """A function that runs `move` on a tile."""
    values = {x: kernel.value(value) for x, value in move.values.items()}
    body = Body(move.op, kernel, [values[x] for x in move.op.operands], values, 1)
    nest = LoopNest(body)

    def run(loops: Sequence[Loop], offsets: Sequence[Size]) -> None:
        build, own = kernel.build, slice(START_OPERAND + 1, None)
        check = build.check
        tile = [replace(loop, steps=loop.steps[own]) for loop in loops]
        nest.nest(ordered(merged(build, tile), 1), offsets[own], {})
        build.check = check

    return run
