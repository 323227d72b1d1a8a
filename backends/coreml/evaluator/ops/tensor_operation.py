"""Ops on whole tensors, by the docstrings of coremltools' mil/ops/defs: iOS15, iOS16
and iOS17 tensor_operation.py."""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from padc.backends.coreml.evaluator.ops.conv import pad_spatial
from padc.backends.coreml.evaluator.ops.registry import (
    Float,
    Int,
    Number,
    UnknownValueError,
    op,
)
from padc.backends.coreml.evaluator.types import TensorType


@op()
def band_part(x: Tensor, lower: int = -1, upper: int = -1) -> Tensor:
    below = torch.arange(x.shape[-2])[:, None] - torch.arange(x.shape[-1])
    keep = torch.ones_like(below, dtype=torch.bool)
    if lower >= 0:
        keep &= below <= lower
    if upper >= 0:
        keep &= -below <= upper
    return torch.where(keep, x, torch.zeros_like(x))


@op()
def cumsum(
    x: Number, axis: int = 0, exclusive: bool = False, reverse: bool = False
) -> Tensor:
    x = x.flip(axis) if reverse else x
    if exclusive:
        zero = torch.zeros_like(x.narrow(axis, 0, 1))
        x = torch.cat([zero, x.narrow(axis, 0, x.shape[axis] - 1)], axis)
    total = x.cumsum(axis)
    return total.flip(axis) if reverse else total


@op()
def fill(shape: list[int], value: Tensor | None = None) -> Tensor:
    value = torch.tensor(0.0) if value is None else value
    return value.reshape(()).expand(shape)


@op(since=6)
def fill_like(ref_tensor: Tensor, value: Tensor | None = None) -> Tensor:
    return fill(list(ref_tensor.shape), value)


def _overlaps(boxes: Tensor) -> Tensor:
    """The intersection over union of each pair of boxes (center, then size)."""
    low, high = boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2
    inside = torch.minimum(high[:, None], high) - torch.maximum(low[:, None], low)
    common = inside.clamp(min=0).prod(-1)
    areas = boxes[:, 2:].prod(-1)
    return common / (areas[:, None] + areas - common)


def _selected(
    boxes: Tensor, scores: Tensor, iou_threshold: float, least: float, per_class: bool
) -> list[int]:
    """The boxes that remain of one image, best first; the best one at least."""
    best, classes = scores.max(-1)
    overlap = _overlaps(boxes) > iou_threshold
    if per_class:
        overlap &= classes[:, None] == classes
    order: list[int] = [int(box) for box in best.argsort(descending=True, stable=True)]
    kept: list[int] = []
    for box in order:
        if best[box] > least and not overlap[box, kept].any():
            kept.append(box)
    return kept or order[:1]


def _suppressed(
    boxes: Tensor,
    scores: Tensor,
    iou_threshold: float,
    score_threshold: float,
    max_boxes: int,
    per_class_suppression: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The boxes kept of [n, B, 4], padded with zeros, and their indices, with -1.

    That, and that one box always remains, is what tests/iOS14/
    test_tensor_operation.py expects (`_ref_non_maximum_suppression`).
    """
    batch = len(boxes)
    out_boxes = boxes.new_zeros(batch, max_boxes, 4)
    out_scores = scores.new_zeros(batch, max_boxes, scores.shape[-1])
    indices = torch.full((batch, max_boxes), -1, dtype=torch.int32)
    counts = torch.zeros(batch, dtype=torch.int32)
    for n in range(batch):
        kept = _selected(
            *(boxes[n], scores[n], iou_threshold, score_threshold),
            per_class_suppression,
        )[:max_boxes]
        out_boxes[n, : len(kept)] = boxes[n, kept]
        out_scores[n, : len(kept)] = scores[n, kept]
        indices[n, : len(kept)] = torch.tensor(kept, dtype=torch.int32)
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
) -> tuple[Tensor, ...]:
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
) -> tuple[Tensor, ...]:
    boxes, scores, indices, _ = _suppressed(
        *(boxes.mT, scores.mT, iou_threshold, -torch.inf, max_boxes),
        per_class_suppression,
    )
    return boxes.mT, scores.mT, indices


@op()
def non_zero(x: Tensor) -> Tensor:
    return torch.nonzero(x)


@op()
def one_hot(
    indices: Int,
    one_hot_vector_size: int,
    axis: int = -1,
    on_value: Tensor | None = None,
    off_value: Tensor | None = None,
) -> Tensor:
    if not ((indices >= 0) & (indices < one_hot_vector_size)).all():
        raise UnknownValueError(f"an index not in [0, {one_hot_vector_size})")
    on_value = torch.tensor(1, dtype=torch.int32) if on_value is None else on_value
    off_value = torch.zeros_like(on_value) if off_value is None else off_value
    hot = F.one_hot(indices.to(torch.int64), one_hot_vector_size).to(torch.bool)
    return torch.where(hot, on_value, off_value).movedim(-1, axis)


def _outside(size: int, before: int, after: int, mode: str) -> Tensor:
    """The positions of x that a reflected or replicated dimension reads."""
    limit = size - 1 if mode == "reflect" else size
    if not (0 <= before <= limit and 0 <= after <= limit):
        raise ValueError(f"{mode} takes at most {limit}, not {before} and {after}")
    positions = torch.arange(-before, size + after)
    if mode == "replicate":
        return positions.clamp(0, size - 1)
    return size - 1 - (size - 1 - positions.abs()).abs()


@op()
def pad(
    x: Float,
    pad: list[int],
    mode: Literal["constant", "reflect", "replicate"] = "constant",
    constant_val: float = 0.0,
) -> Tensor:
    """`pad` is (before, after) of each of the last len(pad) / 2 dimensions.

    Core ML takes rank 5 at most, and loads no reflect or replicate outside of the
    last two dimensions.
    """
    amounts = list(zip(pad[::2], pad[1::2], strict=True))
    if min(pad, default=0) < 0 or len(amounts) > x.dim() or x.dim() > 5:
        raise ValueError(f"pad {pad} of a tensor of rank {x.dim()}")
    if mode == "constant":
        return pad_spatial(x, amounts, constant_val)
    for axis, (before, after) in enumerate(amounts, x.dim() - len(amounts)):
        if (before or after) and axis < x.dim() - 2:
            raise ValueError(f"{mode} of dimension {axis} of rank {x.dim()}")
        if before or after:
            positions = _outside(x.shape[axis], before, after, mode)
            x = x.index_select(axis, positions)
    return x


@op()
def range_1d(start: float, end: float, step: float, *, result: TensorType) -> Tensor:
    return torch.arange(start, end, step, dtype=result.dtype.held_as)


@op()
def tile(x: Tensor, reps: list[int]) -> Tensor:
    if len(reps) != x.dim():
        raise ValueError(f"reps {reps} of a tensor of rank {x.dim()}")
    return x.tile(reps)


@op()
def argsort(x: Number, axis: int = -1, ascending: bool = False) -> Tensor:
    return x.argsort(dim=axis, descending=not ascending, stable=True)


@op()
def topk(
    x: Number,
    k: int = 1,
    axis: int = -1,
    ascending: bool = False,
    sort: bool = True,
    return_indices: bool = True,
    output_indices_dtype: Literal["int32", "uint16"] = "int32",
) -> tuple[Tensor, ...]:
    values, indices = x.sort(dim=axis, descending=not ascending, stable=True)
    k = x.shape[axis] if k == -1 else k
    values, indices = values.narrow(axis, 0, k), indices.narrow(axis, 0, k)
    return (values, indices) if return_indices else (values,)


@op()
def flatten2d(x: Tensor, axis: int = 1) -> Tensor:
    before = x.shape[:axis].numel()
    return x.reshape(before, x.shape[axis:].numel())


@op()
def shape(x: Tensor) -> Tensor:
    return torch.tensor(x.shape, dtype=torch.int32)


@op()
def concat(values: list[Tensor], axis: int, interleave: bool = False) -> Tensor:
    """Scalars, which the documentation does not mention, are vectors of one element:
    that is how coremltools joins the dimensions of a dynamic shape."""
    values = [value.reshape(1) if value.dim() == 0 else value for value in values]
    if not interleave:
        return torch.cat(values, axis)
    axis %= values[0].dim()
    return torch.stack(values, axis + 1).flatten(axis, axis + 1)


@op()
def split(
    x: Tensor,
    axis: int,
    num_splits: int | None = None,
    split_sizes: list[int] | None = None,
) -> tuple[Tensor, ...]:
    if split_sizes is not None:
        return torch.split_with_sizes(x, split_sizes, axis)
    if not num_splits or x.shape[axis] < num_splits or x.shape[axis] % num_splits:
        raise ValueError(f"{x.shape[axis]} elements in {num_splits} equal parts")
    return torch.tensor_split(x, num_splits, axis)


@op()
def stack(values: list[Tensor], axis: int) -> Tensor:
    return torch.stack(values, axis)


@op()
def identity(x: Tensor) -> Tensor:
    return x
