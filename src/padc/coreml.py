"""
Saved Core ML packages on any machine: run them, and check them against Core ML's rules.

    >>> import numpy as np, padc, torch
    >>> padc.convert(torch.nn.ReLU(), (torch.ones(2),)).save("relu.mlpackage")
    >>> x = np.array([-1, 1], np.float32)
    >>> padc.coreml.load("relu.mlpackage").predict({"input": x})
    {'relu': array([0., 1.], dtype=float32)}
    >>> padc.coreml.check("relu.mlpackage", target="iOS17")
    []
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from padc.backends.coreml.checker import Finding, check
from padc.backends.coreml.evaluator import Feature, Limits, Model, State, load
from padc.backends.coreml.locations import LocationsPolicy

__all__ = [
    "Feature",
    "Finding",
    "Limits",
    "LocationsPolicy",
    "Model",
    "State",
    "check",
    "image_type",
    "load",
]


def image_type(
    name: str | None = None,
    *,
    color_layout: str = "RGB",
    mean: float | Sequence[float] | None = None,
    std: float | Sequence[float] | None = None,
    shape: Any = None,
    channel_first: bool | None = None,
) -> Any:
    """
    Describe an image input of a model that is trained on normalized images.

    torchvision's `ToTensor` divides pixels by 255, and its `Normalize(mean, std)`
    subtracts a mean and divides by a standard deviation. The package then takes the
    image itself: its tensor is `scale * pixel + bias`, with
    `scale = 1 / (255 * std)` and `bias = -mean / std`.

    Args:
        name: The name of the input in the package; by default the model's.
        color_layout: "RGB", "BGR", "GRAYSCALE" or "GRAYSCALE_FLOAT16". Pixels of the
            last one are floats, which are not divided by 255.
        mean: A number, or one for each channel in the order of the model's tensor; by
            default 0.
        std: A number, or one for each channel in the same order; by default 1.
        shape: Shapes among those that the model takes, as in `ct.ImageType`.
        channel_first: False if the tensor is [1, height, width, channels], not
            [1, channels, height, width].

    Returns:
        A `ct.ImageType` for the argument `inputs` of `padc.convert`.

    Raises:
        UsageError: There is no such color layout, or `mean` and `std` are not numbers
            for each channel.
        MissingEnvironmentError: coremltools is not installed.

    Example:
        >>> import padc
        >>> photo = padc.coreml.image_type(mean=[0.5, 0.5, 0.5], std=[0.25, 0.5, 0.5])
        >>> [round(1 / each, 2) for each in photo.scale], photo.bias
        ([63.75, 127.5, 127.5], [-2.0, -1.0, -1.0])
    """
    from padc.backends.coreml.app.image_type import normalized

    return normalized(name, color_layout, mean, std, shape, channel_first)
