"""
How long a convolution takes, directly and by Winograd's algorithm.

A model of a core with vectors of any length. Its numbers are those of one CPU with
AVX-512, rounded; they matter only where both ways take about as long.
"""

from __future__ import annotations

from dataclasses import dataclass

from padc.ir.arithmetic import ceil_div
from padc.ir.winograd import POINTS, TAPS, winograd
from padc.passes.common.kernel_tiles import WINOGRAD_VECTORS

PRODUCTS_A_CYCLE = 2
"""The vectors of products that a core adds in a cycle."""
BYTES_A_CYCLE = 4
"""The bytes of weights that a core reads in a cycle for the first time in a call."""
BYTES_AGAIN = 20
"""The same for weights that it read before, from the last cache."""
TRANSFORMS = {2: (40, 50), 4: (120, 170)}
"""
The cycles to transform a vector of channels of a tile, of the input and of the result.
"""
GAIN = 0.9
"""Winograd's algorithm is used if it takes less than this part of the time."""
BLOCK_BYTES = 1 << 19
"""The most bytes of the transformed inputs of a block, and of its products."""
FEW_TILES = 28
"""The tiles of a block if the weights stay in the second cache too."""
KEPT_BYTES = 1 << 20
"""The most bytes of weights that stay in the second cache."""


@dataclass(frozen=True)
class Shape:
    """The sizes of a convolution of packed tensors."""

    batch: int
    rows: int
    """Of the result."""
    columns: int
    inputs: int
    """The channels of the input, in vectors of `lanes`."""
    outputs: int
    lanes: int

    def tiles(self, size: int) -> int:
        """The number of tiles of an image's result."""
        return ceil_div(self.rows, size) * ceil_div(self.columns, size)

    def filter_bytes(self, side: int) -> int:
        """The bytes of all filters of `side` x `side` elements."""
        return side * side * self.inputs * self.outputs * 4

    def direct_cycles(self) -> float:
        """The cycles that the direct convolution takes."""
        pixels = self.batch * self.rows * self.columns
        products = pixels * TAPS * TAPS * self.inputs * self.outputs
        read = self.filter_bytes(TAPS) / BYTES_A_CYCLE
        return products / self.lanes / PRODUCTS_A_CYCLE + read

    def winograd_cycles(self, size: int) -> float:
        """The cycles that tiles of `size` x `size` results take."""
        side = winograd(size).inputs
        blocks = self.batch * ceil_div(self.tiles(size), self.block(size))
        tiles = blocks * self.block(size)
        products = tiles * side * side * self.inputs * self.outputs
        to, back = TRANSFORMS[size]
        transforms = tiles * (self.inputs * to + self.outputs * back) / self.lanes
        bytes = self.filter_bytes(side)
        read = bytes / BYTES_A_CYCLE
        if bytes > KEPT_BYTES:
            read += (blocks - 1) * bytes / BYTES_AGAIN
        return products / self.lanes / PRODUCTS_A_CYCLE + transforms + read

    def block(self, size: int) -> int:
        """
        The number of tiles of `size` x `size` results in a block.

        It is the largest for which the block's inputs stay in the second cache, since
        each block reads all weights.
        """
        side, tiles = winograd(size).inputs, self.tiles(size)
        most = max(self.most_tiles(size), 1)
        if self.filter_bytes(side) <= KEPT_BYTES:
            most = min(most, FEW_TILES)
        blocks = ceil_div(tiles, most)
        return ceil_div(tiles, blocks)

    def most_tiles(self, size: int) -> int:
        """The most tiles in a block: its scratch memory is on the stack."""
        side = winograd(size).inputs
        channels = max(self.inputs, WINOGRAD_VECTORS * self.lanes)
        return BLOCK_BYTES // (side * side * channels * 4)

    def best_tile(self) -> int | None:
        """The size of the fastest tiles; None if the direct convolution is faster."""
        sizes = [size for size in POINTS if self.most_tiles(size)]
        size = min(sizes, key=self.winograd_cycles, default=None)
        if size is None or self.winograd_cycles(size) > self.direct_cycles() * GAIN:
            return None
        return size
