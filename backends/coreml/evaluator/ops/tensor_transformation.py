"""Ops that move elements about, by the docstrings of coremltools' mil/ops/defs:
iOS15, iOS16, iOS17 and iOS18 tensor_transformation.py.

The order of the elements within a block of depth_to_space, space_to_batch and their
inverses is not documented. It is that of TensorFlow's ops of the same names, for which
they exist.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from padc.backends.coreml.evaluator.ops.registry import Float, Int, op


@op()
def depth_to_space(x: Float, block_size: int) -> Tensor:
    n, c, h, w = x.shape
    x = x.reshape(n, block_size, block_size, -1, h, w).permute(0, 3, 4, 1, 5, 2)
    return x.reshape(n, c // block_size**2, h * block_size, w * block_size)


@op()
def space_to_depth(x: Float, block_size: int) -> Tensor:
    n, c, h, w = x.shape
    h, w = h // block_size, w // block_size
    x = x.reshape(n, c, h, block_size, w, block_size).permute(0, 3, 5, 1, 2, 4)
    return x.reshape(n, -1, h, w)


@op()
def space_to_batch(x: Float, block_shape: list[int], paddings: list[int]) -> Tensor:
    x = F.pad(x, [*paddings[2:], *paddings[:2]])
    n, c, h, w = x.shape
    down, across = block_shape
    x = x.reshape(n, c, h // down, down, w // across, across)
    return x.permute(3, 5, 0, 1, 2, 4).reshape(-1, c, h // down, w // across)


@op()
def batch_to_space(x: Float, block_shape: list[int], crops: list[int]) -> Tensor:
    n, c, h, w = x.shape
    down, across = block_shape
    x = x.reshape(down, across, -1, c, h, w).permute(2, 3, 4, 0, 5, 1)
    x = x.reshape(n // (down * across), c, h * down, w * across)
    return F.pad(x, [-amount for amount in (*crops[2:], *crops[:2])])


@op()
def pixel_shuffle(x: Float, upscale_factor: int) -> Tensor:
    return F.pixel_shuffle(x, upscale_factor)


@op(since=6)
def pixel_unshuffle(x: Float, downscale_factor: int) -> Tensor:
    return F.pixel_unshuffle(x, downscale_factor)


@op()
def expand_dims(x: Tensor, axes: list[int]) -> Tensor:
    rank = x.dim() + len(axes)
    for axis in sorted(axis % rank for axis in axes):
        x = x.unsqueeze(axis)
    return x


@op()
def reshape(x: Tensor, shape: list[int]) -> Tensor:
    if 0 in shape and len(shape) != x.dim():
        raise ValueError(f"shape {shape} has a 0 and not the rank of {list(x.shape)}")
    return x.reshape([size or x.shape[axis] for axis, size in enumerate(shape)])


@op("reshape", since=7)
def reshape_ios17(x: Tensor, shape: list[int]) -> Tensor:
    """A 0 is x's dimension counted from the right, or 1 if x does not have it."""
    sizes = [1] * (len(shape) - x.dim()) + list(x.shape)
    sizes = sizes[len(sizes) - len(shape) :]
    return x.reshape([new or old for new, old in zip(shape, sizes, strict=True)])


@op(since=6)
def reshape_like(
    x: Tensor,
    ref_tensors: list[Tensor],
    begins: list[int],
    ends: list[int],
    end_masks: list[bool],
) -> Tensor:
    shape: list[int] = []
    for ref, begin, end, to_end in zip(
        ref_tensors, begins, ends, end_masks, strict=True
    ):
        shape += ref.shape[begin:] if to_end else ref.shape[begin:end]
    return x.reshape(shape)


@op()
def reverse(x: Tensor, axes: list[int] | None = None) -> Tensor:
    return x.flip(list(range(x.dim())) if axes is None else axes)


@op()
def reverse_sequence(
    x: Tensor, lengths: Int, seq_axis: int = 0, batch_axis: int = 0
) -> Tensor:
    """Reverse the first lengths[i] elements of each batch; keep the rest."""
    seq_axis, batch_axis = seq_axis % x.dim(), batch_axis % x.dim()
    lengths = lengths.to(torch.int64)[:, None]
    positions = torch.arange(x.shape[seq_axis])
    source = torch.where(positions < lengths, lengths - 1 - positions, positions)
    rows = x.movedim((batch_axis, seq_axis), (0, 1))
    picked = rows[torch.arange(len(lengths))[:, None], source]
    return picked.movedim((0, 1), (batch_axis, seq_axis))


def _sliced(
    x: Tensor,
    begin: list[int],
    end: list[int],
    stride: list[int] | None,
    begin_mask: list[bool] | None,
    end_mask: list[bool] | None,
    squeeze_mask: list[bool] | None,
) -> Tensor:
    """A slice of `x` in the style of numpy.

    A masked begin or end is the first or last element in the stride's direction.
    """
    rank = x.dim()
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
            x = x.narrow(axis, taken.start, max(taken.stop - taken.start, 0))
            x = x[(slice(None),) * axis + (slice(None, None, taken.step),)]
        else:
            x = x.index_select(axis, torch.tensor(taken, dtype=torch.int64))
    return x.squeeze([axis for axis in range(rank) if squeezed[axis]])


@op()
def slice_by_index(
    x: Tensor,
    begin: list[int],
    end: list[int],
    stride: list[int] | None = None,
    begin_mask: list[bool] | None = None,
    end_mask: list[bool] | None = None,
    squeeze_mask: list[bool] | None = None,
) -> Tensor:
    return _sliced(x, begin, end, stride, begin_mask, end_mask, squeeze_mask)


@op(since=8)
def slice_update(
    x: Tensor,
    update: Tensor,
    begin: list[int],
    end: list[int],
    stride: list[int] | None = None,
    begin_mask: list[bool] | None = None,
    end_mask: list[bool] | None = None,
    squeeze_mask: list[bool] | None = None,
) -> Tensor:
    places = torch.arange(x.numel()).reshape(x.shape)
    places = _sliced(places, begin, end, stride, begin_mask, end_mask, squeeze_mask)
    if places.shape != update.shape:
        raise ValueError(f"{list(update.shape)} for {list(places.shape)} elements")
    flat = x.reshape(-1).scatter(0, places.reshape(-1), update.reshape(-1))
    return flat.reshape(x.shape)


@op()
def slice_by_size(x: Tensor, begin: list[int], size: list[int]) -> Tensor:
    for axis, (start, length) in enumerate(zip(begin, size, strict=True)):
        length = x.shape[axis] - start if length == -1 else length
        if start < 0:
            raise ValueError(f"begin {begin} is negative")
        x = x.narrow(axis, start, length)
    return x


@op()
def squeeze(x: Tensor, axes: list[int] | None = None) -> Tensor:
    return x.squeeze() if axes is None else x.squeeze(axes)


@op()
def transpose(x: Tensor, perm: list[int]) -> Tensor:
    return x.permute(perm)


@op()
def sliding_windows(x: Tensor, axis: int, size: int, stride: int = 1) -> Tensor:
    axis %= x.dim()
    return x.unfold(axis, size, stride).movedim(-1, axis + 1)
