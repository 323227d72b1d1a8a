"""Ops of `tensor` that work on packed tensors, and border pads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from xdsl.dialects import tensor
from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, IntegerAttr, i64
from xdsl.ir import Block, Operation, Region, SSAValue

from padc.ir import tcp
from padc.ir.tcp import tensor_type
from padc.passes.common.tensor_shapes import reassociation
from padc.passes.linalg.packing import Tile, packed_type

ResultTile: TypeAlias = "Callable[[Any, Tile], Tile | None]"
Build: TypeAlias = "Callable[[Any, Tile, Sequence[SSAValue]], Operation]"


@dataclass(frozen=True)
class PackedOp:
    """How an op whose inputs are all packed by one tile computes a packed result."""

    tile: ResultTile
    """
    The tile of the result, which may not be whole; None if the op takes no packed
    tensors.
    """
    build: Build
    """The op on packed inputs; it takes the tile of the result."""


def padded_tile(op: tensor.PadOp, tile: Tile) -> Tile | None:
    """`tile` unless the packed dimension is padded, or the fill is computed inside."""
    amounts = op.static_low.get_values(), op.static_high.get_values()
    is_whole = all(side[tile.dim] == 0 for side in amounts)
    owner = fill_of(op).owner
    inside = owner.parent if isinstance(owner, Operation) else owner
    return tile if is_whole and inside is not op.region.block else None


def fill_of(op: tensor.PadOp) -> SSAValue:
    yielded = op.region.block.last_op
    assert isinstance(yielded, tensor.YieldOp)
    return yielded.operands[0]


def pad(op: tensor.PadOp, tile: Tile, inputs: Sequence[SSAValue]) -> Operation:
    types = op.region.block.arg_types
    block = Block([tensor.YieldOp(fill_of(op))], arg_types=[*types, types[0]])
    return tensor.PadOp(
        inputs[0],
        op.low,
        op.high,
        Region(block),
        [*op.static_low.get_values(), 0],
        [*op.static_high.get_values(), 0],
        packed_type(op.result, (tile,)),
    )


def border_padded_tile(op: tcp.BorderPadOp, tile: Tile) -> Tile | None:
    lower, upper, _ = op.expansions[tile.dim]
    return tile if (lower, upper) == (0, 0) else None


def border_pad(
    op: tcp.BorderPadOp, tile: Tile, inputs: Sequence[SSAValue]
) -> Operation:
    return op.__class__(
        inputs[0],
        [*op.lower_expansion, 0],
        [*op.upper_expansion, 0],
        packed_type(op.result, (tile,)),
    )


def concat(op: tensor.ConcatOp, tile: Tile, inputs: Sequence[SSAValue]) -> Operation:
    return tensor.ConcatOp.build(
        operands=[inputs],
        result_types=[packed_type(op.result, (tile,))],
        properties=op.properties,
    )


def cast(op: tensor.CastOp, tile: Tile, inputs: Sequence[SSAValue]) -> Operation:
    return tensor.CastOp(inputs[0], packed_type(op.dest, (tile,)))


def sliced_tile(op: tensor.ExtractSliceOp, tile: Tile) -> Tile | None:
    """`tile` if the slice is of whole tiles."""
    offset, size, stride = (
        each.get_values()[tile.dim]
        for each in (op.static_offsets, op.static_sizes, op.static_strides)
    )
    is_whole = stride == 1 and min(offset, size) >= 0
    return tile if is_whole and offset % tile.size == size % tile.size == 0 else None


def extract_slice(
    op: tensor.ExtractSliceOp, tile: Tile, inputs: Sequence[SSAValue]
) -> Operation:
    def appended(amounts: Any, last: int, divisor: int) -> DenseArrayBase[Any]:
        values = [*amounts.get_values()]
        values[tile.dim] //= divisor
        return DenseArrayBase.from_list(i64, [*values, last])

    return tensor.ExtractSliceOp.build(
        operands=[inputs[0], op.offsets, op.sizes, op.strides],
        result_types=[packed_type(op.result, (tile,))],
        properties={
            "static_offsets": appended(op.static_offsets, 0, tile.size),
            "static_sizes": appended(op.static_sizes, tile.size, tile.size),
            "static_strides": appended(op.static_strides, 1, 1),
        },
    )


def inserted_tile(op: tensor.InsertSliceOp, tile: Tile) -> Tile | None:
    """`tile` if the slice has the whole packed dimension."""
    size = op.static_sizes.get_values()[tile.dim]
    return tile if size == tensor_type(op.result).get_shape()[tile.dim] else None


def insert_slice(
    op: tensor.InsertSliceOp, tile: Tile, inputs: Sequence[SSAValue]
) -> Operation:
    sizes = list(op.static_sizes.get_values())
    sizes[tile.dim] //= tile.size
    lists = {
        "static_offsets": [*op.static_offsets.get_values(), 0],
        "static_sizes": [*sizes, tile.size],
        "static_strides": [*op.static_strides.get_values(), 1],
    }
    return tensor.InsertSliceOp.build(
        operands=[*inputs, op.offsets, op.sizes, op.strides],
        result_types=[packed_type(op.result, (tile,))],
        properties={
            name: DenseArrayBase.from_list(i64, values)
            for name, values in lists.items()
        },
    )


def source_tile(op: tensor.ExpandShapeOp, tile: Tile) -> Tile | None:
    """The tile of the input if the result has `tile`."""
    shape = tensor_type(op.result).get_shape()
    for dim, group in enumerate(groups_of(op)):
        if tile.dim in group:
            source = Tile(dim, tile.size)
            after = group[group.index(tile.dim) + 1 :]
            return source if all(shape[x] == 1 for x in after) else None
    return None


def groups_of(op: tensor.ExpandShapeOp | tensor.CollapseShapeOp) -> list[list[int]]:
    return [[dim.value.data for dim in group] for group in op.reassociation]


def expanded_tile(op: tensor.ExpandShapeOp, tile: Tile) -> Tile | None:
    """The tile of the last dimension that the packed one becomes, ones apart."""
    shape = tensor_type(op.result).get_shape()
    for dim in reversed(groups_of(op)[tile.dim]):
        if shape[dim] != 1:
            return Tile(dim, tile.size)
    return None


def expand(
    op: tensor.ExpandShapeOp, tile: Tile, inputs: Sequence[SSAValue]
) -> Operation:
    type = packed_type(op.result, (tile,))
    return tensor.ExpandShapeOp(
        inputs[0],
        op.dynamic_output_shape,
        with_inner_group(op),
        list(type.get_shape()),
        type,
    )


def collapsed_tile(op: tensor.CollapseShapeOp, tile: Tile) -> Tile | None:
    """The tile of the dimension that the packed one is the last part of."""
    shape = tensor_type(op.src).get_shape()
    for dim, group in enumerate(groups_of(op)):
        if tile.dim in group:
            after = group[group.index(tile.dim) + 1 :]
            return Tile(dim, tile.size) if all(shape[x] == 1 for x in after) else None
    return None


def collapse(
    op: tensor.CollapseShapeOp, tile: Tile, inputs: Sequence[SSAValue]
) -> Operation:
    return tensor.CollapseShapeOp(
        operands=[inputs[0]],
        result_types=[packed_type(op.result, (tile,))],
        properties={"reassociation": with_inner_group(op)},
    )


def with_inner_group(
    op: tensor.ExpandShapeOp | tensor.CollapseShapeOp,
) -> ArrayAttr[ArrayAttr[IntegerAttr]]:
    """The groups of `op`, and one for the dimension of the tile."""
    groups = groups_of(op)
    return reassociation([*groups, [sum(map(len, groups))]])


def same(op: Operation, tile: Tile) -> Tile | None:
    return tile


PACKED_OPS: dict[type[Operation], PackedOp] = {
    tensor.PadOp: PackedOp(padded_tile, pad),
    tensor.ConcatOp: PackedOp(same, concat),
    tensor.CastOp: PackedOp(same, cast),
    tensor.ExtractSliceOp: PackedOp(sliced_tile, extract_slice),
    tensor.InsertSliceOp: PackedOp(inserted_tile, insert_slice),
    tensor.ExpandShapeOp: PackedOp(expanded_tile, expand),
    tensor.CollapseShapeOp: PackedOp(collapsed_tile, collapse),
    **dict.fromkeys(tcp.BORDER_PADS, PackedOp(border_padded_tile, border_pad)),
}
