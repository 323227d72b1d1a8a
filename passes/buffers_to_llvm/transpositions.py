"""
Copies that transpose: contiguous in one loop for the input, in another for the result.

Squares of vectors are transposed in registers, so that no element is loaded or stored
alone. A square is at most as wide as a vector of AVX2, which is fast on other CPUs,
too, and has eight rows at most, for which all CPUs have registers. Blocks of squares
have whole cache lines of the input and of the result.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import AnyFloat
from xdsl.dialects.linalg import ops as linalg
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import SSAValue

from padc.passes.buffers_to_llvm.buffer_descriptor import (
    BufferDescriptor,
    Value,
    stored_bytes,
)
from padc.passes.buffers_to_llvm.llvm_builder import LlvmBuilder, Size
from padc.passes.buffers_to_llvm.loops import Loop, nested
from padc.passes.buffers_to_llvm.vectors import MOVED_AS, Vectors, transposed
from padc.passes.buffers_to_llvm.work_sharing import share, split_loop

ROW_BYTES, ROWS = 32, 8
"""The most bytes of a row of a square, and its most rows."""
LINE_BYTES = 64
"""The length of the rows and columns of a block."""


@dataclass(frozen=True)
class Transposition:
    """A copy, its operands and loops."""

    source: BufferDescriptor
    result: BufferDescriptor
    row: Loop
    """The loop along contiguous elements of the source."""
    column: Loop
    """The loop along contiguous elements of the result."""
    outer: Sequence[Loop]
    type: AnyFloat

    @property
    def lanes(self) -> int:
        """The elements of the side of a square."""
        return min(ROW_BYTES // self.type.size, ROWS)

    @property
    def width(self) -> int:
        """The elements of the side of a block."""
        return LINE_BYTES // self.type.size

    def run(self, build: LlvmBuilder, offsets: Sequence[Size]) -> None:
        """Emit all loops; the offsets are those of the source and the result."""
        width = self.width
        whole = build.floordiv(self.row.count, width)
        all = build.floordiv(build.add(self.row.count, width - 1), width)
        share(build, [*(loop.count for loop in self.outer), all])

        def strips(offsets: Sequence[Size]) -> None:
            def strip(build: LlvmBuilder, number: Size) -> None:
                at = self.row.moved(build, offsets, build.mul(number, width))
                self.strip(build, at)

            def rest(build: LlvmBuilder, number: Size) -> None:
                first = build.mul(number, width)
                at = self.row.moved(build, offsets, first)
                left = build.sub(self.row.count, first)
                self.elements(build, at, left, 0)

            split_loop(build, all, strip, end=whole)
            split_loop(build, all, rest, whole)

        nested(build, self.outer, offsets, strips)

    def strip(self, build: LlvmBuilder, offsets: Sequence[Size]) -> None:
        """Transpose a strip of the source, whose width is that of a block."""
        places = range(0, self.width, self.lanes)

        def block(build: LlvmBuilder, number: Size) -> None:
            first = self.column.moved(build, offsets, build.mul(number, self.width))
            # One after the other, the squares of a cache line of the result.
            for row, column in itertools.product(places, places):
                at = self.column.moved(build, first, column)
                self.square(build, self.row.moved(build, at, row))

        whole = build.floordiv(self.column.count, self.width)
        build.loop(0, whole, 1, block)
        self.elements(build, offsets, self.width, build.mul(whole, self.width))

    def square(self, build: LlvmBuilder, offsets: Sequence[Size]) -> None:
        """Transpose a square."""
        vectors = Vectors(build, self.type, self.lanes)

        def address(x: BufferDescriptor, loop: Loop, i: int) -> SSAValue:
            offset = loop.moved(build, offsets, i)[0 if x is self.source else 1]
            return vectors.address(x.pointer, offset)

        rows = [
            vectors.load(self.source, address(self.source, self.column, i))
            for i in range(self.lanes)
        ]
        for i, column in enumerate(transposed(build, rows)):
            to = address(self.result, self.row, i)
            vectors.store(column, self.result, to)

    def elements(
        self, build: LlvmBuilder, offsets: Sequence[Size], width: Size, first: Size
    ) -> None:
        """Copy `width` elements of the rows of the source from `first` on."""

        def row(build: LlvmBuilder, number: Size) -> None:
            begin = self.column.moved(build, offsets, number)

            def element(build: LlvmBuilder, place: Size) -> None:
                at = self.row.moved(build, begin, place)
                addresses = [
                    build.address(x.pointer, offset, x.element_type)
                    for x, offset in zip((self.source, self.result), at, strict=True)
                ]
                x = self.source.load(build, addresses[0])
                self.result.store(build, x, addresses[1])

            build.loop(0, width, 1, element)

        build.loop(first, self.column.count, 1, row)


def transposition_of(
    op: LinalgStructuredOperation, operands: Sequence[Value], loops: Sequence[Loop]
) -> Transposition | None:
    """`op` as a transposition; None if it is another op, or too small to pay."""
    if not isinstance(op.body.block.first_op, linalg.YieldOp) or len(operands) != 2:
        return None
    source, result = operands
    (yielded,) = op.body.block.first_op.operands
    if (
        yielded is not op.body.block.args[0]
        or not isinstance(source, BufferDescriptor)
        or not isinstance(result, BufferDescriptor)
    ):
        return None
    type = MOVED_AS.get(stored_bytes(result.element_type))
    row = next((loop for loop in loops if loop.steps[0] == 1), None)
    column = next((loop for loop in loops if loop.steps[1] == 1), None)
    if type is None or row is None or column is None or row is column:
        return None
    outer = [loop for loop in loops if loop is not row and loop is not column]
    found = Transposition(source, result, row, column, outer, type)
    counts = [row.count, column.count]
    is_large = all(not isinstance(n, int) or n >= found.width for n in counts)
    return found if is_large else None
