"""
The kernel of Winograd's convolutions: see `padc.ir.winograd` for the transforms.

The tiles of an image are computed in blocks. The inputs of a block are transformed into
scratch memory, where they stay in the second cache. Then, for each group of output
channels, each element of the tiles is a matrix product, of the kernel for packed
convolutions; and the products are transformed back, added to the initial values, and
followed by the epilogue, tile by tile. Blocks are what threads share.

Tiles at the end of a row or column may be partly outside of the image. They read the
last input again instead of what is outside, which changes none of the results inside.
The results outside are stored first, to the last place inside, which the right result
then overwrites.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

from xdsl.dialects import llvm
from xdsl.dialects.builtin import FloatAttr, f32
from xdsl.ir import SSAValue

from padc.ir.arithmetic import unwrapped
from padc.ir.winograd import Winograd, winograd
from padc.passes.buffers_to_llvm.buffer_descriptor import BufferDescriptor, scratch
from padc.passes.buffers_to_llvm.llvm_builder import LlvmBuilder, Size
from padc.passes.buffers_to_llvm.loops import Loop
from padc.passes.buffers_to_llvm.products.accumulation import (
    RESULT_OPERAND,
    START_OPERAND,
    Accumulation,
)
from padc.passes.buffers_to_llvm.products.packed_convolutions import (
    PackedConvolution,
    PackedConvolutionKernel,
)
from padc.passes.buffers_to_llvm.vectors import Vectors
from padc.passes.buffers_to_llvm.winograd.tiles import Tiles
from padc.passes.buffers_to_llvm.work_sharing import share, split_loop
from padc.passes.common.kernel_tiles import WINOGRAD_VECTORS, register_count

INPUT, FILTERS = range(2)


def constant(vectors: Vectors, value: Fraction) -> SSAValue:
    """The vector of a number."""
    build, type = vectors.build, vectors.type

    def make() -> SSAValue:
        number = llvm.ConstantOp(FloatAttr(float(value), type), type)
        return vectors.repeat(build.insert(number))

    return build.known(("constant", value, vectors.vector), make)


def weighted(
    vectors: Vectors, factors: Sequence[Fraction], xs: Sequence[SSAValue]
) -> SSAValue:
    """The sum of vectors times factors, some of which are not 0."""
    build = vectors.build
    terms = [(factor, x) for factor, x in zip(factors, xs, strict=True) if factor]
    # Starting with a factor of 1 saves a product.
    terms.sort(key=lambda term: term[0] != 1)
    (factor, total), *rest = terms
    if factor != 1:
        total = build.insert(llvm.FMulOp(total, constant(vectors, factor)))
    for factor, x in rest:
        if factor == 1:
            total = build.insert(llvm.FAddOp(total, x))
        elif factor == -1:
            total = build.insert(llvm.FSubOp(total, x))
        else:
            product = constant(vectors, factor)
            total = build.insert(llvm.FMAOp(x, product, total))
    return total


def input_transformed(
    vectors: Vectors, transforms: Winograd, xs: Sequence[SSAValue]
) -> list[SSAValue]:
    """
    B^T times a column of vectors.

    The rows of opposite points are the sum and the difference of the same two vectors.
    """
    matrix = transforms.input
    results = {
        row: weighted(vectors, matrix[row], xs)
        for row in range(transforms.inputs)
        if not any(row in pair for pair in transforms.pairs)
    }
    for a, b in transforms.pairs:
        even = [(x + y) / 2 for x, y in zip(matrix[a], matrix[b], strict=True)]
        odd = [(x - y) / 2 for x, y in zip(matrix[a], matrix[b], strict=True)]
        scale = next(x for x in reversed(odd) if x)
        sum = weighted(vectors, even, xs)
        other = weighted(vectors, [x / scale for x in odd], xs)
        results[a] = weighted(vectors, [Fraction(1), scale], [sum, other])
        results[b] = weighted(vectors, [Fraction(1), -scale], [sum, other])
    return [results[row] for row in range(transforms.inputs)]


def output_transformed(
    vectors: Vectors, transforms: Winograd, xs: Sequence[SSAValue]
) -> list[SSAValue]:
    """A^T times a column of vectors, of which those of opposite points are joined."""
    xs, build = list(xs), vectors.build
    matrix = [list(row) for row in transforms.output]
    for a, b in transforms.pairs:
        x, y = xs[a], xs[b]
        xs[a] = build.insert(llvm.FAddOp(x, y))
        xs[b] = build.insert(llvm.FSubOp(x, y))
        for row in matrix:
            row[a], row[b] = (row[a] + row[b]) / 2, (row[a] - row[b]) / 2
    return [weighted(vectors, row, xs) for row in matrix]


Transform = Callable[[Sequence[SSAValue]], "list[SSAValue]"]


def on_both_sides(
    transform: Transform, columns: Sequence[Sequence[SSAValue]]
) -> list[list[SSAValue]]:
    """The columns of `M X M^T`, where `transform` multiplies a column by `M`."""
    rows = zip(*map(transform, columns), strict=True)
    return [list(column) for column in zip(*map(transform, rows), strict=True)]


@dataclass(frozen=True)
class WinogradConvolution:
    """The loops and sizes of a convolution by tiles."""

    tile: int
    block: int
    loops: Sequence[Loop]
    """The loops through the result's dimensions."""
    vector_bytes: int

    @property
    def image(self) -> Loop:
        return self.loops[0]

    @property
    def outputs(self) -> Loop:
        """The loop through the vectors of output channels."""
        return self.loops[1]

    @property
    def sides(self) -> Sequence[Loop]:
        """The loops through the rows and the columns of an image."""
        return self.loops[2:4]

    @property
    def lanes(self) -> Loop:
        return self.loops[4]


class WinogradKernel:
    """Emits a convolution by tiles."""

    def __init__(
        self,
        op: WinogradConvolution,
        operands: Sequence[BufferDescriptor],
        into: Accumulation,
    ):
        self.op = op
        self.x, self.filters, _ = operands
        self.into = into
        self.build = into.vectors.build
        self.transforms = winograd(op.tile)
        _, self.channels, *_, self.lanes = map(static, self.x.sizes)
        self.output_lanes = static(op.lanes.count)
        rows, columns = (static(loop.count) for loop in op.sides)
        self.tiles = Tiles(op.tile, rows, columns, op.block)
        count = static(op.outputs.count)
        self.group = max(i for i in range(1, WINOGRAD_VECTORS + 1) if count % i == 0)
        """The vectors of output channels that are computed together."""
        # A vector more keeps the elements of a tile apart in the first cache's sets.
        self.input_step = (self.channels * op.block + 1) * self.lanes
        """The distance of two elements of the transformed tiles."""
        self.result_step = (self.group * op.block + 1) * self.output_lanes
        self.transformed = self.scratch(self.input_step)
        self.products = self.scratch(self.result_step)

    def scratch(self, step: int) -> BufferDescriptor:
        """Memory for the elements of tiles, which are `step` apart."""
        return scratch(self.build, self.transforms.inputs**2 * step, f32)

    def run(self, offsets: Sequence[Size]) -> None:
        build, image = self.build, self.op.image
        share(build, [image.count, self.tiles.blocks])

        def of_image(build: LlvmBuilder, number: Size) -> None:
            at = image.moved(build, offsets, number)
            split_loop(build, self.tiles.blocks, partial(self.of_block, at))

        split_loop(build, image.count, of_image)

    def of_block(
        self, offsets: Sequence[Size], build: LlvmBuilder, number: Size
    ) -> None:
        """Compute a block of tiles; the image is at `offsets`."""
        first = build.mul(number, self.op.block)
        self.loop_over(
            self.channels,
            self.op.block,
            lambda channel, place: self.read(offsets, first, channel, place),
        )
        groups = static(self.op.outputs.count) // self.group

        def of_group(build: LlvmBuilder, group: Size) -> None:
            output = build.mul(group, self.group)
            self.multiply(output)
            at = self.op.outputs.moved(build, offsets, output)
            left = unwrapped(self.tiles.left(build.wrap(first)))
            self.loop_over(
                self.group,
                left,
                lambda output, place: self.write(at, first, output, place),
            )

        build.loop(0, groups, 1, of_group)

    def loop_over(
        self, outer: Size, inner: Size, body: Callable[[Size, Size], None]
    ) -> None:
        """Two nested loops."""

        def inside(build: LlvmBuilder, i: Size) -> None:
            build.loop(0, inner, 1, lambda _, j: body(i, j))

        self.build.loop(0, outer, 1, inside)

    def read(
        self, offsets: Sequence[Size], first: Size, channel: Size, place: Size
    ) -> None:
        """Transform the inputs of tile `place` of a block."""
        build, x, op, tiles = self.build, self.x, self.op, self.tiles
        vectors = replace(self.into.vectors, lanes=self.lanes)
        side = range(self.transforms.inputs)
        tile = tiles.read(build.wrap(first), build.wrap(place))
        corner = [start.value for start in tiles.corner(tile)]
        at = build.add(offsets[INPUT], build.mul(channel, x.strides[1]))
        for loop, start in zip(op.sides, corner, strict=True):
            at = build.add(at, build.mul(start, loop.steps[INPUT]))
        rows, columns = (
            [
                build.mul(
                    unwrapped(tiles.input(build.wrap(start), step, static(loop.count))),
                    loop.steps[INPUT],
                )
                for step in side
            ]
            for loop, start in zip(op.sides, corner, strict=True)
        )
        loaded = [
            [
                vectors.load(
                    x,
                    vectors.address(x.pointer, build.add(build.add(at, row), column)),
                )
                for row in rows
            ]
            for column in columns
        ]
        transform = partial(input_transformed, vectors, self.transforms)
        to = build.mul(
            build.add(build.mul(channel, op.block), place),
            self.lanes,
        )
        for column, values in enumerate(on_both_sides(transform, loaded)):
            for row, value in enumerate(values):
                number = row * self.transforms.inputs + column
                step = build.add(to, number * self.input_step)
                address = vectors.address(self.transformed.pointer, step)
                vectors.store(value, self.transformed, address)

    def multiply(self, output: Size) -> None:
        """The products of a block for the group of channels that starts at `output`."""
        build, op, filters = self.build, self.op, self.filters
        lanes, output_lanes = self.lanes, self.output_lanes
        of_element, of_output, of_channel, of_lane = (
            filters.strides[dim] for dim in (1, 2, 3, 4)
        )
        # All sums start from the same zero.
        steps = (lanes, 0, output_lanes, 0)
        pixels = Loop((), op.block, steps, False)
        steps = (0, of_output, op.block * output_lanes, 0)
        blocks = Loop((), self.group, steps, False)
        product = PackedConvolution(
            type=f32,
            channels=Loop((), output_lanes, (0, 1, 1, 0), False),
            pixels=pixels,
            blocks=blocks,
            outer=[],
            sums=[
                Loop((), self.channels, (op.block * lanes, of_channel, 0, 0), True),
                Loop((), lanes, (1, of_lane, 0, 0), True),
            ],
            registers=register_count(op.vector_bytes),
        )
        zero = build.insert(llvm.ConstantOp(FloatAttr(0.0, f32), f32))
        kernel = PackedConvolutionKernel(
            product,
            [self.transformed, filters, self.products],
            Accumulation(self.into.vectors, self.products, zero),
        )
        first = build.mul(output, of_output)

        def of_elements(build: LlvmBuilder, number: Size) -> None:
            at = [
                build.mul(number, self.input_step),
                build.add(build.mul(number, of_element), first),
                build.mul(number, self.result_step),
            ]
            kernel.split(blocks, kernel.tile.blocks, [*at, 0], kernel.pixels)

        build.loop(0, self.transforms.inputs**2, 1, of_elements)

    def write(
        self, offsets: Sequence[Size], first: Size, output: Size, place: Size
    ) -> None:
        """Transform the products of tile `place` of a block, and store the results."""
        build, op, vectors = self.build, self.op, self.into.vectors
        side = self.transforms.inputs
        at = build.mul(build.add(build.mul(output, op.block), place), self.output_lanes)
        products = [
            [self.product(at, row * side + column) for row in range(side)]
            for column in range(side)
        ]
        transform = partial(output_transformed, vectors, self.transforms)
        results = on_both_sides(transform, products)
        here = op.outputs.moved(build, offsets, output)
        tile = build.wrap(first) + build.wrap(place)
        corner = [start.value for start in self.tiles.corner(tile)]
        for loop, start in zip(op.sides, corner, strict=True):
            here = loop.moved(build, here, start)
        places = [
            (column, row, self.place(here, corner, row, column))
            for row in range(op.tile)
            for column in range(op.tile)
        ]
        sums = [
            (at, self.added(at, results[column][row])) for column, row, at in places
        ]
        for at, sum in reversed(sums):
            address = vectors.address(self.into.result.pointer, at[RESULT_OPERAND])
            vectors.store(sum, self.into.result, address)
        self.into.finish([*self.inside(corner), op.lanes], here)

    def product(self, at: Size, number: int) -> SSAValue:
        vectors = self.into.vectors
        step = self.build.add(at, number * self.result_step)
        address = vectors.address(self.products.pointer, step)
        return vectors.load(self.products, address)

    def place(
        self,
        offsets: Sequence[Size],
        corner: Sequence[Size],
        row: int,
        column: int,
    ) -> Sequence[Size]:
        """The offsets of the operands at a result of a tile."""
        build, op = self.build, self.op
        for loop, start, step in zip(op.sides, corner, (row, column), strict=True):
            count = static(loop.count)
            steps = self.tiles.result(build.wrap(start), step, count)
            offsets = loop.moved(build, offsets, unwrapped(steps))
        return offsets

    def added(self, at: Sequence[Size], x: SSAValue) -> SSAValue:
        """`x` added to the initial value at a place."""
        into, vectors = self.into, self.into.vectors
        first = into.first(at[START_OPERAND], self.op.lanes.steps[START_OPERAND], None)
        if first is None:
            address = vectors.address(into.result.pointer, at[RESULT_OPERAND])
            first = vectors.load(into.result, address)
        return self.build.insert(llvm.FAddOp(first, x))

    def inside(self, corner: Sequence[Size]) -> list[Loop]:
        """The loops through the results of a tile."""
        return [
            replace(
                loop,
                count=unwrapped(
                    self.tiles.results(self.build.wrap(start), static(loop.count))
                ),
            )
            for loop, start in zip(self.op.sides, corner, strict=True)
        ]


def static(size: Size) -> int:
    """A size that is static, as the verifier of the op demands."""
    assert isinstance(size, int)
    return size
