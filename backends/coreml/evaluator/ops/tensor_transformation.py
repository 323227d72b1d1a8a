"""Ops that move elements about, by the docstrings of coremltools' mil/ops/defs:
iOS15, iOS16, iOS17 and iOS18 tensor_transformation.py.

The order of the elements within a block of depth_to_space, space_to_batch and their
inverses is not documented. It is that of TensorFlow's ops of the same names, for which
they exist.
"""

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from padc.backends.coreml.evaluator.ops.layout import counted, narrow
from padc.backends.coreml.evaluator.ops.registry import Float, Int, op
from padc.backends.coreml.evaluator.values import kernels
from padc.backends.coreml.evaluator.values.types import Array


@op()
def depth_to_space(x: Float, block_size: int) -> Array:
    n, c, h, w = x.shape
    x = x.reshape(n, block_size, block_size, -1, h, w).transpose(0, 3, 4, 1, 5, 2)
    return x.reshape(n, c // block_size**2, h * block_size, w * block_size)


@op()
def space_to_depth(x: Float, block_size: int) -> Array:
    n, c, h, w = x.shape
    h, w = h // block_size, w // block_size
    x = x.reshape(n, c, h, block_size, w, block_size).transpose(0, 3, 5, 1, 2, 4)
    return x.reshape(n, -1, h, w)


@op()
def space_to_batch(x: Float, block_shape: list[int], paddings: list[int]) -> Array:
    x = kernels.pad(x, list(zip(paddings[::2], paddings[1::2], strict=True)), 0.0)
    n, c, h, w = x.shape
    down, across = block_shape
    x = x.reshape(n, c, h // down, down, w // across, across)
    return x.transpose(3, 5, 0, 1, 2, 4).reshape(-1, c, h // down, w // across)


@op()
def batch_to_space(x: Float, block_shape: list[int], crops: list[int]) -> Array:
    n, c, h, w = x.shape
    down, across = block_shape
    x = x.reshape(down, across, -1, c, h, w).transpose(2, 3, 4, 0, 5, 1)
    x = x.reshape(n // (down * across), c, h * down, w * across)
    amounts = [-amount for amount in crops]
    return kernels.pad(x, list(zip(amounts[::2], amounts[1::2], strict=True)), 0.0)


@op()
def pixel_shuffle(x: Float, upscale_factor: int) -> Array:
    n, c, h, w = x.shape
    r = upscale_factor
    x = x.reshape(n, -1, r, r, h, w).transpose(0, 1, 4, 2, 5, 3)
    return x.reshape(n, c // r**2, h * r, w * r)


@op(since=6)
def pixel_unshuffle(x: Float, downscale_factor: int) -> Array:
    n, c, h, w = x.shape
    r = downscale_factor
    h, w = h // r, w // r
    x = x.reshape(n, c, h, r, w, r).transpose(0, 1, 3, 5, 2, 4)
    return x.reshape(n, c * r**2, h, w)


@op()
def expand_dims(x: Array, axes: list[int]) -> Array:
    return np.expand_dims(x, tuple(axes))


@op()
def reshape(x: Array, shape: list[int]) -> Array:
    if 0 in shape and len(shape) != x.ndim:
        raise ValueError(f"shape {shape} has a 0 and not the rank of {list(x.shape)}")
    return x.reshape([size or x.shape[axis] for axis, size in enumerate(shape)])


@op("reshape", since=7)
def reshape_ios17(x: Array, shape: list[int]) -> Array:
    """A 0 is x's dimension counted from the right, or 1 if x does not have it."""
    sizes = [1] * (len(shape) - x.ndim) + list(x.shape)
    sizes = sizes[len(sizes) - len(shape) :]
    return x.reshape([new or old for new, old in zip(shape, sizes, strict=True)])


@op(since=6)
def reshape_like(
    x: Array,
    ref_tensors: list[Array],
    begins: list[int],
    ends: list[int],
    end_masks: list[bool],
) -> Array:
    shape: list[int] = []
    for ref, begin, end, to_end in zip(
        ref_tensors, begins, ends, end_masks, strict=True
    ):
        shape += ref.shape[begin:] if to_end else ref.shape[begin:end]
    return x.reshape(shape)


@op()
def reverse(x: Array, axes: list[int] | None = None) -> Array:
    return np.flip(x, None if axes is None else tuple(axes))


@op()
def reverse_sequence(
    x: Array, lengths: Int, seq_axis: int = 0, batch_axis: int = 0
) -> Array:
    """Reverse the first lengths[i] elements of each batch; keep the rest."""
    seq_axis, batch_axis = seq_axis % x.ndim, batch_axis % x.ndim
    if lengths.shape != (x.shape[batch_axis],):
        raise ValueError(f"{list(lengths.shape)} lengths for x {list(x.shape)}")
    lengths = lengths.astype(np.int64)[:, None]
    positions = counted(x.shape[seq_axis])
    source = np.where(positions < lengths, lengths - 1 - positions, positions)
    rows = np.moveaxis(x, (batch_axis, seq_axis), (0, 1))
    source = source.reshape(*source.shape, *[1] * (x.ndim - 2))
    picked = np.take_along_axis(rows, source, 1)
    return np.moveaxis(picked, (0, 1), (batch_axis, seq_axis))


def _sliced(
    x: Array,
    begin: list[int],
    end: list[int],
    stride: list[int] | None,
    begin_mask: list[bool] | None,
    end_mask: list[bool] | None,
    squeeze_mask: list[bool] | None,
) -> Array:
    """A slice of `x` in the style of numpy.

    A masked begin or end is the first or last element in the stride's direction.
    """
    rank = x.ndim
    no = [False] * rank
    squeezed = squeeze_mask or no
    for axis, (first, last, step, from_start, to_end, squeeze) in enumerate(
        zip(
            *(begin, end, stride or [1] * rank),
            *(begin_mask or no, end_mask or no, squeezed),
            strict=True,
        )
    ):
        positions = range(x.shape[axis])
        start = None if from_start else first
        if squeeze:
            index = positions[start or 0]
            taken = range(index, index + 1)
        else:
            taken = positions[slice(start, None if to_end else last, step)]
        if taken.step > 0:
            x = narrow(x, axis, taken.start, max(taken.stop - taken.start, 0))
            x = x[(slice(None),) * axis + (slice(None, None, taken.step),)]
        else:
            x = np.take(x, np.array(taken, np.int64), axis)
    return np.squeeze(x, tuple(axis for axis in range(rank) if squeezed[axis]))


@op()
def slice_by_index(
    x: Array,
    begin: list[int],
    end: list[int],
    stride: list[int] | None = None,
    begin_mask: list[bool] | None = None,
    end_mask: list[bool] | None = None,
    squeeze_mask: list[bool] | None = None,
) -> Array:
    return _sliced(x, begin, end, stride, begin_mask, end_mask, squeeze_mask)


@op(since=8)
def slice_update(
    x: Array,
    update: Array,
    begin: list[int],
    end: list[int],
    stride: list[int] | None = None,
    begin_mask: list[bool] | None = None,
    end_mask: list[bool] | None = None,
    squeeze_mask: list[bool] | None = None,
) -> Array:
    places = counted(x.size).reshape(x.shape)
    places = _sliced(places, begin, end, stride, begin_mask, end_mask, squeeze_mask)
    if places.shape != update.shape:
        raise ValueError(f"{list(update.shape)} for {list(places.shape)} elements")
    flat = kernels.scatter_along_axis(
        *(x.reshape(-1), places.reshape(-1), update.reshape(-1), 0, "update")
    )
    return flat.reshape(x.shape)


@op()
def slice_by_size(x: Array, begin: list[int], size: list[int]) -> Array:
    for axis, (start, length) in enumerate(zip(begin, size, strict=True)):
        length = x.shape[axis] - start if length == -1 else length
        if start < 0:
            raise ValueError(f"begin {begin} is negative")
        x = narrow(x, axis, start, length)
    return x


@op()
def squeeze(x: Array, axes: list[int] | None = None) -> Array:
    """Only sizes of 1 are dropped."""
    chosen = range(x.ndim) if axes is None else axes
    return np.squeeze(x, tuple(axis for axis in chosen if x.shape[axis] == 1))


@op()
def transpose(x: Array, perm: list[int]) -> Array:
    return x.transpose(perm)


@op()
def sliding_windows(x: Array, axis: int, size: int, stride: int = 1) -> Array:
    axis %= x.ndim
    windows = sliding_window_view(x, size, axis)
    windows = windows[(slice(None),) * axis + (slice(None, None, stride),)]
    return np.moveaxis(windows, -1, axis + 1)
