"""The loops of a matrix product with few rows: dot products along both inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import llvm
from xdsl.ir import SSAValue

from padc.passes.buffers_to_llvm.llvm_builder import Size
from padc.passes.buffers_to_llvm.loops import nested
from padc.passes.buffers_to_llvm.products.matrix_product_loops import (
    PRODUCTS,
    MatrixProductLoops,
)
from padc.passes.buffers_to_llvm.products.matrix_product_tiles import (
    emitted,
    steps,
    tile_shape,
    tiles_of,
)


class DotProducts:
    """The loops of a matrix product with few rows, along the products."""

    def __init__(self, kernel: MatrixProductLoops):
        self.kernel = kernel
        self.build, self.op = kernel.build, kernel.op
        self.vectors = kernel.vectors
        rows, columns = self.op.rows.count, self.op.columns.count
        # Here each row and each column of a tile is a vector.
        self.height, self.width = tile_shape(rows, columns, self.op.registers)
        self.counts = [
            *(loop.count for loop in self.op.outer),
            steps(emitted(self.build, tiles_of, rows, self.height)),
            steps(emitted(self.build, tiles_of, columns, self.width)),
        ]
        """The steps of the loops that may be split."""

    def run(self, offsets: Sequence[Size]) -> None:
        nested(self.build, self.op.outer, offsets, self.of_outer)

    def of_outer(self, offsets: Sequence[Size]) -> None:
        rows, columns = self.op.rows, self.op.columns

        def row(offsets: Sequence[Size], height: int, _: Size | None) -> None:
            def column(offsets: Sequence[Size], width: int, _: Size | None) -> None:
                self.tile(offsets, height, width)

            each = emitted(self.build, tiles_of, columns.count, self.width)
            self.kernel.over(each, None, columns, offsets, column)

        each = emitted(self.build, tiles_of, rows.count, self.height)
        self.kernel.over(each, None, rows, offsets, row)

    def tile(self, offsets: Sequence[Size], height: int, width: int) -> None:
        """Add all products of a tile to the result."""
        build, op, lanes = self.build, self.op, self.op.lanes
        depth = op.sum.count

        def load(input: int, place: Size, step: Size, i: int) -> SSAValue:
            buffer = self.kernel.operands[input]
            at = build.add(offsets[input], build.mul(i, step))
            address = self.vectors.address(buffer.pointer, build.add(at, place))
            return self.vectors.load(buffer, address, mask)

        def products(place: Size, sums: Sequence[SSAValue]) -> list[SSAValue]:
            step = op.columns.steps[op.streamed]
            columns = [load(op.streamed, place, step, i) for i in range(width)]
            step, old = op.rows.steps[op.repeated], iter(sums)
            results: list[SSAValue] = []
            for i in range(height):
                row = load(op.repeated, place, step, i)
                results += [
                    build.insert(llvm.FMAOp(column, row, next(old)))
                    for column in columns
                ]
            return results

        mask = None
        zeros = [self.vectors.zero()] * (height * width)
        whole = build.floordiv(depth, lanes)
        sums = self.in_parts(
            whole, zeros, lambda i, sums: products(build.mul(i, lanes), sums)
        )
        rest = build.mul(whole, lanes)
        if rest != depth:
            mask = self.vectors.mask(0, build.sub(depth, rest))
            sums = products(rest, sums)
        one = self.vectors.mask(0, 1)
        each = iter(sums)
        for row in range(height):
            for column in range(width):
                sum = self.vectors.sum(next(each))
                address = self.kernel.address(offsets, row, column)
                old = self.kernel.started(offsets, row, column, one)
                self.kernel.into.add(sum, address, one, old, True)
        self.kernel.finish(offsets, height, width, None)

    def in_parts(
        self,
        count: Size,
        zeros: Sequence[SSAValue],
        body: Callable[[Size, Sequence[SSAValue]], list[SSAValue]],
    ) -> list[SSAValue]:
        """The sums of `count` steps of `body`: sums of the sums of `PRODUCTS` each."""
        build = self.build
        if isinstance(count, int) and count <= PRODUCTS:
            return build.carry(count, zeros, body)

        def part(number: SSAValue, totals: Sequence[SSAValue]) -> list[SSAValue]:
            first = build.mul(number, PRODUCTS)
            few = build.minimum(build.sub(count, first), PRODUCTS)
            sums = build.carry(few, zeros, lambda i, x: body(build.add(first, i), x))
            return [
                build.insert(llvm.FAddOp(total, sum))
                for total, sum in zip(totals, sums, strict=True)
            ]

        number = build.floordiv(build.add(count, PRODUCTS - 1), PRODUCTS)
        return build.carry(number, zeros, part)
