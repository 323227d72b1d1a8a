# pyright: basic, reportMissingTypeStubs=false, reportAttributeAccessIssue=false
"""Images for models that are trained on normalized ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from padc.backends.coreml import quiet
from padc.backends.coreml.app.images import COLORS
from padc.errors import UsageError, resolve, shortened

with quiet():
    import coremltools as ct


class NormalizedImage(ct.ImageType):
    """An image input whose scale and bias come from a mean and standard deviation."""


def normalized(
    name: str | None,
    color_layout: str,
    mean: Any,
    std: Any,
    shape: Any,
    channel_first: bool | None,
) -> Any:
    """See `padc.coreml.image_type`."""
    layouts = [layout.name for layout in ct.colorlayout]
    color_layout = getattr(color_layout, "name", color_layout)
    layout = ct.colorlayout[resolve("color layout", color_layout, layouts)]
    channels = 3 if layout in COLORS else 1
    largest = 1.0 if layout == ct.colorlayout.GRAYSCALE_FLOAT16 else 255.0
    means = numbers("mean", 0.0 if mean is None else mean, channels)
    stds = numbers("std", 1.0 if std is None else std, channels)
    if not (stds > 0).all():
        raise UsageError(f"std is {std}", hint="a standard deviation is positive")
    scale, bias = (1 / (largest * stds)).tolist(), (0.0 - means / stds).tolist()
    try:
        return NormalizedImage(
            name,
            shape,
            scale=scale[0] if len(set(scale)) == 1 else scale,
            bias=bias if channels > 1 else bias[0],
            color_layout=layout,
            channel_first=channel_first,
        )
    except ValueError as error:  # All but the shape is checked above.
        raise UsageError(
            f"shape is {shortened(shape)}",
            hint="give a list of sizes and ranges, or ct.EnumeratedShapes",
        ) from error


def numbers(what: str, value: Any, channels: int) -> np.ndarray:
    """A number for each channel; raises UsageError."""
    try:
        found = np.asarray(value, np.float64).reshape(-1)
    except (TypeError, ValueError, OverflowError):
        found = np.array([np.nan])
    if found.size not in (1, channels) or not np.isfinite(found).all():
        raise UsageError(
            f"{what} is {shortened(value)}",
            hint=f"give a number, or {channels} numbers",
        )
    return np.broadcast_to(found, channels)
