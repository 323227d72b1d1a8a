"""Ops on whole tensors, by the docstrings of coremltools' mil/ops/defs: iOS15, iOS16
and iOS17 tensor_operation.py."""

from itertools import accumulate
from math import ceil, prod
from typing import Literal

import numpy as np

from padc.backends.coreml.evaluator.ops.layout import (
    counted,
    merged,
    narrow,
    sorted_order,
)
from padc.backends.coreml.evaluator.ops.registry import (
    Float,
    Int,
    Number,
    UnknownValueError,
    op,
)
from padc.backends.coreml.evaluator.values import kernels
from padc.backends.coreml.evaluator.values.dataless import is_dataless
from padc.backends.coreml.evaluator.values.limits import allowed, steps
from padc.backends.coreml.evaluator.values.types import Array, TensorType


@op()
def band_part(x: Array, lower: int = -1, upper: int = -1) -> Array:
    below = counted(x.shape[-2])[:, None] - counted(x.shape[-1])
    keep = np.ones_like(below, dtype=np.bool_)
    if lower >= 0:
        keep &= below <= lower
    if upper >= 0:
        keep &= -below <= upper
    return np.where(keep, x, np.zeros_like(x))


@op()
def cumsum(
    x: Number, axis: int = 0, exclusive: bool = False, reverse: bool = False
) -> Array:
    x = np.flip(x, axis) if reverse else x
    if exclusive:
        zero = np.zeros_like(narrow(x, axis, 0, 1))
        x = np.concatenate([zero, narrow(x, axis, 0, x.shape[axis] - 1)], axis)
    total = kernels.cumulative_sum(x, axis)
    return np.flip(total, axis) if reverse else total


@op()
def fill(shape: list[int], value: Array | None = None) -> Array:
    value = np.zeros((), np.float32) if value is None else value
    return np.broadcast_to(value.reshape(()), allowed(*shape))


@op(since=6)
def fill_like(ref_tensor: Array, value: Array | None = None) -> Array:
    return fill(list(ref_tensor.shape), value)


def _overlaps(boxes: Array) -> Array:
    """The intersection over union of each pair of boxes (center, then size)."""
    low, high = boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2
    inside = np.minimum(high[:, None], high) - np.maximum(low[:, None], low)
    common = np.prod(np.maximum(inside, 0), -1)
    areas = np.prod(boxes[:, 2:], -1)
    return common / (areas[:, None] + areas - common)


def _selected(
    boxes: Array, scores: Array, iou_threshold: float, least: float, per_class: bool
) -> list[int]:
    """The boxes that remain of one image, best first; the best one at least."""
    steps(len(boxes))
    allowed(len(boxes), len(boxes), 2)
    best, classes = np.max(scores, -1), np.argmax(scores, -1)
    overlap = _overlaps(boxes) > iou_threshold
    if per_class:
        overlap &= classes[:, None] == classes
    order: list[int] = sorted_order(best, 0, True).tolist()
    kept: list[int] = []
    for box in order:
        if best[box] > least and not np.any(overlap[box, kept]):
            kept.append(box)
    return kept or order[:1]


def _suppressed(
    boxes: Array,
    scores: Array,
    iou_threshold: float,
    score_threshold: float,
    max_boxes: int,
    per_class_suppression: bool,
) -> tuple[Array, Array, Array, Array]:
    """The boxes kept of [n, B, 4], padded with zeros, and their indices, with -1.

    tests/iOS14/test_tensor_operation.py expects this padding, and that at least one box
    remains (`_ref_non_maximum_suppression`).
    """
    batch = len(boxes)
    out_boxes = np.zeros(allowed(batch, max_boxes, 4), boxes.dtype)
    out_scores = np.zeros(allowed(batch, max_boxes, scores.shape[-1]), scores.dtype)
    indices = np.full((batch, max_boxes), -1, np.int32)
    counts = np.zeros(batch, np.int32)
    for n in steps(batch):
        kept = _selected(
            *(boxes[n], scores[n], iou_threshold, score_threshold),
            per_class_suppression,
        )[:max_boxes]
        out_boxes[n, : len(kept)] = boxes[n, kept]
        out_scores[n, : len(kept)] = scores[n, kept]
        indices[n, : len(kept)] = kept
        counts[n] = len(kept)
    return out_boxes, out_scores, indices, counts


@op()
def non_maximum_suppression(
    boxes: Float,
    scores: Float,
    iou_threshold: float,
    score_threshold: float,
    max_boxes: int,
    per_class_suppression: bool = False,
) -> tuple[Array, ...]:
    return _suppressed(
        boxes, scores, iou_threshold, score_threshold, max_boxes, per_class_suppression
    )


@op("non_maximum_suppression", since=7)
def non_maximum_suppression_ios17(
    boxes: Float,
    scores: Float,
    iou_threshold: float,
    max_boxes: int,
    per_class_suppression: bool = False,
) -> tuple[Array, ...]:
    boxes, scores, indices, _ = _suppressed(
        *(boxes.mT, scores.mT, iou_threshold, -np.inf, max_boxes),
        per_class_suppression,
    )
    return boxes.mT, scores.mT, indices


@op()
def non_zero(x: Array) -> Array:
    return np.argwhere(x)


@op()
def one_hot(
    indices: Int,
    one_hot_vector_size: int,
    axis: int = -1,
    on_value: Array | None = None,
    off_value: Array | None = None,
) -> Array:
    is_inside = (indices >= 0) & (indices < one_hot_vector_size)
    if not is_dataless(indices) and not np.all(is_inside):
        raise UnknownValueError(f"an index not in [0, {one_hot_vector_size})")
    on_value = np.ones((), np.int32) if on_value is None else on_value
    off_value = np.zeros_like(on_value) if off_value is None else off_value
    hot = indices[..., None] == counted(one_hot_vector_size)
    return np.moveaxis(np.where(hot, on_value, off_value), -1, axis)


def _outside(size: int, before: int, after: int, mode: str) -> Array:
    """The positions of x that a reflected or replicated dimension reads."""
    limit = size - 1 if mode == "reflect" else size
    if not (0 <= before <= limit and 0 <= after <= limit):
        raise ValueError(f"{mode} takes at most {limit}, not {before} and {after}")
    positions = counted(before + size + after) - before
    if mode == "replicate":
        return np.clip(positions, 0, size - 1)
    return size - 1 - np.abs(size - 1 - np.abs(positions))


@op()
def pad(
    x: Float,
    pad: list[int],
    mode: Literal["constant", "reflect", "replicate"] = "constant",
    constant_val: float = 0.0,
) -> Array:
    """`pad` is (before, after) of each of the last len(pad) / 2 dimensions.

    Core ML takes rank 5 at most, and loads no reflect or replicate outside of the
    last two dimensions.
    """
    amounts = list(zip(pad[::2], pad[1::2], strict=True))
    if min(pad, default=0) < 0 or len(amounts) > x.ndim or x.ndim > 5:
        raise ValueError(f"pad {pad} of a tensor of rank {x.ndim}")
    if mode == "constant":
        return kernels.pad(x, amounts, constant_val)
    for axis, (before, after) in enumerate(amounts, x.ndim - len(amounts)):
        if (before or after) and axis < x.ndim - 2:
            raise ValueError(f"{mode} of dimension {axis} of rank {x.ndim}")
        if before or after:
            positions = _outside(x.shape[axis], before, after, mode)
            x = np.take(x, positions, axis)
    return x


@op()
def range_1d(start: float, end: float, step: float, *, result: TensorType) -> Array:
    if (steps_between := (end - start) / step) < 0:
        raise ValueError(f"no steps of {step} go from {start} to {end}")
    values = start + step * counted(ceil(steps_between))
    return values.astype(result.dtype.held_as)


@op()
def tile(x: Array, reps: list[int]) -> Array:
    if len(reps) != x.ndim:
        raise ValueError(f"reps {reps} of a tensor of rank {x.ndim}")
    return np.tile(x, reps)


@op()
def argsort(x: Number, axis: int = -1, ascending: bool = False) -> Array:
    return sorted_order(x, axis, not ascending)


@op()
def topk(
    x: Number,
    k: int = 1,
    axis: int = -1,
    ascending: bool = False,
    sort: bool = True,
    return_indices: bool = True,
    output_indices_dtype: Literal["int32", "uint16"] = "int32",
) -> tuple[Array, ...]:
    k = x.shape[axis] if k == -1 else k
    indices = narrow(sorted_order(x, axis, not ascending), axis, 0, k)
    values = np.take_along_axis(x, indices, axis)
    return (values, indices) if return_indices else (values,)


@op()
def flatten2d(x: Array, axis: int = 1) -> Array:
    return x.reshape(prod(x.shape[:axis]), prod(x.shape[axis:]))


@op()
def shape(x: Array) -> Array:
    return np.array(x.shape, np.int32)


@op()
def concat(values: list[Array], axis: int, interleave: bool = False) -> Array:
    """Scalars, which the documentation does not mention, are vectors of one element:
    that is how coremltools joins the dimensions of a dynamic shape."""
    values = [value.reshape(1) if value.ndim == 0 else value for value in values]
    if not interleave:
        return np.concatenate(values, axis)
    axis %= values[0].ndim
    return merged(np.stack(values, axis + 1), axis)


@op()
def split(
    x: Array,
    axis: int,
    num_splits: int | None = None,
    split_sizes: list[int] | None = None,
) -> tuple[Array, ...]:
    if split_sizes is not None:
        if sum(split_sizes) != x.shape[axis]:
            raise ValueError(f"{x.shape[axis]} elements in parts of {split_sizes}")
        ends = accumulate(split_sizes)
        return tuple(
            narrow(x, axis, end - size, size)
            for size, end in zip(split_sizes, ends, strict=True)
        )
    if not num_splits or x.shape[axis] < num_splits or x.shape[axis] % num_splits:
        raise ValueError(f"{x.shape[axis]} elements in {num_splits} equal parts")
    return tuple(np.split(x, num_splits, axis))


@op()
def stack(values: list[Array], axis: int) -> Array:
    return np.stack(values, axis)


@op()
def identity(x: Array) -> Array:
    return x
