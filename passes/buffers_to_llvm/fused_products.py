"""
Sums of products in one kernel with the ops around them on the same buffer.

The op before writes what the sums start from: 0, or a bias. The tiles read it where
they would read the result, which then need not be written before. The op after, an
elementwise one, runs on each tile while that is in the first cache.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from xdsl.dialects.linalg import ops as linalg
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import SSAValue

from padc.passes.buffers_to_llvm.accumulation import (
    RESULT,
    START,
    Accumulation,
    Epilogue,
)
from padc.passes.buffers_to_llvm.buffer_descriptor import Value
from padc.passes.buffers_to_llvm.kernel_key import KernelKey
from padc.passes.buffers_to_llvm.kernels import (
    Body,
    Kernel,
    Outline,
    loops_of,
    work_of,
)
from padc.passes.buffers_to_llvm.llvm_builder import LlvmBuilder, Size
from padc.passes.buffers_to_llvm.loop_fusion import Move
from padc.passes.buffers_to_llvm.loops import Loop, coefficients, merged, ordered
from padc.passes.buffers_to_llvm.products import emit_product, product_of, takes_start
from padc.passes.buffers_to_llvm.work_sharing import threads_for


@dataclass(frozen=True)
class FusedProduct:
    """Sums of products, and the ops before and after them."""

    op: LinalgStructuredOperation
    values: Mapping[SSAValue, Value]
    start: Move | None = None
    end: Move | None = None

    def kernel(self, main: LlvmBuilder, vector_bytes: int) -> Kernel | None:
        """The kernel of all; None if there is none."""
        loops, firsts = self.loops(main)
        product = product_of(self.op, loops, vector_bytes)
        if product is None or (self.start and not takes_start(product)):
            return None
        source = None if self.start is None else start_of(self.start)
        of = KernelKey()
        check = None if main.check is None else main.check.of(self.op)
        threads = threads_for(main, work_of(self.op, loops, main))
        key = (
            of.op(self.op, self.values),
            of.loops(loops),
            of.sizes(firsts),
            source is None or of.value(source),
            self.end and of.op(self.end.op, self.end.values),
            of.check(check),
            of.check(check and self.end and check.of(self.end.op)),
        )

        def make() -> Outline:
            kernel = Outline(check, threads)
            product = product_of(
                self.op, [kernel.loop(loop) for loop in loops], vector_bytes
            )
            assert product is not None
            operands = [kernel.buffer(self.values[x]) for x in self.op.operands]
            first = None if source is None else kernel.value(source)
            assert not isinstance(first, int)
            end = None if self.end is None else epilogue(self.end, kernel)
            into = Accumulation(kernel.vectors(product), operands[RESULT], first, end)
            emit_product(product, operands, into, kernel.sizes(firsts))
            return kernel

        return Kernel(key, of.values, make, threads)

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

            found = [moved(start, copied_operand(start) or 0) if start else 0]
            if end is not None:
                found += [moved(end, i) for i in range(len(end.op.operands))]
            return found

        extended = [
            replace(loop, steps=(*loop.steps, *steps(number)))
            for number, loop in enumerate(loops)
        ]
        place = self.start.firsts[copied_operand(self.start) or 0] if self.start else 0
        firsts = [*firsts, place, *(self.end.firsts if self.end else ())]
        return merged(main, [loop for loop in extended if loop.count != 1]), firsts


def starts(move: Move, op: LinalgStructuredOperation) -> bool:
    """Whether `move` writes what the sums of `op` start from."""
    return (
        copied_operand(move) is not None
        and move.op.outputs[0] is op.outputs[0]
        and len(move.own) == 1
    )


def ends(move: Move, op: LinalgStructuredOperation) -> bool:
    """Whether `move` computes on the result of `op` in its place."""
    return move.op.outputs[0] is op.outputs[0] and len(move.own) == 1


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


def start_of(move: Move) -> Value:
    """What a move copies."""
    number = copied_operand(move)
    assert number is not None
    return move.values[move.op.operands[number]]


def epilogue(move: Move, kernel: Outline) -> Epilogue:
    """What runs `move` on a tile."""
    values = {x: kernel.value(value) for x, value in move.values.items()}
    body = Body(move.op, kernel, [values[x] for x in move.op.operands], values, 1)

    def run(loops: Sequence[Loop], offsets: Sequence[Size]) -> None:
        build, own = kernel.build, slice(START + 1, None)
        check = build.check
        tile = [replace(loop, steps=loop.steps[own]) for loop in loops]
        body.nest(ordered(merged(build, tile), 1), offsets[own], {})
        build.check = check

    return run
