"""Resizing, by the docstrings of coremltools' mil/ops/defs: iOS15, iOS16 and iOS17
image_resizing.py.

They do not say which pixel is nearest. It is the one of the TensorFlow op which
coremltools' converter translates to each op (frontend/tensorflow/ops.py,
`ResizeNearestNeighbor`): `upsample_nearest_neighbor` without half_pixel_centers, and
`resize_nearest_neighbor` and `resize` with. tests/iOS15/test_image_resizing.py
(fractional scales) and tests/iOS17/test_image_resizing.py (2 rows to 3) agree.
"""

from math import prod
from typing import Literal

import numpy as np

from padc.backends.coreml.evaluator.ops.layout import counted, narrow
from padc.backends.coreml.evaluator.ops.registry import (
    Float,
    Number,
    UnknownValueError,
    op,
)
from padc.backends.coreml.evaluator.values import kernels
from padc.backends.coreml.evaluator.values.dataless import is_dataless
from padc.backends.coreml.evaluator.values.limits import allowed, steps
from padc.backends.coreml.evaluator.values.types import Array

SamplingMode = Literal[
    "DEFAULT",
    "STRICT_ALIGN_CORNERS",
    "ALIGN_CORNERS",
    "OFFSET_CORNERS",
    "UNALIGN_CORNERS",
]


def _scaled(x: Array, height: float, width: float) -> tuple[int, int]:
    return int(x.shape[-2] * height), int(x.shape[-1] * width)


def _nearest(x: Array, axis: int, size: int, half_pixel: bool) -> Array:
    old, i = x.shape[axis], counted(size)
    rows = (2 * i + 1) * old // (2 * size) if half_pixel else i * old // size
    return np.take(x, rows, axis)


def _grid(old: float, new: int, mode: SamplingMode) -> Array:
    """The positions of the `new` points among `old` pixels (iOS15 `resize_bilinear`).

    The precision is not documented. It is assumed to be float32: the distance between
    two points is rounded, then the formula's result, once.
    """
    i = counted(new).astype(np.float64)
    match mode:
        case "STRICT_ALIGN_CORNERS" | "ALIGN_CORNERS":
            if new == 1:
                middle = (old - 1) / 2 if mode == "ALIGN_CORNERS" else 0.0
                return np.full(1, middle, np.float32)
            points = i * _rounded((old - 1) / (new - 1))
        case "DEFAULT":
            # (old - old / new) / (new - 1) is old / new.
            points = i * _rounded(old / new)
        case "OFFSET_CORNERS":
            points = (i + 0.5) * _rounded(max(1, old - 1) / new)
        case "UNALIGN_CORNERS":
            points = (i + 0.5) * _rounded(old / new) - 0.5
    points = points.astype(np.float32)
    # A box of `crop_resize` may end before it starts.
    return np.clip(points, min(0, old - 1), max(0, old - 1))


def _rounded(number: float) -> float:
    return float(np.float32(number))


def _at(x: Array, axis: int, points: Array, outside: float) -> Array:
    """`x` at positions between those of its elements."""
    last = x.shape[axis] - 1
    shape = [1] * x.ndim
    shape[axis] = -1
    is_out = ((points < 0) | (points > last)).reshape(shape)
    points = np.clip(points, 0, last)
    floor = np.floor(points)
    low = floor.astype(np.int64)
    high = np.minimum(low + 1, last)
    weight = (points - floor).reshape(shape)
    first = np.take(x, low, axis)
    y = first + weight * (np.take(x, high, axis) - first)
    return np.where(is_out, np.float32(outside), y)


def _linear(x: Array, axis: int, size: int, mode: SamplingMode) -> Array:
    axis %= x.ndim
    return _at(x, axis, _grid(x.shape[axis], size, mode), 0.0)


def _bilinear(x: Array, height: int, width: int, mode: SamplingMode) -> Array:
    return _linear(_linear(x, -2, height, mode), -1, width, mode)


@op()
def upsample_nearest_neighbor(
    x: Float, scale_factor_height: float = 1, scale_factor_width: float = 1
) -> Array:
    height, width = _scaled(x, scale_factor_height, scale_factor_width)
    return _nearest(_nearest(x, -2, height, False), -1, width, False)


@op()
def resize_nearest_neighbor(
    x: Float, target_size_height: int, target_size_width: int
) -> Array:
    x = _nearest(x, -2, target_size_height, True)
    return _nearest(x, -1, target_size_width, True)


@op()
def upsample_bilinear(
    x: Float,
    scale_factor_height: float = 1,
    scale_factor_width: float = 1,
    align_corners: bool = True,
    half_pixel_centers: bool | None = None,
) -> Array:
    if half_pixel_centers is None:
        half_pixel_centers = not align_corners
    if align_corners and half_pixel_centers:
        raise UnknownValueError("half_pixel_centers together with align_corners")
    mode: SamplingMode = "UNALIGN_CORNERS" if half_pixel_centers else "DEFAULT"
    height, width = _scaled(x, scale_factor_height, scale_factor_width)
    return _bilinear(
        x, height, width, "STRICT_ALIGN_CORNERS" if align_corners else mode
    )


@op()
def resize_bilinear(
    x: Float,
    target_size_height: int = 1,
    target_size_width: int = 1,
    sampling_mode: SamplingMode = "DEFAULT",
) -> Array:
    return _bilinear(x, target_size_height, target_size_width, sampling_mode)


@op(since=7)
def resize(
    x: Float,
    shape: list[int],
    resized_dims: int,
    interpolation_mode: Literal["LINEAR", "NEAREST_NEIGHBOR"] = "LINEAR",
    sampling_mode: SamplingMode = "DEFAULT",
) -> Array:
    for axis in range(-resized_dims, 0):
        size = shape[axis] or x.shape[axis]
        if interpolation_mode == "LINEAR":
            x = _linear(x, axis, size, sampling_mode)
        elif sampling_mode == "DEFAULT":
            x = _nearest(x, axis, size, True)
        else:
            raise UnknownValueError(f"nearest neighbours by {sampling_mode}")
    return x


@op()
def crop(x: Float, crop_height: list[int], crop_width: list[int]) -> Array:
    (top, bottom), (left, right) = crop_height, crop_width
    height, width = x.shape[-2:]
    x = narrow(x, -2, top, height - top - bottom)
    return narrow(x, -1, left, width - left - right)


BoxMode = Literal[
    "CORNERS_HEIGHT_FIRST",
    "CORNERS_WIDTH_FIRST",
    "CENTER_SIZE_HEIGHT_FIRST",
    "CENTER_SIZE_WIDTH_FIRST",
]


def _corners(boxes: Array, mode: BoxMode) -> Array:
    """Boxes [N, 4] as [top, left, bottom, right]."""
    if mode.endswith("WIDTH_FIRST"):
        boxes = np.take(boxes, [1, 0, 3, 2], 1)
    if mode.startswith("CORNERS"):
        return boxes
    center, half = boxes[:, :2], boxes[:, 2:] / 2
    return np.concatenate([center - half, center + half], 1)


def _crops(
    x: Array,
    boxes: Array,
    images: list[int],
    height: int,
    width: int,
    normalized: bool,
    spatial_scale: float,
    box_mode: BoxMode,
    sampling_mode: SamplingMode,
    pad_value: float,
) -> Array:
    """The box `boxes[n]` of the image `images[n]`, resized: [N, C, height, width].

    As in TensorFlow's crop_and_resize, a point outside of the image is `pad_value`.
    """
    allowed(len(images), x.shape[1], height, width)
    steps(len(images))
    size = np.array(x.shape[2:], np.float64)
    corners = _corners(boxes.astype(np.float64), box_mode) * spatial_scale
    corners = corners * np.tile(size - 1, 2) if normalized else corners
    crops: list[Array] = []
    for image, corner in zip(images, corners, strict=True):
        crop = x[image]
        for axis, count in enumerate((height, width)):
            start, end = float(corner[axis]), float(corner[axis + 2])
            points = start + _grid(end - start + 1, count, sampling_mode)
            crop = _at(crop, axis + 1, points, pad_value)
        crops.append(crop)
    return np.stack(crops)


@op()
def crop_resize(
    x: Float,
    roi: Float,
    target_height: int = 1,
    target_width: int = 1,
    normalized_coordinates: bool = False,
    spatial_scale: float = 1.0,
    box_coordinate_mode: BoxMode = "CORNERS_HEIGHT_FIRST",
    sampling_mode: SamplingMode = "DEFAULT",
    pad_value: float = 0.0,
) -> Array:
    """`pad_value` is iOS16's. `roi` [N, 1, 5, 1, 1] names the image of each box."""
    boxes = roi.reshape(len(roi), -1)
    every = list(steps(len(x)))
    if boxes.shape[1] == 5:
        chosen = [[int(image)] for image in boxes[:, 0].tolist()]
    else:
        chosen = [every] * len(boxes)
    rows = [
        _crops(
            *(x, np.broadcast_to(boxes[n, -4:], (len(images), 4)), images),
            *(target_height, target_width, normalized_coordinates, spatial_scale),
            *(box_coordinate_mode, sampling_mode, pad_value),
        )
        for n, images in enumerate(chosen)
    ]
    return np.stack(rows)


@op("crop_resize", since=7)
def crop_resize_ios17(
    x: Float,
    boxes: Number,
    box_indices: list[int] | None = None,
    target_height: int = 1,
    target_width: int = 1,
    normalized_coordinates: bool = False,
    spatial_scale: float = 1.0,
    box_coordinate_mode: BoxMode = "CORNERS_HEIGHT_FIRST",
    sampling_mode: SamplingMode = "DEFAULT",
    pad_value: float = 0.0,
) -> Array:
    images = list(steps(len(boxes))) if box_indices is None else box_indices
    return _crops(
        *(x, boxes, images, target_height, target_width, normalized_coordinates),
        *(spatial_scale, box_coordinate_mode, sampling_mode, pad_value),
    )


PaddingMode = Literal["constant", "border", "reflection", "symmetric"]


def _padded(at: Array, size: int, mode: PaddingMode) -> Array:
    """The position in the image of a position in the padded image; 0 for NaN.

    Positions may be between pixels. A constant border has no position in the image.
    """
    match mode:
        case "constant":
            return at
        case "border":
            pass
        case "reflection":
            period = max(2 * (size - 1), 1)
            at = np.remainder(np.abs(at), period)
            at = np.minimum(at, period - at)
        case "symmetric":
            at = np.remainder(np.abs(at + 0.5), 2 * size)
            at = np.minimum(at, 2 * size - at) - 0.5
    return np.where(np.isnan(at), np.float32(0), np.clip(at, 0, size - 1))


def _half_up(at: Array, size: int, mode: PaddingMode) -> Array:
    return _padded(np.floor(at.astype(np.float64) + 0.5), size, mode)


def _half_away_from_zero(at: Array, size: int, mode: PaddingMode) -> Array:
    away = np.trunc(at.astype(np.float64) + np.copysign(0.5, at))
    return _padded(away, size, mode)


def _half_to_even_inside(at: Array, size: int, mode: PaddingMode) -> Array:
    return np.rint(_padded(at, size, mode))


@op()
def resample(
    x: Float,
    coordinates: Array,
    sampling_mode: Literal["bilinear", "nearest"],
    padding_mode: PaddingMode,
    padding_value: float,
    coordinates_mode: Literal[
        "unnormalized", "normalized_minus_one_to_one", "normalized_zero_to_one"
    ],
    align_corners: bool,
) -> Array:
    """`x` [B, C, H, W] at `coordinates` [B, H2, W2, (x, y)].

    The padding of the image is unlimited. Which of two pixels is nearest to a point
    halfway between them is not documented: UnknownValueError where the rules that give
    what Apple's tests expect (tests/iOS15/test_image_resizing.py, TestResample) differ.
    The precision of positions is not documented. It is assumed to be float32, rounded
    at the same steps as PyTorch's `grid_sample` on a CPU.
    """
    batch, channels, *sizes = x.shape

    def pixels(normal: Array, size: int) -> Array:
        if coordinates_mode == "unnormalized":
            return normal
        scale, shift = (size - 1, 0.0) if align_corners else (size, 0.5)
        if coordinates_mode == "normalized_minus_one_to_one":
            normal, scale = normal + 1, scale / 2
        return (normal.astype(np.float64) * scale - shift).astype(np.float32)

    def picked(row: Array, column: Array) -> Array:
        is_in = (row >= 0) & (row < sizes[0]) & (column >= 0) & (column < sizes[1])
        row, column = (np.where(is_in, at, 0).astype(np.int64) for at in (row, column))
        count = prod(row.shape[1:])
        flat = (row * sizes[1] + column).reshape(batch, 1, count)
        flat = np.broadcast_to(flat, (batch, channels, count))
        pixels = x.reshape(batch, channels, prod(sizes))
        values = kernels.gather_along_axis(pixels, flat, 2)
        values = values.reshape(batch, channels, *row.shape[1:])
        return np.where(is_in[:, None], values, np.float32(padding_value))

    if coordinates.shape[0] != batch or coordinates.shape[-1] != 2:
        raise ValueError(f"coordinates {list(coordinates.shape)} of {batch} images")
    coordinates = coordinates.astype(np.float32)
    across, down = coordinates[..., 0], coordinates[..., 1]
    down, across = pixels(down, sizes[0]), pixels(across, sizes[1])
    if sampling_mode == "nearest":
        found, *others = (
            picked(
                nearest(down, sizes[0], padding_mode),
                nearest(across, sizes[1], padding_mode),
            )
            for nearest in (_half_up, _half_away_from_zero, _half_to_even_inside)
        )
        if not is_dataless(found) and not all(
            np.array_equal(found, each, equal_nan=True) for each in others
        ):
            raise UnknownValueError("a point halfway between two pixels")
        return found
    down = _padded(down, sizes[0], padding_mode)
    across = _padded(across, sizes[1], padding_mode)
    top, left = np.floor(down), np.floor(across)
    low, right = (down - top)[:, None], (across - left)[:, None]
    upper = picked(top, left) * (1 - right) + picked(top, left + 1) * right
    lower = picked(top + 1, left) * (1 - right) + picked(top + 1, left + 1) * right
    return upper * (1 - low) + lower * low


def _between_ones(count: int) -> Array:
    """`count` points from -1 to 1, from both ends, as PyTorch's `linspace`."""
    i, step = counted(count), np.float32(2) / np.float32(max(count - 1, 1))
    i = i.astype(np.float32)
    return np.where((i < count // 2) | (count == 1), -1 + step * i, 1 - step * i[::-1])


@op()
def affine(
    x: Float,
    transform_matrix: Float,
    output_height: int,
    output_width: int,
    sampling_mode: Literal["bilinear"],
    padding_mode: Literal["constant"],
    padding_value: float,
    coordinates_mode: Literal["normalized_minus_one_to_one"],
    align_corners: bool,
) -> Array:
    if not align_corners:
        raise UnknownValueError("align_corners is false")
    allowed(output_height, output_width, 3)
    down, across = np.meshgrid(
        _between_ones(output_height), _between_ones(output_width), indexing="ij"
    )
    points = np.stack([across, down, np.ones_like(down)], -1)
    matrices = transform_matrix.reshape(-1, 1, 2, 3)
    coordinates = kernels.product(points, matrices.mT)
    shape = (len(x), *coordinates.shape[1:])
    return resample(
        *(x, np.broadcast_to(coordinates, shape), sampling_mode, padding_mode),
        *(padding_value, coordinates_mode, align_corners),
    )
