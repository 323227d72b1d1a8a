"""
Matrix products, in blocks that stay in caches and tiles that stay in registers.

A result tile of a few rows and a few vectors of columns is summed in registers. The
columns of the streamed input that a tile takes are a panel, packed for a block of the
products: contiguous, so that it stays in the first cache while all rows use it. Source:
K. Goto and R. van de Geijn, "Anatomy of high-performance matrix multiplication" (ACM
Transactions on Mathematical Software 34, 2008).

    for each block of rows
      for each block of columns
        for each block of products
          for each panel of columns
            pack the block of the panel
            for each tile of rows
              add the sums of the block to the tile

A streamed input that is one panel already (see `pack_weights`) is read in place. If
there are few rows, packing costs more than it saves: a streamed input with contiguous
rows is then read in place, too; one with contiguous columns is multiplied along them,
as dot products.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from xdsl.dialects import llvm
from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import SSAValue

from padc.passes.buffers_to_llvm.accumulation import (
    RESULT_OPERAND,
    START_OPERAND,
    Accumulation,
    ProductKernel,
)
from padc.passes.buffers_to_llvm.buffer_descriptor import (
    BufferDescriptor,
    bounds_of,
    contiguous,
)
from padc.passes.buffers_to_llvm.llvm_builder import LlvmBuilder, Size, predicate
from padc.passes.buffers_to_llvm.loops import Loop, nested
from padc.passes.buffers_to_llvm.partial_sums import carry_terms
from padc.passes.buffers_to_llvm.vectors import Mask
from padc.passes.buffers_to_llvm.work_sharing import product, share, split_loop
from padc.passes.common.kernel_tiles import FEW_ROWS, MOST_VECTORS, register_count

PANEL_BYTES = 48 * 1024
"""The most bytes of a packed panel: it stays close to the first cache."""
BLOCK_BYTES = 512 * 1024
"""The most bytes of the rows, and of the results, of a block: half a second cache."""
KEPT_BYTES = 1024 * 1024
"""Rows, or results, of so many bytes stay in the second cache."""
PRODUCTS = 512
"""The most products that are summed before the sum is added to the result."""
MOST_ROWS = 14
"""The most rows of a tile: as many streams of loads."""
ROW_CYCLES = 0.3
"""The cycles that a row adds to a step of a tile, as measured."""
FEW_ITEMS = 8
"""With fewer panels than this, rows are split too."""


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
    """Whether a kernel of this file is faster than plain loops."""
    is_narrow = isinstance(op.columns.count, int) and op.columns.count < op.lanes // 2
    is_streamed = op.columns.steps[op.streamed] == 1
    return op.is_dot or (
        not is_narrow and (is_streamed or expected(op.rows.count) >= op.lanes // 2)
    )


def tile_shape(rows: Size, vectors: Size, registers: int) -> tuple[int, int]:
    """
    The rows and vectors of the tiles for a result of these, by a model of their cycles.

    A CPU has two units that multiply, each with a latency of 4 cycles, and loads two
    vectors in a cycle. Vectors of a panel may come from the second cache. Each row is
    one more stream of loads, and often of the same set of the first cache: tiles of 6
    rows and 4 vectors are up to 20 % faster than those of 14 rows and 2 vectors.
    """

    def cycles(height: int, width: int) -> float:
        return max(height * width / 2, 4) + width / 4 + height * ROW_CYCLES

    def total(shape: tuple[int, int]) -> float:
        height, width = shape
        heights, widths = parts(rows, height), parts(vectors, width)
        sizes = sum(number > 0 for _, number in heights)
        # Rows of two sizes take twice the code.
        return (1 + 0.03 * sizes) * sum(
            cycles(each, other) * number * others
            for each, number in heights
            for other, others in widths
        )

    def parts(count: Size, most: int) -> list[tuple[int, float]]:
        if not isinstance(count, int):
            return [(most, 1 / most)]
        number = max(-(-count // most), 1)
        each, larger = divmod(count, number)
        return [(each + 1, larger), (each, number - larger)]

    shapes = [
        (height, width)
        for width in range(1, MOST_VECTORS + 1)
        for height in range(1, MOST_ROWS + 1)
        if height * width + width < registers
    ]
    return min(shapes, key=total)


@dataclass(frozen=True)
class Tiles:
    """Tiles of one size that follow each other, numbered from `begin` to `end`."""

    begin: Size
    end: Size
    first: Size
    """The place of the first one."""
    size: int
    is_cut: bool = False
    """Whether a tile may reach beyond the end of the loop."""


Block: TypeAlias = tuple[Size, Size]
"""The numbers of the first tile and after the last tile of a part of a loop."""


def tiles_of(build: LlvmBuilder, count: Size, most: int) -> list[Tiles]:
    """
    Tiles of up to `most` that cover a loop.

    They are as equal as possible; of a dynamic count, halves follow wholes.
    """
    if isinstance(count, int):
        number = max(-(-count // most), 1)
        each, larger = divmod(count, number)
        middle = larger * (each + 1)
        all = [Tiles(0, larger, 0, each + 1), Tiles(larger, number, middle, each)]
        return [tiles for tiles in all if tiles.begin != tiles.end and tiles.size]
    result: list[Tiles] = []
    begin, first = 0, 0
    while most:
        number = build.floordiv(build.sub(count, first), most)
        end = build.add(begin, number)
        result.append(Tiles(begin, end, first, most))
        begin, first = end, build.add(first, build.mul(number, most))
        most //= 2
    return result


def steps(all: Sequence[Tiles]) -> Size:
    """The number of tiles."""
    return all[-1].end if all else 0


def panels_of(build: LlvmBuilder, count: Size, lanes: int, most: int) -> list[Tiles]:
    """
    Tiles of `count` columns, of up to `most` vectors, for panels that are packed.

    They have one size, which takes less code, if few vectors are then empty.
    """
    if isinstance(count, int):
        vectors = -(-count // lanes)
        number = max(-(-vectors // most), 1)
        width = -(-vectors // number)
        if 32 * (number * width - vectors) > vectors:
            return panels_in_place(build, count, lanes, most)
        most = max(width, 1)
    width = most * lanes
    number = build.floordiv(build.add(count, width - 1), width)
    is_cut = not isinstance(count, int) or count % width != 0
    if isinstance(count, int) and not count:
        return []
    return [Tiles(0, number, 0, width, is_cut)]


def panels_in_place(
    build: LlvmBuilder, count: Size, lanes: int, most: int
) -> list[Tiles]:
    """
    Tiles of `count` columns, of up to `most` vectors, of which only the last is cut.

    Panels that are not packed are read through masks if they are cut. AVX2 has masks
    in registers of vectors, and NEON loads element by element.
    """
    if not isinstance(count, int):
        width = most * lanes
        number = build.floordiv(count, width)
        end = build.floordiv(build.add(count, width - 1), width)
        rest = Tiles(number, end, build.mul(number, width), width, is_cut=True)
        return [Tiles(0, number, 0, width), rest]
    vectors, rest = divmod(count, lanes)
    wholes = [
        replace(tiles, first=build.mul(tiles.first, lanes), size=tiles.size * lanes)
        for tiles in tiles_of(build, vectors, most)
    ]
    if not rest:
        return wholes
    number = steps(wholes)
    last = Tiles(number, build.add(number, 1), vectors * lanes, lanes, is_cut=True)
    return [*wholes, last]


@dataclass(frozen=True)
class Panel:
    """Some columns of the streamed input, for a block of products."""

    vectors: int
    left: Size | None
    """The number of columns; None if they fill the vectors."""
    load: Callable[[Size, int], SSAValue]
    """Loads a vector, by the number of the product and of the vector."""


class MatrixProductKernel(ProductKernel[MatrixProduct]):
    """Emits the loops of a matrix product."""

    def __init__(
        self,
        op: MatrixProduct,
        operands: Sequence[BufferDescriptor],
        into: Accumulation,
    ):
        super().__init__(op, operands, into)
        self.streamed = operands[op.streamed]
        self.repeated = operands[op.repeated]

    def run(self, offsets: Sequence[Size]) -> None:
        build, op = self.build, self.op

        def run(kind: DotProducts | Blocks) -> None:
            share(build, kind.counts)
            kind.run(offsets)

        if not op.is_dot:
            return run(Blocks(self))
        if isinstance(op.rows.count, int):
            return run((DotProducts if op.rows.count < FEW_ROWS else Blocks)(self))
        dots, blocks = DotProducts(self), Blocks(self)
        few = build.value(FEW_ROWS)
        build.either(
            build.insert(llvm.ICmpOp(op.rows.count, few, predicate("slt"))),
            lambda: run(dots),
            lambda: run(blocks),
        )

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


@dataclass(frozen=True)
class Part:
    """A block of products."""

    depth: Size
    """Their number."""
    is_first: SSAValue | bool


class Blocks:
    """The loops of a matrix product with many rows."""

    def __init__(self, kernel: MatrixProductKernel):
        self.kernel = kernel
        self.build, self.op = kernel.build, kernel.op
        self.vectors = kernel.vectors
        op, lanes, bytes = self.op, self.op.lanes, self.op.type.size
        rows, columns = op.rows.count, op.columns.count
        vectors = -(-columns // lanes) if isinstance(columns, int) else columns
        height, width = tile_shape(rows, vectors, op.registers)
        self.rows = tiles_of(self.build, rows, height)
        is_streamed = op.columns.steps[op.streamed] == 1
        is_short = isinstance(rows, int) and rows <= 2 * height
        is_panel = op.sum.steps[op.streamed] == columns
        is_packed = not (is_streamed and (is_short or is_panel))
        tiles = panels_of if is_packed else panels_in_place
        self.panels = tiles(self.build, columns, lanes, width)
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
            self.packed = scratch_of(self.build, op, self.depth * width * lanes)

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
            return self.vectors.load(at, mask, source.bounds)

        if self.packed is None:
            return Panel(vectors, left, read)
        packed = self.packed

        def place_of(place: Size, column: Size) -> SSAValue:
            at = build.add(build.mul(place, vectors * lanes), column)
            return self.vectors.address(packed.pointer, at)

        def copy(_: LlvmBuilder, place: Size) -> None:
            for number in range(vectors):
                to = place_of(place, number * lanes)
                self.vectors.store(read(place, number), to, bounds=packed.bounds)

        def turn(_: LlvmBuilder, place: Size) -> None:
            """Transpose `lanes` products of each vector."""
            is_whole = isinstance(depth, int) and depth % lanes == 0
            mask = None if is_whole else self.vectors.mask(0, build.sub(depth, place))

            def vector(_: LlvmBuilder, first: Size) -> None:
                places = [inner(build.add(first, i)) for i in range(lanes)]
                columns = [
                    self.vectors.load(address(place, column), mask, source.bounds)
                    for column in places
                ]
                for i, row in enumerate(self.vectors.transposed(columns)):
                    to = place_of(build.add(place, i), first)
                    self.vectors.store(row, to, bounds=packed.bounds)

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
            return self.vectors.load(at, bounds=packed.bounds)

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
            self.vectors.prefetch(address)
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


def scratch_of(build: LlvmBuilder, op: MatrixProduct, count: int) -> BufferDescriptor:
    """Memory for a packed panel of `count` elements."""
    memory = build.scratch(count, op.type)
    bounds = bounds_of(build, memory, op.type, [count])
    return contiguous(build, memory, op.type, [count], memory, bounds)


def block_depth(op: MatrixProduct, width: int) -> int:
    """The most products of a block, for panels of `width` vectors."""
    lanes = op.lanes
    bytes = width * lanes * op.type.size
    most = min(max(PANEL_BYTES // bytes // lanes, 1) * lanes, PRODUCTS)
    if not isinstance(op.sum.count, int):
        return most
    number = max(-(-op.sum.count // most), 1)
    return max(-(-op.sum.count // number // lanes), 1) * lanes


class DotProducts:
    """The loops of a matrix product with few rows, along the products."""

    def __init__(self, kernel: MatrixProductKernel):
        self.kernel = kernel
        self.build, self.op = kernel.build, kernel.op
        self.vectors = kernel.vectors
        rows, columns = self.op.rows.count, self.op.columns.count
        # Here each row and each column of a tile is a vector.
        self.height, self.width = tile_shape(rows, columns, self.op.registers)
        self.counts = [
            *(loop.count for loop in self.op.outer),
            steps(tiles_of(self.build, rows, self.height)),
            steps(tiles_of(self.build, columns, self.width)),
        ]
        """The steps of the loops that may be split."""

    def run(self, offsets: Sequence[Size]) -> None:
        nested(self.build, self.op.outer, offsets, self.of_outer)

    def of_outer(self, offsets: Sequence[Size]) -> None:
        rows, columns = self.op.rows, self.op.columns

        def row(offsets: Sequence[Size], height: int, _: Size | None) -> None:
            def column(offsets: Sequence[Size], width: int, _: Size | None) -> None:
                self.tile(offsets, height, width)

            each = tiles_of(self.build, columns.count, self.width)
            self.kernel.over(each, None, columns, offsets, column)

        each = tiles_of(self.build, rows.count, self.height)
        self.kernel.over(each, None, rows, offsets, row)

    def tile(self, offsets: Sequence[Size], height: int, width: int) -> None:
        """Add all products of a tile to the result."""
        build, op, lanes = self.build, self.op, self.op.lanes
        depth = op.sum.count

        def load(input: int, place: Size, step: Size, i: int) -> SSAValue:
            buffer = self.kernel.operands[input]
            at = build.add(offsets[input], build.mul(i, step))
            address = self.vectors.address(buffer.pointer, build.add(at, place))
            return self.vectors.load(address, mask, buffer.bounds)

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
