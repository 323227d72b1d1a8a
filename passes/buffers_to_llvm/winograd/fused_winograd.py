"""Winograd's convolutions in one kernel with the ops around them on the same buffer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from padc.ir import tcp
from padc.ir.arithmetic import ceil_div
from padc.passes.buffers_to_llvm.buffer_descriptor import BufferDescriptor, Value
from padc.passes.buffers_to_llvm.kernel_key import KernelKey
from padc.passes.buffers_to_llvm.kernels import Kernel, Outline
from padc.passes.buffers_to_llvm.llvm_builder import LlvmBuilder, Size
from padc.passes.buffers_to_llvm.loops import Loop
from padc.passes.buffers_to_llvm.moves import Move
from padc.passes.buffers_to_llvm.products.accumulation import (
    RESULT_OPERAND,
    Accumulation,
)
from padc.passes.buffers_to_llvm.products.fused_products import (
    Start,
    epilogue,
    key_around,
)
from padc.passes.buffers_to_llvm.vectors import Vectors
from padc.passes.buffers_to_llvm.winograd.kernel import (
    WinogradConvolution,
    WinogradKernel,
    static,
)
from padc.passes.buffers_to_llvm.work_sharing import product, threads_for


@dataclass(frozen=True)
class FusedWinograd:
    """A Winograd convolution, and the ops before and after it: see `FusedProduct`."""

    op: tcp.WinogradConvOp
    values: Mapping[SSAValue, Value]
    start: Start | None = None
    end: Move | None = None

    @property
    def operands(self) -> list[BufferDescriptor]:
        found = [self.values[x] for x in self.op.operands]
        buffers = [x for x in found if isinstance(x, BufferDescriptor)]
        assert len(buffers) == len(found)
        return buffers

    def takes_start(self) -> bool:
        """Whether the initial values of a vector are contiguous, or all the same."""
        start = self.start
        return start is None or start.move.loops[-1].steps[start.operand] in (0, 1)

    def kernel(self, main: LlvmBuilder, vector_bytes: int) -> Kernel:
        """One kernel for all of the ops."""
        loops, firsts = self.loops()
        source = self.start and self.start.value
        of = KernelKey()
        check = None if main.check is None else main.check.of(self.op)
        operands = self.operands
        threads = threads_for(main, self.work(main))
        tile, block = self.op.tile.value.data, self.op.block.value.data
        key = (
            self.op.name,
            (tile, block),
            tuple(map(of.value, operands)),
            of.loops(loops),
            of.sizes(firsts),
            key_around(of, check, self.start, self.end),
        )

        def make() -> Outline:
            kernel = Outline(main, check, threads)
            inner = [kernel.loop(loop) for loop in loops]
            convolution = WinogradConvolution(tile, block, inner, vector_bytes)
            buffers = [kernel.buffer(x) for x in operands]
            first = None if source is None else kernel.value(source)
            assert not isinstance(first, int)
            end = None if self.end is None else epilogue(self.end, kernel)
            vectors = Vectors(kernel.build, f32, static(inner[-1].count))
            into = Accumulation(vectors, buffers[RESULT_OPERAND], first, end)
            WinogradKernel(convolution, buffers, into).run(kernel.sizes(firsts))
            return kernel

        return Kernel(key, of.values, make, threads)

    def work(self, main: LlvmBuilder) -> Size:
        """The number of products."""
        _, filters, result = self.operands
        batch, _, rows, columns, _ = map(static, result.sizes)
        tile = self.op.tile.value.data
        tiles = batch * ceil_div(rows, tile) * ceil_div(columns, tile)
        return product(main, [tiles, *filters.sizes])

    def loops(self) -> tuple[list[Loop], list[Size]]:
        """The loops through the result, with steps in the operands of all ops."""
        x, _, result = self.operands
        start, end = self.start, self.end
        batch, _, rows, columns, _ = x.strides
        loops = [
            Loop(
                (dim,),
                result.sizes[dim],
                (
                    step,
                    0,
                    result.strides[dim],
                    start.move.loops[dim].steps[start.operand] if start else 0,
                    *(end.loops[dim].steps if end else ()),
                ),
                False,
            )
            for dim, step in enumerate((batch, 0, rows, columns, 0))
        ]
        place = start.move.firsts[start.operand] if start else 0
        return loops, [0, 0, 0, place, *(end.firsts if end else ())]
