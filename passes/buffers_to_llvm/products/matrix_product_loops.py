"""Which linalg ops are matrix products, and loops over the tiles of their results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import SSAValue

from padc.passes.buffers_to_llvm.buffer_descriptor import BufferDescriptor
from padc.passes.buffers_to_llvm.llvm_builder import LlvmBuilder, Size
from padc.passes.buffers_to_llvm.loops import Loop
from padc.passes.buffers_to_llvm.products.accumulation import (
    RESULT_OPERAND,
    START_OPERAND,
    Accumulation,
    ProductKernel,
)
from padc.passes.buffers_to_llvm.products.matrix_product_tiles import Block, Tiles
from padc.passes.buffers_to_llvm.vectors import Mask
from padc.passes.buffers_to_llvm.work_sharing import split_loop
from padc.passes.common.kernel_tiles import register_count

PRODUCTS = 512
"""The most products that are summed before the sum is added to the result."""


@dataclass(frozen=True)
class MatrixProduct:
    """A sum of products of two inputs: the roles of its inputs and loops."""

    streamed: int
    """The number of the input that is loaded in vectors."""
    repeated: int
    """The number of the input whose elements are repeated in vectors."""
    columns: Loop
    """The loop along the vectors, contiguous in the result."""
    rows: Loop
    """The loop that does not move in the streamed input."""
    outer: Sequence[Loop]
    sum: Loop
    type: AnyFloat
    lanes: int

    @property
    def registers(self) -> int:
        """The number of vector registers."""
        return register_count(self.lanes * self.type.size)

    @property
    def is_dot(self) -> bool:
        """Whether both inputs are contiguous along the products."""
        return self.sum.steps[self.streamed] == self.sum.steps[self.repeated] == 1


def matrix_product_of(
    loops: Sequence[Loop], type: AnyFloat, lanes: int
) -> MatrixProduct | None:
    """The matrix product of a contraction's loops; None if they are not one."""
    sums = [loop for loop in loops if loop.reduces]
    if len(sums) != 1:
        return None
    free = [loop for loop in loops if not loop.reduces]
    for columns in reversed(free):
        if columns.steps[2] != 1:
            continue
        for streamed in (0, 1):
            repeated = 1 - streamed
            rows = [
                loop
                for loop in free
                if loop.steps[streamed] == 0 and loop.steps[repeated] != 0
            ]
            if columns.steps[repeated] != 0 or columns.steps[streamed] == 0 or not rows:
                continue
            row = max(rows, key=lambda loop: expected(loop.count))
            outer = [loop for loop in free if loop is not columns and loop is not row]
            found = MatrixProduct(
                streamed, repeated, columns, row, outer, sums[0], type, lanes
            )
            return found if pays(found) else None
    return None


def expected(count: Size) -> int:
    """A size, or what is assumed of a dynamic one."""
    return count if isinstance(count, int) else 64


def pays(op: MatrixProduct) -> bool:
    """Whether the kernels of matrix products are faster than plain loops."""
    is_narrow = isinstance(op.columns.count, int) and op.columns.count < op.lanes // 2
    is_streamed = op.columns.steps[op.streamed] == 1
    return op.is_dot or (
        not is_narrow and (is_streamed or expected(op.rows.count) >= op.lanes // 2)
    )


class MatrixProductLoops(ProductKernel[MatrixProduct]):
    """Loops over tiles, and places, for both ways to compute a matrix product."""

    def __init__(
        self,
        op: MatrixProduct,
        operands: Sequence[BufferDescriptor],
        into: Accumulation,
    ):
        super().__init__(op, operands, into)
        self.streamed = operands[op.streamed]
        self.repeated = operands[op.repeated]

    def over(
        self,
        all: Sequence[Tiles],
        block: Block | None,
        loop: Loop,
        offsets: Sequence[Size],
        body: Callable[[Sequence[Size], int, Size | None], None],
    ) -> None:
        """
        Emit loops over tiles, all or those of a block.

        `body` takes the offsets of a tile, its size, and how much is left if it may
        reach beyond the end of the loop.
        """

        def each(tiles: Tiles) -> None:
            def inside(build: LlvmBuilder, number: Size) -> None:
                place = build.mul(build.sub(number, tiles.begin), tiles.size)
                place = build.add(tiles.first, place)
                left = build.sub(loop.count, place) if tiles.is_cut else None
                body(loop.moved(build, offsets, place), tiles.size, left)

            begin, end = tiles.begin, tiles.end
            if block is not None:
                begin = self.build.maximum(begin, block[0])
                end = self.build.minimum(end, block[1])
            split_loop(self.build, all[-1].end, inside, begin, end)

        for tiles in all:
            each(tiles)

    def blocks(
        self, all: Sequence[Tiles], most: int, body: Callable[[Block | None], None]
    ) -> None:
        """Emit a loop over blocks of up to `most` tiles, unless one has them all."""
        if not all:
            return
        end = all[-1].end
        if isinstance(end, int) and end <= most:
            return body(None)

        def inside(build: LlvmBuilder, begin: Size) -> None:
            body((begin, build.minimum(build.add(begin, most), end)))

        self.build.loop(0, end, most, inside)

    def started(
        self, offsets: Sequence[Size], row: int, column: int, mask: Mask | None
    ) -> SSAValue | None:
        """A vector of initial values; None if the sums are added to the result."""
        if self.into.start is None:
            return None
        place = self.place(offsets, START_OPERAND, row, column)
        return self.into.first(place, self.op.columns.steps[START_OPERAND], mask)

    def start_key(self, row: int, column: int) -> tuple[int, int]:
        """Where the start of a vector is in a tile: equal keys have equal starts."""
        rows, columns = (
            self.op.rows.steps[START_OPERAND],
            self.op.columns.steps[START_OPERAND],
        )
        return row if rows != 0 else 0, column if columns != 0 else 0

    def address(self, offsets: Sequence[Size], row: int, column: int) -> SSAValue:
        """The address of an element of the result."""
        place = self.place(offsets, RESULT_OPERAND, row, column)
        return self.vectors.address(self.into.result.pointer, place)

    def place(
        self, offsets: Sequence[Size], operand: int, row: int, column: int
    ) -> Size:
        """The offset of an element of a tile."""
        build, op = self.build, self.op
        at = build.add(offsets[operand], build.mul(row, op.rows.steps[operand]))
        return build.add(at, build.mul(column, op.columns.steps[operand]))

    def finish(
        self, offsets: Sequence[Size], height: int, width: int, left: Size | None
    ) -> None:
        """Run what follows on a tile, of whose columns some may be `left`."""
        columns = width if left is None else self.build.minimum(width, left)
        self.into.finish(
            [
                replace(self.op.rows, count=height),
                replace(self.op.columns, count=columns),
            ],
            offsets,
        )
