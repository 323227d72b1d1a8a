"""Compressed constants, by the docstrings of coremltools' mil/ops/defs/iOS16/
constexpr_ops.py and iOS18/compression.py. They are computed at load."""

from collections.abc import Sequence
from math import prod
from typing import Literal

import torch
from torch import Tensor

from padc.backends.coreml.evaluator.ops.quantization import along
from padc.backends.coreml.evaluator.ops.registry import (
    Float,
    Int,
    Number,
    UnknownValueError,
    op,
)
from padc.backends.coreml.evaluator.types import (
    UINT1,
    UINT2,
    UINT4,
    UINT6,
    packed_size,
    unpack,
)


def _unpacked(packed: Tensor, count: int, bits: int) -> Tensor:
    """`count` unsigned elements of `bits` each, from the bytes in `packed`."""
    if bits == 8:
        return packed
    dtypes = {dtype.bits: dtype for dtype in (UINT1, UINT2, UINT4, UINT6)}
    data = packed.to(torch.uint8).numpy().tobytes()
    if len(data) != packed_size(count, dtypes[bits]):
        raise ValueError(f"{len(data)} bytes for {count} elements of {bits} bits")
    return torch.as_tensor(unpack(data, count, dtypes[bits]))


def _scattered(data: Tensor, mask: Tensor) -> Tensor:
    """`data`, in order, where `mask` is set; 0 elsewhere."""
    mask = mask != 0
    if int(mask.sum()) != data.numel():
        raise ValueError(f"{data.numel()} values for {int(mask.sum())} places")
    return torch.zeros(mask.shape, dtype=data.dtype).masked_scatter(mask, data)


def _blown_up(values: Tensor, shape: Sequence[int]) -> Tensor:
    """`values` repeated in blocks to have `shape`."""
    for axis, size in enumerate(shape):
        if size % values.shape[axis]:
            raise ValueError(f"{list(values.shape)} blocks in {list(shape)}")
        values = values.repeat_interleave(size // values.shape[axis], axis)
    return values


@op()
def constexpr_affine_dequantize(
    quantized_data: Int, zero_point: Number, scale: Float, axis: int
) -> Tensor:
    rank = quantized_data.dim()
    return along(scale, rank, axis) * (quantized_data - along(zero_point, rank, axis))


@op()
def constexpr_cast(source_val: Float, output_dtype: Literal["fp32", "fp16"]) -> Tensor:
    return source_val


@op()
def constexpr_lut_to_dense(indices: Int, lut: Tensor, shape: list[int]) -> Tensor:
    bits = {2: 1, 4: 2, 16: 4, 64: 6, 256: 8}.get(lut.numel())
    if bits is None:
        raise UnknownValueError(f"a table of {lut.numel()} values")
    keys = _unpacked(indices, torch.Size(shape).numel(), bits)
    return lut[keys.to(torch.int64)].reshape(shape)


@op()
def constexpr_sparse_to_dense(
    nonzero_data: Tensor, mask: Int, shape: list[int]
) -> Tensor:
    places = _unpacked(mask, torch.Size(shape).numel(), 1)
    return _scattered(nonzero_data, places.reshape(shape))


@op(since=8)
def constexpr_blockwise_shift_scale(
    data: Number, scale: Float, offset: Number | None = None
) -> Tensor:
    if offset is not None:
        data = data - _blown_up(offset, data.shape)
    return _blown_up(scale, data.shape) * data


@op("constexpr_lut_to_dense", since=8)
def constexpr_lut_to_dense_ios18(
    indices: Int, lut: Tensor, vector_axis: int | None = None
) -> Tensor:
    """`lut` is [blocks of indices..., palettes, vector]."""
    *blocks, palettes, width = lut.shape
    if (indices >= palettes).any():
        raise ValueError(f"an index is not in [0, {palettes})")
    tables = torch.arange(prod(blocks)).reshape(blocks)
    rows = _blown_up(tables, indices.shape) * palettes + indices
    vectors = lut.reshape(-1, width)[rows]
    if width == 1:
        return vectors.squeeze(-1)
    if vector_axis is None:
        raise UnknownValueError(f"vectors of {width} without vector_axis")
    axis = vector_axis % indices.dim()
    return vectors.movedim(-1, axis + 1).flatten(axis, axis + 1)


@op("constexpr_sparse_to_dense", since=8)
def constexpr_sparse_to_dense_ios18(nonzero_data: Tensor, mask: Int) -> Tensor:
    return _scattered(nonzero_data, mask)


@op(since=8)
def constexpr_lut_to_sparse(
    indices_mask: Int,
    indices_nonzero_data: Int,
    lut: Tensor,
    vector_axis: int | None = None,
) -> tuple[Tensor, Tensor]:
    indices = _scattered(indices_nonzero_data, indices_mask)
    dense = constexpr_lut_to_dense_ios18(indices, lut, vector_axis)
    mask = _blown_up(indices_mask, dense.shape)
    return mask, dense[mask != 0]


@op(since=8)
def constexpr_sparse_blockwise_shift_scale(
    data_mask: Int, nonzero_data: Number, scale: Float, offset: Number | None = None
) -> tuple[Tensor, Tensor]:
    dense = _scattered(nonzero_data, data_mask)
    shifted = constexpr_blockwise_shift_scale(dense, scale, offset)
    return data_mask, shifted[data_mask != 0]
