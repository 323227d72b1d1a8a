# pyright: basic, reportMissingTypeStubs=false, reportAttributeAccessIssue=false
"""
Images as inputs and outputs: the ops between pixels and the model's tensors.

A `ct.ImageType` says that an input of the model is `scale * pixel + bias`, and that a
pixel of an output is `scale * value + bias`, for each channel. coremltools' own pass is
not used: it mistakes a scale for each channel for one for each column.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from padc.backends.coreml import IMAGE_ORIGIN, quiet
from padc.backends.coreml.app.denotation import Image
from padc.backends.coreml.app.shapes import Ranges, Size, permuted
from padc.errors import Obstacle, shortened

with quiet():
    import coremltools as ct
    from coremltools.converters.mil import Builder
    from coremltools.converters.mil.input_types import ColorLayout
    from coremltools.converters.mil.mil import types
    from coremltools.converters.mil.mil.scope import ScopeInfo, ScopeSource

# coremltools attaches the op builders at run time; a type checker does not see them.
mb: Any = Builder

COLORS = ColorLayout.RGB, ColorLayout.BGR
LAST_TO_FIRST = 0, 3, 1, 2
"""From [1, height, width, channels] to [1, channels, height, width]."""
FIRST_TO_LAST = 0, 2, 3, 1


def image_scope() -> AbstractContextManager[Any]:
    """A scope that marks ops as those between pixels and tensors."""
    of_op: Any = ScopeSource.TORCHSCRIPT_MODULE_TYPE
    return mb.scope(ScopeInfo(of_op, [IMAGE_ORIGIN]))


def image_of(described: Any) -> Image:
    """The arithmetic of a `ct.ImageType`; Obstacle for the wrong count of numbers."""
    channels = 3 if described.color_layout in COLORS else 1
    first = described.channel_first
    return Image(
        per_channel("scale", described.scale, channels),
        per_channel("bias", described.bias, channels),
        first is None or bool(first),
    )


def per_channel(what: str, value: Any, channels: int) -> tuple[float, ...]:
    try:
        numbers = np.asarray(value, np.float64).reshape(-1)
        with np.errstate(all="ignore"):
            rounded = numbers.astype(np.float32)  # As the program has them.
    except (TypeError, ValueError, OverflowError):
        numbers = rounded = np.array([np.nan])
    if numbers.size == 1:
        numbers = numbers.repeat(channels)
    zero = what == "scale" and not rounded.all()
    if numbers.size != channels or not np.isfinite(rounded).all() or zero:
        raise Obstacle(
            f"is described as an image with {what} {shortened(value)}",
            f"give a number of float32{' other than 0' if what == 'scale' else ''}, or "
            f"{channels} of them",
        )
    return tuple(numbers.tolist())


def check_image(
    described: Any, sizes: Sequence[Size], dtype: str, target: str
) -> Image:
    """The arithmetic of an image; Obstacle if a tensor cannot be such an image."""
    image = image_of(described)
    channels = len(image.scale)
    if described.grayscale_use_uint8:
        raise Obstacle(
            "is described with grayscale_use_uint8",
            "leave it out: the program then gets the same pixels as floats",
        )
    if described.color_layout == ColorLayout.GRAYSCALE_FLOAT16 and target == "iOS15":
        hint = "choose the target iOS16 or newer"
        raise Obstacle("is described as a float16 image", hint)
    axis = 1 if image.channel_first else 3
    if len(sizes) != 4 or (sizes[0], sizes[axis]) != (1, channels):
        shape = ["1", "height", "width"]
        shape.insert(axis, str(channels))
        layout = described.color_layout.name
        raise Obstacle(
            f"is described as an image of layout {layout}",
            f"such an image is a tensor of shape [{', '.join(shape)}]",
        )
    if "int" in dtype and not image.is_identity:
        raise Obstacle(
            "is described as an image with a scale or bias", "only floats have them"
        )
    return image


def image_input(
    name: str, described: Any, sizes: Sequence[Size], ranges: Ranges, first: bool
) -> Any:
    """The description of an image in the package: of shape [1, channels, H, W]."""
    shape = ranges.shape(described, sizes)
    if not first:
        shape = permuted(shape, LAST_TO_FIRST)
    made = ct.ImageType(
        name, shape, color_layout=described.color_layout, channel_first=True
    )
    if made.dtype is None:
        made.dtype = types.fp32
    return made


def tensor_of(image: Image, pixels: Any, name: Callable[[str], str]) -> Any:
    """The ops from pixels to the tensor that they denote, in float32."""
    value = pixels
    if not image.is_identity:
        if value.dtype != types.fp32:
            value = mb.cast(x=value, dtype="fp32", name=name("float"))
        if set(image.scale) != {1.0}:
            scale = constant(image.scale)
            value = mb.mul(x=value, y=scale, name=name("scaled"))
        if any(image.bias):
            value = mb.add(x=value, y=constant(image.bias), name=name("biased"))
    if not image.channel_first:
        value = mb.transpose(x=value, perm=FIRST_TO_LAST, name=name("channels_last"))
    return value


def pixels_of(
    image: Image, described: Any, value: Any, name: Callable[[str], str]
) -> Any:
    """
    The ops from a tensor to the pixels of an output.

    Pixels of 8 bits are rounded and clipped: how Core ML does that is not documented.
    """
    is_integer = value.dtype not in (types.fp16, types.fp32)
    if value.dtype != types.fp32:
        value = mb.cast(x=value, dtype="fp32", name=name("float"))
    if not image.channel_first:
        value = mb.transpose(x=value, perm=LAST_TO_FIRST, name=name("channels_first"))
    if set(image.scale) != {1.0}:
        value = mb.mul(x=value, y=constant(image.scale), name=name("scaled"))
    if any(image.bias):
        value = mb.add(x=value, y=constant(image.bias), name=name("biased"))
    if described.color_layout == ColorLayout.GRAYSCALE_FLOAT16:
        return mb.cast(x=value, dtype="fp16", name=name("half"))
    value = mb.clip(x=value, alpha=0.0, beta=255.0, name=name("clipped"))
    if is_integer and image.is_identity:
        return value
    return mb.round(x=value, name=name("rounded"))


def constant(numbers: Sequence[float]) -> Any:
    """A number for each channel, of shape [1, channels, 1, 1]."""
    return np.asarray(numbers, np.float32).reshape(1, -1, 1, 1)
