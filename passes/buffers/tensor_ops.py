"""Lowerings of `tensor` ops to buffers: allocations, views and copies."""

from __future__ import annotations

from xdsl.dialects import arith, memref, tensor
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    IntegerAttr,
    MemRefType,
    StridedLayoutAttr,
    UnrealizedConversionCastOp,
)
from xdsl.dialects.utils.dynamic_index_list import split_dynamic_index_list
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import PassFailedException

from padc.ir.tcp import tensor_type
from padc.passes.buffers.function_bufferizer import FunctionBufferizer, bufferizes, cast
from padc.passes.common.memref_builder import is_contiguous, memref_type


@bufferizes(tensor.EmptyOp)
def lower_empty(f: FunctionBufferizer, op: tensor.EmptyOp) -> SSAValue:
    type = tensor_type(op.tensor)
    sizes = f.amounts(type.get_shape(), op.dynamic_sizes)
    return f.build.alloc(sizes, type.element_type)


@bufferizes(tensor.DimOp)
def lower_dim(f: FunctionBufferizer, op: tensor.DimOp) -> SSAValue:
    number = op.index.owner
    rank = len(tensor_type(op.source).get_shape())
    value = number.value if isinstance(number, arith.ConstantOp) else None
    if not isinstance(value, IntegerAttr) or not 0 <= value.value.data < rank:
        raise PassFailedException(
            f"bufferize-tcp takes a 'tensor.dim' only of a constant dimension of {rank}"
        )
    return f.build.index(f.build.size(f.values[op.source], value.value.data))


@bufferizes(tensor.ExtractOp)
def lower_extract(f: FunctionBufferizer, op: tensor.ExtractOp) -> SSAValue:
    indices = [f.values[index] for index in op.indices]
    return f.build.insert(memref.LoadOp.get(f.values[op.tensor], indices))


@bufferizes(tensor.CastOp)
def lower_cast(f: FunctionBufferizer, op: tensor.CastOp) -> SSAValue:
    return cast(f.build, f.values[op.source], tensor_type(op.dest))


@bufferizes(UnrealizedConversionCastOp)
def lower_conversion(f: FunctionBufferizer, op: UnrealizedConversionCastOp) -> SSAValue:
    """A cast between signless and unsigned integers keeps the bits."""
    return f.values[op.inputs[0]]


@bufferizes(tensor.ExtractSliceOp)
def lower_extract_slice(f: FunctionBufferizer, op: tensor.ExtractSliceOp) -> SSAValue:
    part = f.build.subview(
        f.values[op.source],
        f.amounts(op.static_offsets.get_values(), op.offsets),
        f.amounts(op.static_sizes.get_values(), op.sizes),
        f.amounts(op.static_strides.get_values(), op.strides),
    )
    return cast(f.build, part, tensor_type(op.result))


@bufferizes(tensor.InsertSliceOp)
def lower_insert_slice(f: FunctionBufferizer, op: tensor.InsertSliceOp) -> SSAValue:
    target = f.target(op.dest)
    part = f.build.subview(
        target,
        f.amounts(op.static_offsets.get_values(), op.offsets),
        f.amounts(op.static_sizes.get_values(), op.sizes),
        f.amounts(op.static_strides.get_values(), op.strides),
    )
    f.build.copy(f.values[op.source], part)
    return target


@bufferizes(tensor.PadOp)
def lower_pad(f: FunctionBufferizer, op: tensor.PadOp) -> SSAValue:
    """A new buffer, filled, and a copy into its interior."""
    yielded = op.region.block.last_op
    assert isinstance(yielded, tensor.YieldOp)
    (fill,) = yielded.operands
    if fill not in f.values:
        raise PassFailedException(
            "bufferize-tcp takes a 'tensor.pad' only if it pads with one value that is "
            "defined outside of its region"
        )
    x = f.values[op.source]
    lower = f.amounts(op.static_low.get_values(), op.low)
    upper = f.amounts(op.static_high.get_values(), op.high)
    if any(isinstance(amount, int) and amount < 0 for amount in (*lower, *upper)):
        raise PassFailedException(
            "bufferize-tcp takes a 'tensor.pad' only of amounts that are not negative"
        )
    sizes = f.build.sizes(x)
    padded = f.build.alloc(
        f.build.padded(lower, sizes, upper), memref_type(x).element_type
    )
    f.build.fill(f.values[fill], padded)
    f.build.copy(x, f.build.subview(padded, lower, sizes))
    return cast(f.build, padded, tensor_type(op.result))


@bufferizes(tensor.ConcatOp)
def lower_concat(f: FunctionBufferizer, op: tensor.ConcatOp) -> SSAValue:
    """A new buffer, and a copy of each input into its part."""
    dim = op.dim.value.data
    parts = [f.values[x] for x in op.inputs]
    sizes = f.build.sizes(parts[0])
    for part in parts[1:]:
        sizes[dim] = f.build.add(sizes[dim], f.build.size(part, dim))
    result = f.build.alloc(sizes, memref_type(parts[0]).element_type)
    offset = 0
    for part in parts:
        size = f.build.size(part, dim)
        f.build.copy(part, f.build.part(result, dim, offset, size))
        offset = f.build.add(offset, size)
    return cast(f.build, result, tensor_type(op.result))


@bufferizes(tensor.ExpandShapeOp)
def lower_expand_shape(f: FunctionBufferizer, op: tensor.ExpandShapeOp) -> SSAValue:
    sizes = f.amounts(op.static_output_shape.get_values(), op.dynamic_output_shape)
    static, _ = split_dynamic_index_list(sizes, DYNAMIC_INDEX)
    x = f.values[op.src]
    type = memref_type(x)
    layout = type.layout
    if not is_contiguous(type):
        strides: list[int | None] = []
        for group, stride in zip(
            op.reassociation, type.get_strides() or (), strict=True
        ):
            along: list[int | None] = []
            for dim in reversed([dim.value.data for dim in group]):
                along.append(stride)
                known = stride is not None and static[dim] != DYNAMIC_INDEX
                stride = stride * static[dim] if known and stride is not None else None
            strides += reversed(along)
        layout = StridedLayoutAttr(strides, type.get_offset())
    return f.build.expanded(x, op.reassociation, sizes, layout)


@bufferizes(tensor.CollapseShapeOp)
def lower_collapse_shape(f: FunctionBufferizer, op: tensor.CollapseShapeOp) -> SSAValue:
    x = contiguous(f, f.values[op.src])
    type = memref_type(x)
    shape = tensor_type(op.result).get_shape()
    return f.build.insert(
        memref.CollapseShapeOp(
            operands=[x],
            result_types=[MemRefType(type.element_type, shape)],
            properties={"reassociation": op.reassociation},
        )
    )


def contiguous(f: FunctionBufferizer, x: SSAValue) -> SSAValue:
    """`x` if it is contiguous, else a contiguous copy."""
    return x if is_contiguous(memref_type(x)) else f.copied(x)
