# pyright: reportUnknownMemberType=false
"""
The model's tensors, and the values of a package's features that stand for them.

An image stands for a tensor, `scale * pixel + bias`, the dictionary of a classifier for
the tensor of its probabilities.
"""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch

from padc.backends.coreml.app.denotation import Image, denotation_in
from padc.backends.coreml.evaluator import Feature, Model
from padc.errors import InvalidProgramError, UsageError, first_line
from padc.warn import warn

Array = npt.NDArray[Any]

LARGEST_HALF = 65504.0


class Denoted:
    """The meaning of the features of a package, by its metadata."""

    def __init__(self, model: Model):
        denotation = denotation_in(model.metadata)
        self._images = denotation.images
        self._labels = denotation.labels
        outputs = {feature.name: feature for feature in model.outputs}
        known = {*outputs, *(feature.name for feature in model.inputs)}
        labels = [self._labels.output] if self._labels else []
        for name in (*self._images, *denotation.outputs, *labels):
            if name not in known:
                raise InvalidProgramError(
                    f"the package has no '{name}', which its metadata describes"
                )
        names = denotation.outputs or tuple(outputs)
        self.outputs = [outputs[name] for name in names if name in outputs]
        """The outputs that are the model's, in its order, and those of buffers."""

    # --- inputs -----------------------------------------------------------------------

    def value(self, feature: Feature, tensor: Any) -> Array:
        """The value of an input that is the nearest to a tensor."""
        if feature.color is None:
            return as_input(feature, rounded(feature, tensor))
        image = self.image(feature)
        check_is_image(feature, image, tensor)
        return as_pixels(feature, image.undone(as_channels(feature, image, tensor)))

    def nearest(self, feature: Feature, tensor: Any) -> torch.Tensor:
        """The tensor nearest to `tensor` that a value of the input stands for."""
        if feature.color is None:
            return rounded(feature, tensor)
        image, pixels = self.image(feature), self.value(feature, tensor)
        array = image.applied(channels_of(feature, pixels))
        return torch.from_numpy(image.as_tensor(array)).to(tensor.dtype)

    def accepts(self, feature: Feature, tensor: torch.Tensor) -> bool:
        """Whether the package takes a tensor of this shape."""
        if feature.color is None:
            return feature.accepts(tuple(tensor.shape) or (1,))
        image = self.image(feature)
        check_is_image(feature, image, tensor)
        shape = as_channels(feature, image, tensor).shape
        return feature.accepts(shape[: len(feature.shape)])

    def fitted(
        self, feature: Feature, tensor: torch.Tensor, number: int
    ) -> torch.Tensor:
        """The values of a tensor in the default shape, or in one that is listed."""
        listed = feature.shapes or (feature.shape,)
        wanted: tuple[int, ...] = listed[-number % len(listed)]
        if feature.color is not None:
            image = self.image(feature)
            channels = (wanted[0], wanted[1], len(image.scale))
            wanted = image.as_tensor(np.empty(channels, np.bool_)).shape
        elif not tensor.dim():
            return tensor
        values = np.resize(tensor.detach().cpu().numpy(), wanted)
        return torch.from_numpy(values).to(tensor.dtype)

    def random(self, feature: Feature, like: torch.Tensor) -> torch.Tensor:
        """The tensor of an image of random pixels; `like` itself for other inputs."""
        if feature.color is None:
            return like
        image = self.image(feature)
        shape = as_channels(feature, image, like).shape
        pixels = np.random.default_rng(0).integers(0, 256, shape).astype(np.float64)
        if feature.color == "GRAYSCALE_FLOAT16":
            pixels /= 255
        return torch.from_numpy(image.as_tensor(image.applied(pixels))).to(like.dtype)

    # --- outputs ----------------------------------------------------------------------

    def tensor(self, feature: Feature, value: Any) -> torch.Tensor:
        """The tensor that the value of an output stands for."""
        if self._labels is not None and feature.name == self._labels.output:
            return probabilities(feature.name, value, self._labels.shape)
        if feature.color is not None:
            image = self.image(feature)
            array = image.undone(channels_of(feature, value))
            return torch.from_numpy(image.as_tensor(array))
        return as_tensor(feature, value)

    def comparable(
        self, feature: Feature, actual: torch.Tensor, expected: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """
        An output, and the expected one, as they are to be compared.

        Images are compared as pixels. Rounding to pixels or to float16 is no error: the
        output then is the value nearest to the expected one that rounds to it.
        """
        if actual.shape != expected.shape or not is_rounded(feature, expected):
            return actual, expected
        if feature.color is None:
            half, should = actual.numpy(), expected.detach().cpu().double().numpy()
            return nearest_between(*half_bounds(half), should)
        image = self.image(feature)
        is_ = image.applied(as_channels(feature, image, actual))
        should = image.applied(as_channels(feature, image, expected))
        if feature.dtype != np.uint8:
            return nearest_between(*half_bounds(is_.astype(np.float16)), should)
        pixels = is_.round()
        check_pixels(feature, pixels, expected)
        return nearest_between(pixels - 0.5, pixels + 0.5, should.clip(0, 255))

    def alike(
        self, feature: Feature, actual: torch.Tensor, expected: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """
        An output of two packages, as they are to be compared.

        Both are rounded: `actual` may be off by one step.
        """
        if actual.shape != expected.shape:
            return actual, expected
        should = expected.double().numpy()
        if feature.color is not None:
            step = np.abs(1 / np.array(self.image(feature).scale)).max()
            is_ = actual.double().numpy()
            return nearest_between(is_ - step, is_ + step, should)
        if feature.dtype == np.float16:
            half = actual.numpy()
            below = np.nextafter(half, np.float16(-np.inf)).astype(np.float64)
            above = np.nextafter(half, np.float16(np.inf)).astype(np.float64)
            return nearest_between(below, above, should)
        return actual, expected

    def image(self, feature: Feature) -> Image:
        """The arithmetic of an image; without metadata, pixels are the values."""
        channels = feature.shape[2] if len(feature.shape) == 3 else 1
        plain = Image((1.0,) * channels, (0.0,) * channels)
        image = self._images.get(feature.name, plain)
        if len(image.scale) != channels:
            raise InvalidProgramError(
                f"the image '{feature.name}' has {channels} channels, and "
                f"{len(image.scale)} in the metadata"
            )
        return image


# --- images ---------------------------------------------------------------------------


def check_is_image(feature: Feature, image: Image, tensor: Any) -> None:
    """Raise UsageError unless a tensor has the shape of an image."""
    shape = list(tensor.shape) if isinstance(tensor, torch.Tensor) else None
    axis = 1 if image.channel_first else 3
    channels = len(image.scale)
    if shape is None or len(shape) != 4 or (shape[0], shape[axis]) != (1, channels):
        what = type(tensor).__name__ if shape is None else f"a tensor of shape {shape}"
        order = "channels, height, width" if axis == 1 else "height, width, channels"
        raise UsageError(
            f"the input '{feature.name}' is {what}",
            hint=f"give the tensor that the image denotes, [1, {order}] with "
            f"{channels} channels",
        )


def as_channels(feature: Feature, image: Image, tensor: torch.Tensor) -> Array:
    """A tensor of rank 4 as [height, width, channels]."""
    return image.as_pixels(as_array(feature.name, tensor).astype(np.float64))


def as_pixels(feature: Feature, channels: Array) -> Array:
    """The image nearest to [height, width, channels], in the order of the tensor."""
    if feature.dtype == np.uint8:
        channels = np.nan_to_num(channels).round().clip(0, 255)
    if feature.color == "BGR":
        channels = channels[..., ::-1]
    gray = len(feature.shape) == 2
    pixels = channels.squeeze(-1) if gray else channels
    return np.ascontiguousarray(pixels.astype(feature.dtype))


def channels_of(feature: Feature, pixels: Array) -> Array:
    """An image as [height, width, channels], in the order of the tensor."""
    channels = np.atleast_3d(pixels).astype(np.float64)
    return channels[..., ::-1] if feature.color == "BGR" else channels


# --- rounding -------------------------------------------------------------------------


def rounded(feature: Feature, tensor: Any) -> Any:
    """A tensor of floats rounded to float16 if the input is of float16."""
    if feature.dtype != np.float16 or not isinstance(tensor, torch.Tensor):
        return tensor
    return tensor.half().to(tensor.dtype) if tensor.is_floating_point() else tensor


def is_rounded(feature: Feature, expected: torch.Tensor) -> bool:
    """Whether an output has fewer values than the model's."""
    if feature.color is not None:
        return True
    is_half = feature.dtype == np.float16
    return is_half and expected.dtype in (torch.float32, torch.float64)


def half_bounds(half: Array) -> tuple[Array, Array]:
    """The least and the greatest number that float16 rounds to each of `half`."""
    with np.errstate(over="ignore"):
        below = np.nextafter(half, np.float16(-np.inf))
        above = np.nextafter(half, np.float16(np.inf))
    lower, middle, upper = (finite(each) for each in (below, half, above))
    return (
        np.where(half == -np.inf, -np.inf, (lower + middle) / 2),
        np.where(half == np.inf, np.inf, (middle + upper) / 2),
    )


def finite(half: Array) -> Array:
    """Numbers as float64, with the next power of two for infinity."""
    numbers = half.astype(np.float64)
    return np.where(np.isinf(numbers), np.copysign(2.0**16, numbers), numbers)


def nearest_between(
    low: Array, high: Array, expected: Array
) -> tuple[torch.Tensor, torch.Tensor]:
    """The nearest number between two bounds to each expected one; the expected ones."""
    is_ = np.where(np.isnan(expected), low, expected.clip(low, high))
    return torch.from_numpy(is_), torch.from_numpy(expected)


# --- other values ---------------------------------------------------------------------


def as_tensor(feature: Feature, value: Any) -> torch.Tensor:
    """The array of an output as a tensor; UsageError for a label or a dictionary."""
    if not isinstance(value, np.ndarray):
        raise UsageError(
            f"the output '{feature.name}' is no tensor: the package is a classifier "
            "that padc did not write",
            hint="padc.coreml.load(path).predict gives labels and dictionaries",
        )
    return torch.from_numpy(cast(Array, value))


def probabilities(name: str, value: Any, shape: tuple[int, ...]) -> torch.Tensor:
    """The tensor in a classifier's dictionary, which has the order of the labels."""
    known = cast(dict[Any, float], value) if isinstance(value, dict) else {}
    numbers = list(known.values())
    try:
        return torch.from_numpy(np.array(numbers, np.float32).reshape(shape))
    except ValueError as error:
        raise InvalidProgramError(
            f"the output '{name}' has {len(numbers)} labels, the metadata says "
            f"{list(shape)}"
        ) from error


def as_input(feature: Feature, tensor: Any) -> npt.NDArray[Any]:
    """The same values in the dtype of the feature; UsageError if it lacks some."""
    exact = as_array(feature.name, tensor)
    # Core ML takes int32 for int64, floats for bool, and [1] for rank 0.
    array = np.real(exact).astype(feature.dtype)
    if not np.array_equal(array, exact, equal_nan=array.dtype.kind == "f"):
        raise UsageError(
            f"the input '{feature.name}' of dtype {tensor.dtype} has values that the "
            f"package's {feature.dtype} does not have"
        )
    is_scalar = array.ndim == 0 and math.prod(feature.shape) == 1
    return array.reshape(feature.shape) if is_scalar else array


def as_array(name: str, tensor: Any) -> npt.NDArray[Any]:
    """
    The elements of the tensor for the input `name`; those of bfloat16 as float32.

    Raises UsageError if it is no tensor, or one that is sparse, nested, without data,
    or of a dtype that numpy lacks: float8, complex32, quantized.
    """
    if not isinstance(tensor, torch.Tensor):
        raise UsageError(
            f"the input '{name}' is of type {type(tensor).__name__}",
            hint="give a torch.Tensor",
        )
    try:
        plain = tensor.detach().cpu().resolve_conj().resolve_neg()
        # numpy has no bfloat16.
        return (plain.float() if plain.dtype == torch.bfloat16 else plain).numpy()
    except (RuntimeError, TypeError) as error:
        raise UsageError(
            f"the input '{name}' cannot be read: {first_line(error)}",
            hint="give a dense tensor with data, of a dtype that numpy has",
        ) from error


def check_pixels(feature: Feature, pixels: Array, expected: torch.Tensor) -> None:
    """Warn of an image that shows next to nothing of its values."""
    if expected.numel() and np.ptp(pixels) <= 1 and expected.min() < expected.max():
        warn(
            f"the image '{feature.name}' has pixels from {pixels.min():g} to "
            f"{pixels.max():g} only: a pixel is scale * value + bias, and with a scale "
            "of 255 the values 0 to 1 are the pixels 0 to 255"
        )
