"""Compressed constants, by the docstrings of coremltools' mil/ops/defs/iOS16/
constexpr_ops.py and iOS18/compression.py. They are computed at load."""

from collections.abc import Sequence
from math import prod
from typing import Literal

import numpy as np

from padc.backends.coreml.evaluator.ops.layout import merged
from padc.backends.coreml.evaluator.ops.quantization import scaled
from padc.backends.coreml.evaluator.ops.registry import (
    Float,
    Int,
    Number,
    UnknownValueError,
    op,
)
from padc.backends.coreml.evaluator.values.types import (
    UINT1,
    UINT2,
    UINT4,
    UINT6,
    Array,
    packed_size,
    unpack,
)


def _unpacked(packed: Array, count: int, bits: int) -> Array:
    """`count` unsigned elements of `bits` each, from the bytes in `packed`."""
    if bits == 8:
        return packed
    dtypes = {dtype.bits: dtype for dtype in (UINT1, UINT2, UINT4, UINT6)}
    data = packed.astype(np.uint8).tobytes()
    if len(data) != packed_size(count, dtypes[bits]):
        raise ValueError(f"{len(data)} bytes for {count} elements of {bits} bits")
    return unpack(data, count, dtypes[bits]).astype(np.int32)


def _scattered(data: Array, mask: Array) -> Array:
    """`data`, in order, where `mask` is set; 0 elsewhere."""
    mask = mask != 0
    if (count := int(np.sum(mask))) != data.size:
        raise ValueError(f"{data.size} values for {count} places")
    dense = np.zeros(mask.shape, data.dtype)
    dense[mask] = data.reshape(-1)
    return dense


def _blown_up(values: Array, shape: Sequence[int]) -> Array:
    """`values` repeated in blocks to have `shape`."""
    for axis, size in enumerate(shape):
        if size % values.shape[axis]:
            raise ValueError(f"{list(values.shape)} blocks in {list(shape)}")
        values = np.repeat(values, size // values.shape[axis], axis)
    return values


@op()
def constexpr_affine_dequantize(
    quantized_data: Int, zero_point: Number, scale: Float, axis: int
) -> Array:
    return scaled(quantized_data, scale, zero_point, axis)


@op()
def constexpr_cast(source_val: Float, output_dtype: Literal["fp32", "fp16"]) -> Array:
    return source_val


@op()
def constexpr_lut_to_dense(indices: Int, lut: Array, shape: list[int]) -> Array:
    bits = {2: 1, 4: 2, 16: 4, 64: 6, 256: 8}.get(lut.size)
    if bits is None:
        raise UnknownValueError(f"a table of {lut.size} values")
    keys = _unpacked(indices, prod(shape), bits)
    return np.take(lut.reshape(-1), keys).reshape(shape)


@op()
def constexpr_sparse_to_dense(
    nonzero_data: Array, mask: Int, shape: list[int]
) -> Array:
    places = _unpacked(mask, prod(shape), 1)
    return _scattered(nonzero_data, places.reshape(shape))


@op(since=8)
def constexpr_blockwise_shift_scale(
    data: Number, scale: Float, offset: Number | None = None
) -> Array:
    if offset is not None:
        data = data - _blown_up(offset, data.shape)
    return _blown_up(scale, data.shape) * data.astype(scale.dtype)


@op("constexpr_lut_to_dense", since=8)
def constexpr_lut_to_dense_ios18(
    indices: Int, lut: Array, vector_axis: int | None = None
) -> Array:
    """`lut` is [blocks of indices..., palettes, vector]."""
    *blocks, palettes, width = lut.shape
    if np.any(indices >= palettes):
        raise ValueError(f"an index is not in [0, {palettes})")
    tables = np.arange(prod(blocks)).reshape(blocks)
    rows = _blown_up(tables, indices.shape) * palettes + indices
    vectors = np.take(lut.reshape(-1, width), rows, 0)
    if width == 1:
        return vectors[..., 0]
    if vector_axis is None:
        raise UnknownValueError(f"vectors of {width} without vector_axis")
    axis = vector_axis % indices.ndim
    return merged(np.moveaxis(vectors, -1, axis + 1), axis)


@op("constexpr_sparse_to_dense", since=8)
def constexpr_sparse_to_dense_ios18(nonzero_data: Array, mask: Int) -> Array:
    return _scattered(nonzero_data, mask)


@op(since=8)
def constexpr_lut_to_sparse(
    indices_mask: Int,
    indices_nonzero_data: Int,
    lut: Array,
    vector_axis: int | None = None,
) -> tuple[Array, Array]:
    indices = _scattered(indices_nonzero_data, indices_mask)
    dense = constexpr_lut_to_dense_ios18(indices, lut, vector_axis)
    mask = _blown_up(indices_mask, dense.shape)
    return mask, dense[mask != 0]


@op(since=8)
def constexpr_sparse_blockwise_shift_scale(
    data_mask: Int, nonzero_data: Number, scale: Float, offset: Number | None = None
) -> tuple[Array, Array]:
    dense = _scattered(nonzero_data, data_mask)
    shifted = constexpr_blockwise_shift_scale(dense, scale, offset)
    return data_mask, shifted[data_mask != 0]
