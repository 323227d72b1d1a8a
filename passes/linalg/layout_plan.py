"""
Which ops work on packed tensors, and by which tiles.

The plan starts at convolutions and gathers, and follows their results. It then drops
each group of connected ops that gains less time than the conversions at its borders
cost. Gathers read elements at computed places: grid samples and resampling. If their
input is packed, they read vectors of channels.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeGuard

from xdsl.dialects import arith, func, tensor
from xdsl.dialects.builtin import FixedBitwidthType, StringAttr
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.dialects.linalg.attrs import IteratorType
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr
from xdsl.utils.disjoint_set import DisjointSet
from xdsl.utils.hints import isa

from padc.ir.main_function import body_of
from padc.ir.tcp import AnyTensor, tensor_type
from padc.passes.linalg.convolutions import convolution_of, row_stride
from padc.passes.linalg.packed_tensor_ops import PACKED_OPS, source_tile
from padc.passes.linalg.packing import (
    Tile,
    Tiles,
    captured_by,
    loop_of,
    reads_only_indices_of,
    tiles_of,
)
from padc.passes.linalg.weights import source_of, weight_arguments

GAIN = 0.003
"""Nanoseconds that a product of a packed convolution saves, as `bench` measured."""
STRIDED_GAIN = 0.3
"""The same for a stride above 2, for which convolutions in NCHW have no kernel."""
GATHER_GAIN = 0.4
"""
Nanoseconds that reading an element at a computed place saves if channels are packed.
"""
COST = 0.4
"""Nanoseconds that it takes to pack or unpack an element."""


@dataclass
class LayoutPlan:
    """The ops of a function that work on packed tensors."""

    vector_bytes: int
    weights: Mapping[SSAValue, StringAttr]
    loops: dict[Operation, dict[int, int]] = field(
        default_factory=dict[Operation, "dict[int, int]"]
    )
    """For each linalg op, the loops that are split, with the sizes of the tiles."""
    tiles: dict[Operation, Tile] = field(default_factory=dict[Operation, Tile])
    """For each op that only moves elements, the tile by which its inputs are packed."""
    results: dict[SSAValue, Tiles] = field(default_factory=dict[SSAValue, Tiles])
    """How the results of all these ops are packed."""

    @staticmethod
    def of(function: func.FuncOp, vector_bytes: int) -> LayoutPlan:
        plan = LayoutPlan(vector_bytes, weight_arguments(function))
        ops = list(body_of(function).ops)
        for op in ops:
            if isinstance(op, LinalgStructuredOperation):
                plan.add_structured(op)
            elif type(op) in PACKED_OPS:
                plan.add_moved(op)
        plan.drop_losses(ops)
        return plan

    def add_structured(self, op: LinalgStructuredOperation) -> None:
        if (loops := self.loops_to_split(op)) and len(op.results) == len(op.outputs):
            self.add_split(op, loops)

    def add_split(self, op: LinalgStructuredOperation, loops: dict[int, int]) -> None:
        """Split these loops if all operands can be packed accordingly."""
        maps = [map.data for map in op.get_indexing_maps()]
        tiles = [tiles_of(map, loops) for map in maps]
        captured = captured_by(op, loops)
        if any(
            each is None or not self.are_whole(x, each)
            for x, each in zip(op.operands, tiles, strict=True)
        ):
            return
        if not all(self.are_whole(x, (tile,)) for x, tile in captured.items()):
            return
        if not all(reads_only_indices_of(op, loop, captured) for loop in loops):
            return
        self.loops[op] = loops
        outputs = tiles[len(op.inputs) :]
        for output, result, each in zip(op.outputs, op.results, outputs, strict=True):
            self.results[result] = each or ()
            for tile in self.results[result]:
                self.add_start(output, tile)

    def add_start(self, x: SSAValue, tile: Tile) -> None:
        """Pack also the ops that make the initial values of sums."""
        op = x.owner
        if not x.has_one_use() or x in self.results:
            return
        if isinstance(op, tensor.ExpandShapeOp):
            if (source := source_tile(op, tile)) is not None:
                self.tiles[op] = source
                self.results[x] = (tile,)
                self.add_start(op.src, source)
        elif isinstance(op, LinalgStructuredOperation) and len(op.results) == 1:
            expr = op.get_indexing_maps().data[-1].data.results[tile.dim]
            if isinstance(expr, AffineDimExpr):
                self.add_split(op, {expr.position: tile.size})

    def loops_to_split(self, op: LinalgStructuredOperation) -> dict[int, int]:
        """The loops of `op` that are split if it is packed, with their tiles."""
        if (conv := convolution_of(op)) is not None:
            outputs = self.tile_size(op.results[0], conv.outputs.size)
            inputs = self.tile_size(op.results[0], conv.inputs.size)
            if outputs is None:
                return {}
            first = {} if inputs is None else {conv.inputs.number: inputs}
            return {**first, conv.outputs.number: outputs}
        kinds = [kind.data for kind in op.get_iterator_types()]
        for x, map in zip(op.inputs, op.get_indexing_maps(), strict=False):
            if len(tiles := self.results.get(x, ())) == 1:
                expr = map.data.results[tiles[0].dim]
                if isinstance(expr, AffineDimExpr):
                    is_parallel = kinds[expr.position] is IteratorType.PARALLEL
                    return {expr.position: tiles[0].size} if is_parallel else {}
        for inner in op.body.walk():
            if isinstance(inner, tensor.ExtractOp) and (
                tiles := self.results.get(inner.tensor)
            ):
                loop = loop_of(inner.indices[tiles[0].dim])
                if loop is not None and kinds[loop] is IteratorType.PARALLEL:
                    return {loop: tiles[0].size}
        return self.loop_of_gathers(op)

    def loop_of_gathers(self, op: LinalgStructuredOperation) -> dict[int, int]:
        """The last loop that indexes the input of the first gather, and its tile."""
        for inner in gathers(op):
            numbers = [*map(loop_of, inner.indices)]
            indexed = [(dim, n) for dim, n in enumerate(numbers) if n is not None]
            if not indexed:
                return {}
            dim, loop = indexed[-1]
            kinds = [kind.data for kind in op.get_iterator_types()]
            if kinds[loop] is not IteratorType.PARALLEL:
                return {}
            channels = tensor_type(inner.tensor).get_shape()[dim]
            size = self.tile_size(inner.tensor, channels)
            return {} if size is None else {loop: size}
        return {}

    def add_moved(self, op: Operation) -> None:
        """Pack an op that moves elements if one of its inputs is packed."""
        inputs = [x for x in op.operands if isa(x.type, AnyTensor)]
        found = [tiles for x in inputs if (tiles := self.results.get(x))]
        if not found:
            return
        (tile,) = found[0]
        result, tiled = op.results[0], PACKED_OPS[type(op)].tile(op, tile)
        if tiled is None or not self.are_whole(result, (tiled,)):
            return
        if not all(self.are_whole(x, (tile,)) for x in inputs):
            return
        self.tiles[op] = tile
        self.results[result] = (tiled,)

    def tile_size(self, x: SSAValue, channels: int) -> int | None:
        """The tiles that `channels` are packed into; None if they are not packed."""
        type = tensor_type(x).element_type
        assert isinstance(type, FixedBitwidthType)
        lanes = self.vector_bytes // type.size
        for size in (lanes, lanes // 2):
            if channels > 0 and channels % size == 0:
                return size
        return None

    def are_whole(self, x: SSAValue, tiles: Tiles) -> bool:
        """Whether `x` can be packed by `tiles`."""
        return all(
            (size := tensor_type(x).get_shape()[dim]) > 0 and size % tile == 0
            for dim, tile in tiles
        )

    def drop_losses(self, ops: Sequence[Operation]) -> None:
        """
        Drop the groups of connected ops that cost more than they gain.

        At first, only the other ops of such a group are dropped: without them, for
        example a transformer after it, a convolution may still gain.
        """
        for op in self.losses(ops):
            if not is_convolution(op) and not is_start(op):
                self.drop(op)
        for op in self.losses(ops):
            self.drop(op)

    def drop(self, op: Operation) -> None:
        self.loops.pop(op, None)
        self.tiles.pop(op, None)
        for result in op.results:
            self.results.pop(result, None)

    def losses(self, ops: Sequence[Operation]) -> list[Operation]:
        """The members of groups of connected ops that cost more than they gain."""
        members = [op for op in ops if op in self.loops or op in self.tiles]
        groups = DisjointSet(members)
        for op in members:
            for x in packed_inputs(op, self.results):
                assert isinstance(x.owner, Operation)
                groups.union_left(op, x.owner)
        balance: dict[Operation, float] = dict.fromkeys(members, 0.0)
        packed: set[SSAValue] = set()
        for op in members:
            group = groups.find(op)
            balance[group] += self.gain(op)
            for x in self.conversions(op):
                if x not in packed:
                    packed.add(x)
                    balance[group] -= COST * elements(x)
        return [op for op in members if balance[groups.find(op)] <= 0]

    def gain(self, op: Operation) -> float:
        """The nanoseconds that are saved by packing `op`."""
        if not isinstance(op, LinalgStructuredOperation):
            return 0.0
        conv = convolution_of(op)
        if conv is None:
            return GATHER_GAIN * len(gathers(op)) * elements(op.results[0])
        weights = tensor_type(op.inputs[1]).get_shape()
        taps = math.prod(weights) // conv.outputs.size
        each = GAIN if row_stride(op) <= 2 else STRIDED_GAIN
        return each * elements(op.results[0]) * abs(taps)

    def conversions(self, op: Operation) -> Iterable[SSAValue]:
        """The tensors that are packed or unpacked if `op` is one of the plan."""
        if isinstance(op, LinalgStructuredOperation):
            maps = [map.data for map in op.get_indexing_maps()]
            for x, map in zip(op.operands, maps, strict=True):
                if tiles_of(map, self.loops[op]) and not self.is_free(x):
                    yield x
            for x in captured_by(op, self.loops[op]):
                if not self.is_free(x):
                    yield x
        else:
            for x in op.operands:
                if isa(x.type, AnyTensor) and not self.is_free(x):
                    yield x
        for result in op.results:
            if any(
                use.operation not in self.loops and use.operation not in self.tiles
                for use in result.uses
            ):
                yield result

    def is_free(self, x: SSAValue) -> bool:
        """Whether the packed form of `x` costs nothing when the program runs."""
        return (
            x in self.results
            or source_of(x) in self.weights
            or isinstance(x.owner, tensor.EmptyOp)
        )


def gathers(op: LinalgStructuredOperation) -> list[tensor.ExtractOp]:
    """The elements that the body of `op` reads at computed places of a row."""
    return [
        inner
        for inner in op.body.walk()
        if isinstance(inner, tensor.ExtractOp)
        and inner.indices
        and isinstance(inner.indices[-1].owner, arith.IndexCastOp)
    ]


def is_convolution(op: Operation) -> TypeGuard[LinalgStructuredOperation]:
    return isinstance(op, LinalgStructuredOperation) and convolution_of(op) is not None


def is_start(op: Operation) -> bool:
    """Whether `op` makes the initial values of a convolution's sums."""
    return any(
        is_convolution(use.operation) and result in use.operation.outputs
        for result in op.results
        for use in result.uses
    )


def packed_inputs(
    op: Operation, results: Mapping[SSAValue, Tiles]
) -> Iterable[SSAValue]:
    """The tensors that `op` takes from other packed ops."""
    taken = [*op.operands]
    for inner in op.walk():
        if isinstance(inner, tensor.ExtractOp):
            taken.append(inner.tensor)
    return [x for x in taken if x in results]


def elements(x: SSAValue) -> int:
    """The number of elements of `x`; dynamic sizes count as 32."""
    return math.prod(32 if size < 0 else size for size in tensor_type(x).get_shape())
