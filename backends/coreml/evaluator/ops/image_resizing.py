"""Resizing, by the docstrings of coremltools' mil/ops/defs: iOS15, iOS16 and iOS17
image_resizing.py.

Where the nearest neighbour of a point between two pixels is not documented, sizes
must be such that each pixel is repeated, or taken, a whole number of times.
"""

from typing import Literal

import torch
from torch import Tensor

from padc.backends.coreml.evaluator.ops.registry import Float, UnknownValueError, op

SamplingMode = Literal[
    "DEFAULT",
    "STRICT_ALIGN_CORNERS",
    "ALIGN_CORNERS",
    "OFFSET_CORNERS",
    "UNALIGN_CORNERS",
]


def _scaled(x: Tensor, height: float, width: float) -> tuple[int, int]:
    return int(x.shape[-2] * height), int(x.shape[-1] * width)


def _nearest(x: Tensor, axis: int, size: int) -> Tensor:
    old = x.shape[axis]
    if max(old, size) % min(old, size):
        raise UnknownValueError(f"nearest neighbours of {old} elements as {size}")
    return x.index_select(axis, torch.arange(size) * old // size)


def _grid(old: int, new: int, mode: SamplingMode) -> Tensor:
    """Where the `new` points are among `old` pixels (iOS15 `resize_bilinear`)."""
    i = torch.arange(new, dtype=torch.float64)
    match mode:
        case "STRICT_ALIGN_CORNERS" | "ALIGN_CORNERS":
            if new == 1:
                middle = (old - 1) / 2 if mode == "ALIGN_CORNERS" else 0.0
                return torch.full((1,), middle, dtype=torch.float64)
            points = i * (old - 1) / (new - 1)
        case "DEFAULT":
            # (old - old / new) / (new - 1) is old / new.
            points = i * old / new
        case "OFFSET_CORNERS":
            points = (i + 0.5) * max(1, old - 1) / new
        case "UNALIGN_CORNERS":
            points = (i + 0.5) * old / new - 0.5
    return points.clamp(0, old - 1)


def _linear(x: Tensor, axis: int, size: int, mode: SamplingMode) -> Tensor:
    points = _grid(x.shape[axis], size, mode)
    low = points.floor().to(torch.int64)
    high = (low + 1).clamp(max=x.shape[axis] - 1)
    weight = (points - low).to(x.dtype)
    weight = weight.reshape(-1, *[1] * (x.dim() - 1 - axis % x.dim()))
    first = x.index_select(axis, low)
    return first + weight * (x.index_select(axis, high) - first)


def _bilinear(x: Tensor, height: int, width: int, mode: SamplingMode) -> Tensor:
    return _linear(_linear(x, -2, height, mode), -1, width, mode)


@op()
def upsample_nearest_neighbor(
    x: Float, scale_factor_height: float = 1, scale_factor_width: float = 1
) -> Tensor:
    height, width = _scaled(x, scale_factor_height, scale_factor_width)
    return _nearest(_nearest(x, -2, height), -1, width)


@op()
def resize_nearest_neighbor(
    x: Float, target_size_height: int, target_size_width: int
) -> Tensor:
    return _nearest(_nearest(x, -2, target_size_height), -1, target_size_width)


@op()
def upsample_bilinear(
    x: Float,
    scale_factor_height: float = 1,
    scale_factor_width: float = 1,
    align_corners: bool = True,
    half_pixel_centers: bool | None = None,
) -> Tensor:
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
) -> Tensor:
    return _bilinear(x, target_size_height, target_size_width, sampling_mode)


@op(since=7)
def resize(
    x: Float,
    shape: list[int],
    resized_dims: int,
    interpolation_mode: Literal["LINEAR", "NEAREST_NEIGHBOR"] = "LINEAR",
    sampling_mode: SamplingMode = "DEFAULT",
) -> Tensor:
    for axis in range(-resized_dims, 0):
        size = shape[axis] or x.shape[axis]
        if interpolation_mode == "LINEAR":
            x = _linear(x, axis, size, sampling_mode)
        elif sampling_mode == "DEFAULT":
            x = _nearest(x, axis, size)
        else:
            raise UnknownValueError(f"nearest neighbours by {sampling_mode}")
    return x


@op()
def crop(x: Float, crop_height: list[int], crop_width: list[int]) -> Tensor:
    (top, bottom), (left, right) = crop_height, crop_width
    height, width = x.shape[-2:]
    x = x.narrow(-2, top, height - top - bottom)
    return x.narrow(-1, left, width - left - right)


PaddingMode = Literal["constant", "border", "reflection", "symmetric"]


def _inside(positions: Tensor, size: int, mode: PaddingMode) -> Tensor:
    """Where in the image a pixel of the padded one comes from."""
    match mode:
        case "constant" | "border":
            return positions.clamp(0, size - 1)
        case "reflection":
            period = max(2 * (size - 1), 1)
            folded = positions.remainder(period)
            return torch.minimum(folded, period - folded).clamp(max=size - 1)
        case "symmetric":
            folded = positions.remainder(2 * size)
            return torch.minimum(folded, 2 * size - 1 - folded)


@op()
def resample(
    x: Float,
    coordinates: Tensor,
    sampling_mode: Literal["bilinear", "nearest"],
    padding_mode: PaddingMode,
    padding_value: float,
    coordinates_mode: Literal[
        "unnormalized", "normalized_minus_one_to_one", "normalized_zero_to_one"
    ],
    align_corners: bool,
) -> Tensor:
    """`x` [B, C, H, W] at `coordinates` [B, H2, W2, (x, y)].

    The image is taken as padded without end; which of two pixels is nearest to a
    point halfway is not documented, and here the even one.
    """
    batch, channels, *sizes = x.shape

    def pixels(normal: Tensor, size: int) -> Tensor:
        if coordinates_mode == "unnormalized":
            return normal
        if coordinates_mode == "normalized_minus_one_to_one":
            normal = (normal + 1) / 2
        return normal * (size - 1) if align_corners else normal * size - 0.5

    def picked(row: Tensor, column: Tensor) -> Tensor:
        is_in = (row >= 0) & (row < sizes[0]) & (column >= 0) & (column < sizes[1])
        row = _inside(row, sizes[0], padding_mode)
        column = _inside(column, sizes[1], padding_mode)
        flat = (row * sizes[1] + column).reshape(batch, 1, -1)
        values = x.flatten(2).gather(2, flat.expand(-1, channels, -1))
        values = values.reshape(batch, channels, *row.shape[1:])
        if padding_mode == "constant":
            values = torch.where(is_in[:, None], values, padding_value)
        return values

    across, down = coordinates.to(torch.float32).unbind(-1)
    down, across = pixels(down, sizes[0]), pixels(across, sizes[1])
    if sampling_mode == "nearest":
        return picked(down.round().to(torch.int64), across.round().to(torch.int64))
    top, left = down.floor(), across.floor()
    low, right = (down - top)[:, None], (across - left)[:, None]
    top, left = top.to(torch.int64), left.to(torch.int64)
    upper = picked(top, left) * (1 - right) + picked(top, left + 1) * right
    lower = picked(top + 1, left) * (1 - right) + picked(top + 1, left + 1) * right
    return upper * (1 - low) + lower * low
