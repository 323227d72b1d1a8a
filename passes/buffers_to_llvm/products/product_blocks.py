"""The loops of a matrix product with many rows: in blocks, see `matrix_products`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects import llvm
from xdsl.ir import SSAValue

from padc.ir.arithmetic import ceil_div
from padc.passes.buffers_to_llvm.buffer_descriptor import BufferDescriptor, scratch
from padc.passes.buffers_to_llvm.llvm_builder import LlvmBuilder, Size, predicate
from padc.passes.buffers_to_llvm.loops import Loop, nested
from padc.passes.buffers_to_llvm.products.matrix_product_loops import (
    PRODUCTS,
    MatrixProduct,
    MatrixProductLoops,
)
from padc.passes.buffers_to_llvm.products.matrix_product_tiles import (
    Block,
    emitted,
    has_masks,
    panels_in_place,
    panels_of,
    steps,
    tile_shape,
    tiles_of,
)
from padc.passes.buffers_to_llvm.sums.partial_sums import carry_terms
from padc.passes.buffers_to_llvm.vectors import transposed
from padc.passes.buffers_to_llvm.work_sharing import product
from padc.passes.common.kernel_tiles import MOST_VECTORS

PANEL_BYTES = 48 * 1024
"""The most bytes of a packed panel: it stays close to the first cache."""
BLOCK_BYTES = 512 * 1024
"""The most bytes of the rows, and of the results, of a block: half a second cache."""
KEPT_BYTES = 1024 * 1024
"""The most bytes of rows, or of results, that stay in the second cache."""
FEW_ITEMS = 8
"""With fewer panels than this, rows are split too."""


@dataclass(frozen=True)
class Panel:
    """Some columns of the streamed input, for a block of products."""

    vectors: int
    left: Size | None
    """The number of columns; None if they fill the vectors."""
    load: Callable[[Size, int], SSAValue]
    """Loads a vector, by the number of the product and of the vector."""


@dataclass(frozen=True)
class Part:
    """A block of products."""

    depth: Size
    """Their number."""
    is_first: SSAValue | bool


class Blocks:
    """The loops of a matrix product with many rows."""

    def __init__(self, kernel: MatrixProductLoops):
        self.kernel = kernel
        self.build, self.op = kernel.build, kernel.op
        self.vectors = kernel.vectors
        op, lanes, bytes = self.op, self.op.lanes, self.op.type.size
        rows, columns = op.rows.count, op.columns.count
        vectors = ceil_div(columns, lanes) if isinstance(columns, int) else columns
        height, width = tile_shape(rows, vectors, op.registers)
        self.rows = emitted(self.build, tiles_of, rows, height)
        is_streamed = op.columns.steps[op.streamed] == 1
        is_short = isinstance(rows, int) and rows <= 2 * height
        is_panel = (
            op.sum.steps[op.streamed] == columns
            and isinstance(vectors, int)
            and vectors <= MOST_VECTORS
        )
        is_packed = not (is_streamed and (is_short or is_panel))
        one_size = is_packed and has_masks(lanes * bytes)
        tiles = panels_of if one_size else panels_in_place
        self.panels = emitted(self.build, tiles, columns, lanes, width)
        self.depth = block_depth(op, width)
        most = max(BLOCK_BYTES // (self.depth * bytes) // height, 1)
        self.row_tiles = most
        """The most tiles of rows in a block."""
        count = most * height
        if isinstance(rows, int):
            count = min(count, rows)
        row_bytes = max(count, 1) * width * lanes * bytes
        self.column_tiles = max(BLOCK_BYTES // row_bytes, 1)
        self.counts = [*(loop.count for loop in op.outer), steps(self.panels)]
        """The steps of the loops that may be split."""
        if product(self.build, self.counts) in range(FEW_ITEMS):
            # More parts than panels: each thread packs the panels for its rows.
            self.counts.append(steps(self.rows))
        self.packed: BufferDescriptor | None = None
        if is_packed:
            self.packed = scratch(self.build, self.depth * width * lanes, op.type)

    def run(self, offsets: Sequence[Size]) -> None:
        """Emit all loops, those around the columns first, unless these are inside."""
        kernel, outer = self.kernel, self.op.outer
        if self.has_large_rows():
            kernel.blocks(
                self.rows,
                self.row_tiles,
                lambda rows: self.products(offsets, rows, None, outer),
            )
        else:
            nested(self.build, outer, offsets, self.of_columns)

    def has_large_rows(self) -> bool:
        """
        Whether the outer loops are only over columns, and run inside of the others.

        A block of products of all rows then stays in the second cache for all columns,
        which matters if all products of the rows do not, but the results do.
        """
        op = self.op
        sizes = [op.rows.count, op.sum.count, op.columns.count]
        columns = [*(loop.count for loop in op.outer), op.columns.count]
        if (
            self.packed is not None
            or not op.outer
            or any(loop.steps[op.repeated] != 0 for loop in op.outer)
            or not all(isinstance(size, int) for size in (*sizes, *columns))
        ):
            return False
        block = self.build.mul(self.row_tiles, self.rows[0].size)
        rows = self.build.minimum(op.rows.count, block)
        of_row = self.build.mul(rows, op.type.size)
        inputs = self.build.mul(of_row, op.sum.count)
        results = self.build.mul(of_row, product(self.build, columns))
        assert isinstance(inputs, int) and isinstance(results, int)
        return inputs > KEPT_BYTES >= results

    def of_columns(self, offsets: Sequence[Size]) -> None:
        """Emit the loops over blocks of rows, of columns, and of products."""
        kernel = self.kernel

        def row_block(rows: Block | None) -> None:
            kernel.blocks(
                self.panels,
                self.column_tiles,
                lambda columns: self.products(offsets, rows, columns, []),
            )

        kernel.blocks(self.rows, self.row_tiles, row_block)

    def products(
        self,
        offsets: Sequence[Size],
        rows: Block | None,
        columns: Block | None,
        outer: Sequence[Loop],
    ) -> None:
        """Emit the loop over blocks of products, and the `outer` loops inside."""
        loop = self.op.sum

        def of_part(offsets: Sequence[Size], part: Part) -> None:
            nested(
                self.build,
                outer,
                offsets,
                lambda inner: self.columns(inner, part, rows, columns),
            )

        if isinstance(loop.count, int) and loop.count <= self.depth:
            return of_part(offsets, Part(loop.count, True))

        def block(build: LlvmBuilder, place: SSAValue) -> None:
            depth = loop.steps_of_block(build, place, self.depth)
            zero = build.value(0)
            is_first = build.insert(llvm.ICmpOp(place, zero, predicate("eq")))
            moved = loop.moved(build, offsets, place)
            of_part(moved, Part(depth, is_first))

        self.build.loop(0, loop.count, self.depth, block)
        if self.kernel.into.epilogue is not None:
            nested(
                self.build,
                outer,
                offsets,
                lambda inner: self.finish(inner, rows, columns),
            )

    def finish(
        self, offsets: Sequence[Size], rows: Block | None, columns: Block | None
    ) -> None:
        """Run what follows on the tiles of a block, whose sums are complete."""
        op, kernel = self.op, self.kernel

        # In the order of `columns`, whose loops may be split.
        def panel(offsets: Sequence[Size], width: int, left: Size | None) -> None:
            def tile(offsets: Sequence[Size], height: int, _: Size | None) -> None:
                kernel.finish(offsets, height, width, left)

            kernel.over(self.rows, rows, op.rows, offsets, tile)

        kernel.over(self.panels, columns, op.columns, offsets, panel)

    def columns(
        self,
        offsets: Sequence[Size],
        part: Part,
        rows: Block | None,
        columns: Block | None,
    ) -> None:
        """Emit the loops over the panels and the tiles of a block."""
        op = self.op

        def panel(offsets: Sequence[Size], width: int, left: Size | None) -> None:
            panel = self.panel(offsets, part.depth, width // op.lanes, left)

            def tile(offsets: Sequence[Size], height: int, _: Size | None) -> None:
                self.tile(offsets, part, height, panel)

            self.kernel.over(self.rows, rows, op.rows, offsets, tile)

        self.kernel.over(self.panels, columns, op.columns, offsets, panel)

    def panel(
        self, offsets: Sequence[Size], depth: Size, vectors: int, left: Size | None
    ) -> Panel:
        """The panel at `offsets`, packed if it is used often enough."""
        op, build, lanes = self.op, self.build, self.op.lanes
        source = self.kernel.streamed
        along, down = op.columns.steps[op.streamed], op.sum.steps[op.streamed]

        def address(place: Size, column: Size) -> SSAValue:
            at = build.add(offsets[op.streamed], build.mul(place, down))
            at = build.add(at, build.mul(column, along))
            return self.vectors.address(source.pointer, at)

        def inner(column: Size) -> Size:
            """`column`, or the last one if it is beyond that."""
            return column if left is None else build.minimum(column, build.sub(left, 1))

        def read(place: Size, number: int) -> SSAValue:
            mask = self.vectors.mask(number * lanes, left)
            at = address(place, number * lanes)
            return self.vectors.load(source, at, mask)

        if self.packed is None:
            return Panel(vectors, left, read)
        packed = self.packed

        def place_of(place: Size, column: Size) -> SSAValue:
            at = build.add(build.mul(place, vectors * lanes), column)
            return self.vectors.address(packed.pointer, at)

        def copy(_: LlvmBuilder, place: Size) -> None:
            for number in range(vectors):
                to = place_of(place, number * lanes)
                self.vectors.store(read(place, number), packed, to)

        def turn(_: LlvmBuilder, place: Size) -> None:
            """Transpose `lanes` products of each vector."""
            is_whole = isinstance(depth, int) and depth % lanes == 0
            mask = None if is_whole else self.vectors.mask(0, build.sub(depth, place))

            def vector(_: LlvmBuilder, first: Size) -> None:
                places = [inner(build.add(first, i)) for i in range(lanes)]
                columns = [
                    self.vectors.load(source, address(place, column), mask)
                    for column in places
                ]
                for i, row in enumerate(transposed(build, columns)):
                    to = place_of(build.add(place, i), first)
                    self.vectors.store(row, packed, to)

            build.loop(0, vectors * lanes, lanes, vector)

        def pick(_: LlvmBuilder, place: Size) -> None:
            """Copy one product of each column, element by element."""

            def one(_: LlvmBuilder, column: Size) -> None:
                x = source.load(build, address(place, inner(column)))
                packed.store(build, x, place_of(place, column))

            build.loop(0, vectors * lanes, 1, one)

        if along == 1:
            build.loop(0, depth, 1, copy)
        elif down == 1:
            build.loop(0, depth, lanes, turn)
        else:
            build.loop(0, depth, 1, pick)

        def load(place: Size, number: int) -> SSAValue:
            at = place_of(place, number * lanes)
            return self.vectors.load(packed, at)

        return Panel(vectors, left, load)

    def tile(
        self, offsets: Sequence[Size], part: Part, height: int, panel: Panel
    ) -> None:
        """Add the sums of a block of products to a tile of the result."""
        build, op = self.build, self.op
        step = op.rows.steps[op.repeated]

        def product(place: Size, sums: Sequence[SSAValue]) -> list[SSAValue]:
            vectors = [panel.load(place, i) for i in range(panel.vectors)]
            first = build.mul(place, op.sum.steps[op.repeated])
            first = build.add(offsets[op.repeated], first)
            results: list[SSAValue] = []
            old = iter(sums)
            for row in range(height):
                at = build.add(first, build.mul(row, step))
                factor = self.vectors.repeated(self.kernel.repeated, at)
                results += [
                    build.insert(llvm.FMAOp(vector, factor, next(old)))
                    for vector in vectors
                ]
            return results

        columns = range(0, panel.vectors * op.lanes, op.lanes)
        masks = [self.vectors.mask(column, panel.left) for column in columns]
        places = [(row, column) for row in range(height) for column in columns]
        addresses = [self.kernel.address(offsets, *place) for place in places]
        for address in addresses:
            self.build.prefetch(address)
        zeros = [self.vectors.zero()] * len(places)
        sums = carry_terms(build, part.depth, zeros, product)
        starts: dict[tuple[int, int], SSAValue | None] = {}
        for i, (row, column) in enumerate(places):
            mask = masks[i % panel.vectors]
            key = self.kernel.start_key(row, column)
            if key not in starts:
                starts[key] = self.kernel.started(offsets, row, column, mask)
            old = starts[key]
            self.kernel.into.add(sums[i], addresses[i], mask, old, part.is_first)
        if part.is_first is True:
            width = panel.vectors * op.lanes
            self.kernel.finish(offsets, height, width, panel.left)


def block_depth(op: MatrixProduct, width: int) -> int:
    """The most products of a block, for panels of `width` vectors."""
    lanes = op.lanes
    bytes = width * lanes * op.type.size
    most = min(max(PANEL_BYTES // bytes // lanes, 1) * lanes, PRODUCTS)
    if not isinstance(op.sum.count, int):
        return most
    number = max(ceil_div(op.sum.count, most), 1)
    return max(ceil_div(ceil_div(op.sum.count, number), lanes), 1) * lanes
