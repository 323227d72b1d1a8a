"""
Sums of products over several loops (convolutions), in tiles that stay in registers.

One loop runs along contiguous elements of the result and of one input, the streamed
one; it is vectorized. Another loop, which does not move in the streamed input, is
unrolled: each loaded vector is multiplied by several elements of the other input. The
sums of a tile stay in registers for a few hundred products at a time, which also bounds
the rounding error.

Depthwise convolutions have no such loop. There, rows of the result are unrolled, whose
windows overlap: a loaded vector is multiplied once for each row that it is in.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from xdsl.dialects import llvm
from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import SSAValue

from padc.ir.arithmetic import ceil_div
from padc.passes.buffers_to_llvm.buffer_descriptor import BufferDescriptor
from padc.passes.buffers_to_llvm.llvm_builder import LlvmBuilder, Size
from padc.passes.buffers_to_llvm.loops import Loop, nested
from padc.passes.buffers_to_llvm.products.accumulation import (
    RESULT_OPERAND,
    START_OPERAND,
    ProductKernel,
)
from padc.passes.buffers_to_llvm.sums.partial_sums import (
    PRODUCTS,
    steps_of,
    sum_in_parts,
)
from padc.passes.buffers_to_llvm.vectors import Mask
from padc.passes.buffers_to_llvm.work_sharing import share, split_loop
from padc.passes.common.kernel_tiles import register_count

MOST_TAPS = 8
"""The longest windows whose overlap is used, and the most rows."""


@dataclass(frozen=True)
class Contraction:
    """A linalg op that sums products: the roles of its inputs and loops."""

    streamed: int
    """The number of the input that is loaded in vectors."""
    repeated: int
    """The number of the input whose elements are broadcast to vectors."""
    along: Loop
    """The loop along the vectors."""
    rows: Loop | None
    """The unrolled loop, which moves in the streamed input only if `taps` is set."""
    outer: Sequence[Loop]
    sums: Sequence[Loop]
    type: AnyFloat
    lanes: int
    taps: Window | None = None
    """The elements of a window along `rows`, if they overlap."""

    @property
    def tile_sums(self) -> int:
        """The most vectors of sums of a tile."""
        if self.taps is None:
            return most_sums(self.lanes, self.type)
        return overlapping_sums(self.taps, self.lanes, self.type)


@dataclass(frozen=True)
class Window:
    """A loop of a sum along neighbors in the streamed input, as rows are."""

    loop: Loop
    count: int
    """The steps of the loop."""
    stride: int
    """The steps from a row to the next one."""

    def row_of(self, place: int, tap: int) -> int | None:
        """The row that is `tap` steps before `place`, or None."""
        steps = place - tap
        return steps // self.stride if steps % self.stride == 0 else None


def contraction_of(
    loops: Sequence[Loop], type: AnyFloat, lanes: int
) -> Contraction | None:
    """The contraction of these loops; None if it cannot be computed in tiles."""
    sums = [loop for loop in loops if loop.reduces]
    for along in reversed([loop for loop in loops if not loop.reduces]):
        is_short = isinstance(along.count, int) and along.count < lanes // 4
        if along.steps[2] != 1 or is_short or not sums:
            continue
        for streamed in (0, 1):
            repeated = 1 - streamed
            if along.steps[streamed] in (1, 2) and along.steps[repeated] == 0:
                outer = [x for x in loops if not x.reduces and x is not along]
                rows = [
                    x
                    for x in outer
                    if x.steps[streamed] == 0 and isinstance(x.count, int)
                ]
                most = most_sums(lanes, type)
                row = max(rows, key=lambda x: tile_rows(x, most), default=None)
                taps: Window | None = None
                if row is None and (found := overlapping(outer, sums, streamed)):
                    row, taps = found
                    sums = [x for x in sums if x is not taps.loop]
                rest = [x for x in outer if x is not row]
                return Contraction(
                    streamed, repeated, along, row, rest, sums, type, lanes, taps
                )
    return None


def overlapping(
    outer: Sequence[Loop], sums: Sequence[Loop], streamed: int
) -> tuple[Loop, Window] | None:
    """Rows whose windows overlap, and the loop along a window."""
    total = steps_of(sums)
    if total is None or total > PRODUCTS or len(sums) < 2:
        return None
    for row, taps in itertools.product(outer, sums):
        far, near = row.steps[streamed], taps.steps[streamed]
        if isinstance(far, int) and isinstance(near, int) and near > 0:
            stride, rest = divmod(far, near)
            is_known = isinstance(row.count, int) and isinstance(taps.count, int)
            if is_known and not rest and row.steps[1 - streamed] == 0:
                count = known(taps)
                if 1 <= stride < count <= MOST_TAPS:
                    return row, Window(taps, count, stride)
    return None


def known(loop: Loop) -> int:
    """The number of steps of a loop, which is known."""
    assert isinstance(loop.count, int)
    return loop.count


def overlapping_sums(taps: Window, lanes: int, type: AnyFloat) -> int:
    """The most vectors of a tile, if registers hold the elements of a window too."""
    return max(register_count(lanes * type.size) - taps.count - 4, 1)


def most_sums(lanes: int, type: AnyFloat) -> int:
    """The most vectors of a tile: a quarter of the registers holds loaded values."""
    return register_count(lanes * type.size) * 3 // 4


def tile_rows(loop: Loop, sums: int) -> int:
    """
    The rows of a tile of up to `sums` sums; they divide the loop.

    They are at most a third of the sums, so that a tile has three vectors of columns.
    """
    return largest_divisor(known(loop), sums // 3)


def largest_divisor(count: int, most: int) -> int:
    """The largest divisor of `count` up to `most`."""
    return max((n for n in range(1, most + 1) if count and count % n == 0), default=1)


@dataclass(frozen=True)
class Tile:
    """Part of the result: `rows` rows of `vectors` vectors, the last masked."""

    rows: int
    vectors: int
    left: Size | None
    """The number of elements left in each row; None if the vectors are full."""

    def elements(self, build: LlvmBuilder, lanes: int) -> Size:
        """The number of elements in each row."""
        most = self.vectors * lanes
        return most if self.left is None else build.minimum(self.left, most)


class ContractionKernel(ProductKernel[Contraction]):
    """Emits the loops of a contraction."""

    def run(self, offsets: Sequence[Size]) -> None:
        op = self.op
        counts = [loop.count for loop in op.outer] + [self.tiles()]
        if op.rows is not None:
            counts.append(self.build.floordiv(op.rows.count, self.tile_rows()))
        share(self.build, counts)
        nested(self.build, op.outer, offsets, self.columns)

    def tile_rows(self) -> int:
        """The number of rows of a tile."""
        op = self.op
        if op.rows is None:
            return 1
        if op.taps is None:
            return tile_rows(op.rows, op.tile_sums)
        # More rows would load little less.
        return largest_divisor(known(op.rows), min(op.tile_sums, MOST_TAPS))

    def tile_vectors(self) -> int:
        """The number of vectors in a row of a tile."""
        along = self.op.along
        # A stride of 2 loads twice as many registers.
        loaded = 2 if along.steps[self.op.streamed] == 2 else 1
        sums = self.op.tile_sums
        most = min(max(sums // self.tile_rows() // loaded, 1), 4)
        if not isinstance(along.count, int):
            return min(most, 2)
        full = ceil_div(along.count, self.op.lanes)
        blocks = max(ceil_div(full, most), 1)
        return max(ceil_div(full, blocks), 1)

    def tiles(self) -> Size:
        """The number of tiles along the vectors."""
        width = self.tile_vectors() * self.op.lanes
        return self.build.floordiv(
            self.build.add(self.op.along.count, width - 1), width
        )

    def columns(self, offsets: Sequence[Size]) -> None:
        """Emit the loop along the vectors, a tile at a time."""
        build, along, lanes = self.build, self.op.along, self.op.lanes
        rows, vectors, all = self.tile_rows(), self.tile_vectors(), self.tiles()
        width = vectors * lanes
        whole = build.floordiv(along.count, width)

        def full(build: LlvmBuilder, number: Size) -> None:
            place = build.mul(number, width)
            self.rows(Tile(rows, vectors, None), along.moved(build, offsets, place))

        def cut(build: LlvmBuilder, number: Size) -> None:
            place = build.mul(number, width)
            left = build.sub(along.count, place)
            count = ceil_div(left, lanes) if isinstance(left, int) else vectors
            self.rows(Tile(rows, count, left), along.moved(build, offsets, place))

        if whole != 0:
            split_loop(build, all, full, end=whole)
        if not isinstance(whole, int):
            split_loop(build, all, cut, whole)
        elif whole != all:
            # Its size is known, unlike the number that a loop counts.
            split_loop(build, all, lambda build, _: cut(build, whole), whole)

    def rows(self, tile: Tile, offsets: Sequence[Size]) -> None:
        rows = self.op.rows
        if rows is None:
            return self.sums(tile, offsets)

        def inside(build: LlvmBuilder, number: Size) -> None:
            place = build.mul(number, tile.rows)
            self.sums(tile, rows.moved(build, offsets, place))

        build = self.build
        split_loop(build, build.floordiv(rows.count, tile.rows), inside)

    def sums(self, tile: Tile, offsets: Sequence[Size]) -> None:
        sum_in_parts(
            self.build,
            self.op.sums,
            offsets,
            [self.vectors.zero()] * (tile.rows * tile.vectors),
            lambda offsets, sums: self.multiply(tile, offsets, sums),
            partial(self.store, tile),
        )
        loops = [replace(self.op.along, count=tile.elements(self.build, self.op.lanes))]
        if self.op.rows is not None:
            loops.insert(0, replace(self.op.rows, count=tile.rows))
        self.into.finish(loops, offsets)

    def multiply(
        self, tile: Tile, offsets: Sequence[Size], sums: Sequence[SSAValue]
    ) -> list[SSAValue]:
        """One product for each element of a tile."""
        build, op = self.build, self.op
        if op.taps is not None:
            return self.multiply_windows(tile, op.taps, offsets, sums)
        streamed, repeated = self.operands[op.streamed], self.operands[op.repeated]
        vectors = [
            self.stream(streamed, offsets[op.streamed], tile, i)
            for i in range(tile.vectors)
        ]
        results: list[SSAValue] = []
        for row in range(tile.rows):
            step = 0 if op.rows is None else op.rows.steps[op.repeated]
            place = build.add(offsets[op.repeated], build.mul(row, step))
            factor = self.vectors.repeated(repeated, place)
            for i, vector in enumerate(vectors):
                sum = sums[row * tile.vectors + i]
                results.append(build.insert(llvm.FMAOp(vector, factor, sum)))
        return results

    def multiply_windows(
        self,
        tile: Tile,
        taps: Window,
        offsets: Sequence[Size],
        sums: Sequence[SSAValue],
    ) -> list[SSAValue]:
        """The products along `taps` for each element of a tile."""
        build, op, results = self.build, self.op, list(sums)
        streamed, repeated = self.operands[op.streamed], self.operands[op.repeated]
        factors: list[SSAValue] = []
        for tap in range(taps.count):
            at = taps.loop.moved(build, offsets, tap)[op.repeated]
            factors.append(self.vectors.repeated(repeated, at))
        for place in range((tile.rows - 1) * taps.stride + taps.count):
            at = taps.loop.moved(build, offsets, place)[op.streamed]
            vectors = [self.stream(streamed, at, tile, i) for i in range(tile.vectors)]
            for tap, factor in enumerate(factors):
                row = taps.row_of(place, tap)
                if row is None or not 0 <= row < tile.rows:
                    continue
                for i, vector in enumerate(vectors):
                    n = row * tile.vectors + i
                    results[n] = build.insert(llvm.FMAOp(vector, factor, results[n]))
        return results

    def store(
        self,
        tile: Tile,
        offsets: Sequence[Size],
        sums: Sequence[SSAValue],
        is_first: SSAValue | bool,
    ) -> None:
        """Add sums to the result, or to what they start from."""
        op, into = self.op, self.into
        for row in range(tile.rows):
            for i in range(tile.vectors):
                column = i * op.lanes
                mask = self.mask(tile, column)
                first = None
                if into.start is not None:
                    place = self.place(offsets, START_OPERAND, row, column)
                    first = into.first(place, op.along.steps[START_OPERAND], mask)
                place = self.place(offsets, RESULT_OPERAND, row, column)
                address = self.vectors.address(into.result.pointer, place)
                sum = sums[row * tile.vectors + i]
                into.add(sum, address, mask, first, is_first)

    def place(
        self, offsets: Sequence[Size], operand: int, row: int, column: int
    ) -> Size:
        """The offset of an element of a tile."""
        build, op = self.build, self.op
        step = 0 if op.rows is None else op.rows.steps[operand]
        at = build.add(offsets[operand], build.mul(row, step))
        return build.add(at, build.mul(column, op.along.steps[operand]))

    def stream(
        self, buffer: BufferDescriptor, offset: Size, tile: Tile, number: int
    ) -> SSAValue:
        """Vector `number` of the streamed input."""
        build, lanes = self.build, self.op.lanes
        step = self.op.along.steps[self.op.streamed]
        if step == 1:
            address = self.vectors.address(
                buffer.pointer, build.add(offset, number * lanes)
            )
            mask = self.mask(tile, number * lanes)
            return self.vectors.load(buffer, address, mask)
        # Every other element of two vectors, whose last element must not be read.
        left = None if tile.left is None else build.add(tile.left, -number * lanes)
        count = lanes if left is None else build.maximum(left, 0)
        elements = build.add(build.mul(count, 2), -1)
        parts: list[SSAValue] = []
        for half in range(2):
            at = build.add(offset, (2 * number + half) * lanes)
            address = self.vectors.address(buffer.pointer, at)
            is_whole = tile.left is None and half == 0
            mask = None if is_whole else self.vectors.mask(half * lanes, elements)
            parts.append(self.vectors.load(buffer, address, mask))
        return self.vectors.shuffle(parts[0], parts[1], range(0, 2 * lanes, 2))

    def mask(self, tile: Tile, first: int) -> Mask | None:
        """The mask of the vector at `first`; None if it is full."""
        return self.vectors.mask(first, tile.left)
