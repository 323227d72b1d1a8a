"""
Packed tensors: dimensions split into tiles, which are the last dimensions.

A tensor NxCxHxW packed by `Tile(1, 16)` is a tensor NxC/16xHxWx16, in which 16 channels
of a pixel are contiguous. This is `linalg.pack` of upstream MLIR with `inner_dims_pos`
and `inner_tiles`, for static dimensions that the tiles divide.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from xdsl.dialects import tensor
from xdsl.dialects.builtin import AffineMapAttr, TensorType
from xdsl.dialects.linalg import ops as linalg
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap
from xdsl.rewriter import InsertPoint, Rewriter

from padc.ir.tcp import tensor_type
from padc.passes.common.linalg_builder import LinalgBuilder
from padc.passes.common.tensor_shapes import expand, permute, reshape


class Tile(NamedTuple):
    """A dimension is split into tiles of `size` elements."""

    dim: int
    size: int


Tiles: TypeAlias = "tuple[Tile, ...]"
"""The tiles of a tensor, in the order of the dimensions that they become."""


def packed_type(x: SSAValue, tiles: Tiles) -> TensorType[Attribute]:
    """The type of the packed form of `x`."""
    type = tensor_type(x)
    shape = list(type.get_shape())
    for dim, size in tiles:
        shape[dim] //= size
    return TensorType(type.element_type, [*shape, *(size for _, size in tiles)])


def split_sizes(sizes: Sequence[int], tiles: Tiles) -> list[int]:
    """The sizes after each packed dimension is split in two."""
    inner = dict(tiles)
    result: list[int] = []
    for dim, size in enumerate(sizes):
        if (tile := inner.get(dim)) is None:
            result.append(size)
        else:
            result += [size // tile, tile]
    return result


def split_order(rank: int, tiles: Tiles) -> list[int]:
    """The dimensions of a packed tensor, as numbers of the split ones."""
    inner = [dim for dim, _ in tiles]
    place = {dim: dim + sum(other < dim for other in inner) for dim in range(rank)}
    return [*place.values(), *(place[dim] + 1 for dim in inner)]


def pack(build: LinalgBuilder, x: SSAValue, tiles: Tiles) -> SSAValue:
    sizes = build.sizes(x)
    split = x
    for dim, size in sorted(tiles, reverse=True):
        whole = sizes[dim]
        assert isinstance(whole, int)
        split = expand(build, split, dim, [whole // size, size])
    return permute(build, split, split_order(len(sizes), tiles))


def unpack(build: LinalgBuilder, packed: SSAValue, tiles: Tiles) -> SSAValue:
    """The tensor whose packed form is `packed`."""
    sizes = build.sizes(packed)
    rank = len(sizes) - len(tiles)
    whole = sizes[:rank]
    for dim, size in tiles:
        whole[dim] = build.mul(whole[dim], size)
    order = split_order(rank, tiles)
    inverse = [order.index(dim) for dim in range(len(order))]
    return reshape(build, permute(build, packed, inverse), whole)


def tiles_of(map: AffineMap, loops: Mapping[int, int]) -> Tiles | None:
    """
    The tiles of an operand if loops are split; None if that is no packed layout.

    `loops` are the numbers of the loops, with the sizes of their tiles. Each must index
    one dimension by itself, or none.
    """
    tiles: list[Tile] = []
    for loop, size in loops.items():
        dims = [i for i, expr in enumerate(map.results) if loop in expr.used_dims()]
        if not dims:
            continue
        if len(dims) > 1 or not isinstance(map.results[dims[0]], AffineDimExpr):
            return None
        tiles.append(Tile(dims[0], size))
    return tuple(tiles)


def packed_op(
    build: LinalgBuilder,
    op: LinalgStructuredOperation,
    loops: Mapping[int, int],
    operands: Sequence[SSAValue],
    captured: Mapping[SSAValue, SSAValue],
) -> Sequence[SSAValue]:
    """
    The results of `op` with some of its loops split into tiles.

    `operands` are the operands of `op`, packed by their `tiles_of` these loops. The
    loops through the tiles are the last ones, in the order of `loops`. `captured` are
    the packed forms of tensors from which the body extracts elements; of a loop that is
    split, the body may only use the number as their index.
    """
    kinds = op.get_iterator_types()
    inner = {loop: len(kinds) + i for i, loop in enumerate(loops)}
    maps: list[AffineMapAttr] = []
    for map in op.get_indexing_maps():
        exprs = [*map.data.results]
        exprs += [
            AffineExpr.dimension(place)
            for loop, place in inner.items()
            if any(loop in expr.used_dims() for expr in map.data.results)
        ]
        rank = len(kinds) + len(loops)
        maps.append(AffineMapAttr(AffineMap(rank, 0, tuple(exprs))))
    body = Region()
    op.body.clone_into(body)
    for extract in [x for x in body.walk() if isinstance(x, tensor.ExtractOp)]:
        if (source := captured.get(extract.tensor)) is not None:
            extract_packed(body.block, extract, source, inner)
    count = len(op.inputs)
    new = linalg.GenericOp(
        operands[:count],
        operands[count:],
        body,
        maps,
        [*kinds, *(kinds.data[loop] for loop in loops)],
        [x.type for x in operands[count:]],
    )
    return build.builder.insert(new).results


def extract_packed(
    body: Block, op: tensor.ExtractOp, source: SSAValue, inner: Mapping[int, int]
) -> None:
    """Extract from a packed tensor, which has the tiles of the loops in `inner`."""
    indices: list[SSAValue] = list(op.indices)
    for index in op.indices:
        if isinstance(index.owner, linalg.IndexOp):
            loop = index.owner.dim.value.data
            if loop in inner:
                number = linalg.IndexOp(inner[loop])
                Rewriter.insert_op(number, InsertPoint.before(op))
                indices.append(number.result)
    Rewriter.replace_op(op, tensor.ExtractOp(source, indices, op.result.type))


def loop_of(index: SSAValue) -> int | None:
    """The loop whose number `index` is, if it is one."""
    owner = index.owner
    return owner.dim.value.data if isinstance(owner, linalg.IndexOp) else None


def captured_by(
    op: LinalgStructuredOperation, loops: Mapping[int, int]
) -> dict[SSAValue, Tile]:
    """
    The tensors from which the body of `op` extracts elements by the number of a loop.

    `loops` are split into tiles, and with them the tensors.
    """
    return {
        inner.tensor: Tile(dim, loops[loop])
        for inner in op.body.walk()
        if isinstance(inner, tensor.ExtractOp)
        for dim, index in enumerate(inner.indices)
        if (loop := loop_of(index)) is not None and loop in loops
    }


def reads_only_indices_of(
    op: LinalgStructuredOperation, loop: int, captured: Mapping[SSAValue, Tile]
) -> bool:
    """
    Whether the body uses the number of `loop` only to index packed dimensions.

    Nothing else may index these.
    """
    for inner in op.body.walk():
        if isinstance(inner, tensor.ExtractOp):
            tile = captured.get(inner.tensor)
            if tile is not None and loop_of(inner.indices[tile.dim]) != loop:
                return False
        if not isinstance(inner, linalg.IndexOp) or inner.dim.value.data != loop:
            continue
        for use in inner.result.uses:
            user: Operation = use.operation
            if not isinstance(user, tensor.ExtractOp):
                return False
            if use.index != 1 + captured[user.tensor].dim:
                return False
    return True
