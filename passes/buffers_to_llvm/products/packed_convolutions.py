"""
Convolutions of packed tensors, in tiles that stay in registers.

A tile is some pixels of some blocks of output channels; a block fills one vector. Each
step loads a vector of weights for each block and one input element for each pixel, and
adds their products. In a depthwise convolution, the channels of a block have one input
each: a step loads a vector of these for each pixel. See `pack_layouts` for the layout.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

from xdsl.dialects import llvm
from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import SSAValue

from padc.passes.buffers_to_llvm.buffer_descriptor import BufferDescriptor
from padc.passes.buffers_to_llvm.llvm_builder import LlvmBuilder, Size
from padc.passes.buffers_to_llvm.loops import Loop, nested
from padc.passes.buffers_to_llvm.products.accumulation import (
    RESULT_OPERAND,
    START_OPERAND,
    Accumulation,
    ProductKernel,
)
from padc.passes.buffers_to_llvm.sums.partial_sums import sum_in_parts
from padc.passes.buffers_to_llvm.work_sharing import share, split_loop
from padc.passes.common.kernel_tiles import register_count

CountedInner: TypeAlias = "Callable[[int, Sequence[Size]], None]"
"""Emits some places of a loop at once, for the offsets of the operands there."""

INPUT, WEIGHTS = range(2)
KEPT_BYTES = 1 << 19
"""The most bytes of weights that stay in the second cache while the pixels vary."""


@dataclass(frozen=True)
class PackedConvolution:
    """The loops of a convolution whose output channels are packed."""

    type: AnyFloat
    channels: Loop
    """The loop through the channels of a block, which are the lanes of a vector."""
    pixels: Loop
    """The loop through the pixels of a tile."""
    blocks: Loop | None
    """The loop through blocks of output channels."""
    outer: Sequence[Loop]
    sums: Sequence[Loop]
    registers: int

    @property
    def lanes(self) -> int:
        assert isinstance(self.channels.count, int)
        return self.channels.count


@dataclass(frozen=True)
class Tile:
    pixels: int
    blocks: int


def packed_convolution_of(
    loops: Sequence[Loop], type: AnyFloat, most: int
) -> PackedConvolution | None:
    """
    The convolution of these loops; None if they are not one of packed tensors.

    `most` is the number of lanes of a register.
    """
    parallel = [loop for loop in loops if not loop.reduces]
    sums = [loop for loop in loops if loop.reduces]
    lanes = [
        loop
        for loop in parallel
        if loop.steps[:START_OPERAND] in ((0, 1, 1), (1, 1, 1))
        and loop.count in (most, most // 2)
    ]
    pixels = [loop for loop in parallel if loop.steps[WEIGHTS] == 0]
    if len(lanes) != 1 or not pixels or not sums:
        return None
    if any(loop.steps[WEIGHTS] == 1 or loop.steps[RESULT_OPERAND] for loop in sums):
        return None
    along = pixels[-1]
    blocks = [
        loop
        for loop in parallel
        if loop.steps[INPUT] == 0 and loop is not lanes[0] and loop is not along
    ]
    block = blocks[-1] if blocks else None
    taken = (lanes[0], along, block)
    outer = [loop for loop in parallel if not any(loop is x for x in taken)]
    registers = register_count(most * type.size)
    return PackedConvolution(type, lanes[0], along, block, outer, sums, registers)


def best_tile(pixels: Size, blocks: Size, registers: int) -> Tile:
    """The tile that takes the fewest cycles, by the model of `cycles`."""
    count = pixels if isinstance(pixels, int) else 1 << 10
    blocks = blocks if isinstance(blocks, int) else 1
    tiles = [
        Tile(rows, columns)
        for columns in range(1, min(blocks, 4) + 1)
        for rows in range(1, min(count, (registers - 1 - columns) // columns) + 1)
    ]
    return min(tiles, key=lambda tile: cycles(tile, count, blocks))


def cycles(tile: Tile, pixels: int, blocks: int) -> float:
    """
    The cycles of one step of all tiles, if a core adds two products a cycle.

    It also loads two values a cycle, and a product takes four cycles.
    """

    def step(rows: int, columns: int) -> float:
        if not rows or not columns:
            return 0.0
        return max(rows * columns / 2, (rows + columns) / 2, 4.0) + 0.25

    full_rows, rest_rows = divmod(pixels, tile.pixels)
    full_blocks, rest_blocks = divmod(blocks, tile.blocks)
    return full_blocks * (
        full_rows * step(tile.pixels, tile.blocks) + step(rest_rows, tile.blocks)
    ) + (full_rows * step(tile.pixels, rest_blocks) + step(rest_rows, rest_blocks))


class PackedConvolutionKernel(ProductKernel[PackedConvolution]):
    """Emits the loops of a convolution of packed tensors."""

    def __init__(
        self,
        op: PackedConvolution,
        operands: Sequence[BufferDescriptor],
        into: Accumulation,
    ):
        super().__init__(op, operands, into)
        blocks = 1 if op.blocks is None else op.blocks.count
        self.tile = best_tile(op.pixels.count, blocks, op.registers)

    def run(self, offsets: Sequence[Size]) -> None:
        op = self.op
        outer = [loop.count for loop in op.outer]
        pixels = self.steps(op.pixels, self.tile.pixels)
        if op.blocks is None:
            share(self.build, [*outer, pixels])
            return nested(
                self.build, op.outer, offsets, lambda inner: self.pixels(1, inner)
            )
        blocks = op.blocks
        of_blocks = self.steps(blocks, self.tile.blocks)
        if self.bytes_of_weights() > KEPT_BYTES:
            share(self.build, [of_blocks, *outer, pixels])
            self.split(
                blocks,
                self.tile.blocks,
                offsets,
                lambda count, inner: nested(
                    self.build, op.outer, inner, lambda x: self.pixels(count, x)
                ),
            )
        else:
            share(self.build, [*outer, of_blocks, pixels])
            nested(
                self.build,
                op.outer,
                offsets,
                lambda inner: self.split(blocks, self.tile.blocks, inner, self.pixels),
            )

    def bytes_of_weights(self) -> int:
        """The bytes of all weights; 0 if they are not known."""
        total = self.op.lanes * self.op.type.size
        for loop in (*self.op.sums, self.op.blocks):
            if loop is not None:
                total *= loop.count if isinstance(loop.count, int) else 0
        return total

    def steps(self, loop: Loop, step: int) -> Size:
        """The number of steps of `split`."""
        build = self.build
        whole = build.floordiv(loop.count, step)
        left = build.sub(loop.count, build.mul(whole, step))
        return build.add(whole, min(left, 1) if isinstance(left, int) else left)

    def split(
        self, loop: Loop, step: int, offsets: Sequence[Size], inner: CountedInner
    ) -> None:
        """Run `inner` for `step` places at once, then for those that are left."""
        build = self.build
        steps = self.steps(loop, step)
        whole = build.floordiv(loop.count, step)
        end = build.mul(whole, step)

        def several(build: LlvmBuilder, number: Size) -> None:
            inner(step, loop.moved(build, offsets, build.mul(number, step)))

        def single(build: LlvmBuilder, number: Size) -> None:
            place = build.add(end, build.sub(number, whole))
            inner(1, loop.moved(build, offsets, place))

        def rest(build: LlvmBuilder, number: Size) -> None:
            assert isinstance(loop.count, int) and isinstance(end, int)
            inner(loop.count - end, loop.moved(build, offsets, end))

        if whole != 0:
            split_loop(build, steps, several, end=whole)
        if whole != steps:
            is_known = isinstance(loop.count, int)
            split_loop(build, steps, rest if is_known else single, whole)

    def pixels(self, blocks: int, offsets: Sequence[Size]) -> None:
        def inner(pixels: int, offsets: Sequence[Size]) -> None:
            self.sums(Tile(pixels, blocks), offsets)

        self.split(self.op.pixels, self.tile.pixels, offsets, inner)

    def sums(self, tile: Tile, offsets: Sequence[Size]) -> None:
        sum_in_parts(
            self.build,
            self.op.sums,
            offsets,
            [self.vectors.zero()] * (tile.pixels * tile.blocks),
            lambda offsets, sums: self.multiply(tile, offsets, sums),
            partial(self.store, tile),
        )
        loops = [replace(self.op.pixels, count=tile.pixels), self.op.channels]
        if self.op.blocks is not None:
            loops.insert(0, replace(self.op.blocks, count=tile.blocks))
        self.into.finish(loops, offsets)

    def places(self, tile: Tile, operand: int, offset: Size) -> list[list[Size]]:
        """The offset of an operand for each pixel and each block of a tile."""
        build, op = self.build, self.op
        block_step = 0 if op.blocks is None else op.blocks.steps[operand]
        return [
            [
                build.add(
                    build.add(offset, build.mul(pixel, op.pixels.steps[operand])),
                    build.mul(block, block_step),
                )
                for block in range(tile.blocks)
            ]
            for pixel in range(tile.pixels)
        ]

    def multiply(
        self, tile: Tile, offsets: Sequence[Size], sums: Sequence[SSAValue]
    ) -> list[SSAValue]:
        """One product for each element of a tile."""
        build, vectors, kernel = self.build, self.vectors, self.operands[WEIGHTS]
        of_weights = self.places(tile, WEIGHTS, offsets[WEIGHTS])[0]
        weights = [
            vectors.load(kernel, vectors.address(kernel.pointer, place))
            for place in of_weights
        ]
        results: list[SSAValue] = []
        for pixel, (place, *_) in enumerate(self.places(tile, INPUT, offsets[INPUT])):
            factor = self.factor(place)
            for block, weight in enumerate(weights):
                sum = sums[pixel * tile.blocks + block]
                results.append(build.insert(llvm.FMAOp(weight, factor, sum)))
        return results

    def factor(self, place: Size) -> SSAValue:
        """The factors of the weights at a pixel."""
        vectors, x = self.vectors, self.operands[INPUT]
        if self.op.channels.steps[INPUT] == 0:
            return vectors.repeated(x, place)
        return vectors.load(x, vectors.address(x.pointer, place))

    def store(
        self,
        tile: Tile,
        offsets: Sequence[Size],
        sums: Sequence[SSAValue],
        is_first: SSAValue | bool,
    ) -> None:
        """Add sums to the result, or to what they start from."""
        into, each = self.into, iter(sums)
        places = self.places(tile, RESULT_OPERAND, offsets[RESULT_OPERAND])
        for row, firsts in zip(places, self.firsts(tile, offsets), strict=True):
            for place, first in zip(row, firsts, strict=True):
                address = self.vectors.address(into.result.pointer, place)
                into.add(next(each), address, None, first, is_first)

    def firsts(
        self, tile: Tile, offsets: Sequence[Size]
    ) -> Sequence[Sequence[SSAValue | None]]:
        """The initial values of a tile; None where the result has them."""
        op, into = self.op, self.into
        if into.start is None:
            return [[None] * tile.blocks] * tile.pixels
        is_same = op.pixels.steps[START_OPERAND] == 0
        part = replace(tile, pixels=1) if is_same else tile
        rows = [
            [into.first(place, op.channels.steps[START_OPERAND], None) for place in row]
            for row in self.places(part, START_OPERAND, offsets[START_OPERAND])
        ]
        return rows * tile.pixels if is_same else rows
