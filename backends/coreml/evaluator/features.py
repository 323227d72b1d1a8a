# pyright: basic, reportMissingTypeStubs=false
"""
Inputs, outputs and states as a package describes them, and their values.

Format: mlmodel/format/FeatureTypes.proto (github.com/apple/coremltools).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from padc.backends.coreml.evaluator.package import Message
from padc.backends.coreml.evaluator.values.types import Array, TensorType, Value
from padc.errors import InvalidProgramError, Problem, UnsupportedError, UsageError

ARRAY_DTYPES: dict[int, npt.DTypeLike] = {
    65552: np.float16,
    65568: np.float32,
    65600: np.float64,
    131080: np.int8,
    131104: np.int32,
}
"""`ArrayFeatureType.ArrayDataType` of mlmodel/format/FeatureTypes.proto."""

Color = Literal["GRAYSCALE", "RGB", "BGR", "GRAYSCALE_FLOAT16"]

COLORS: dict[int, Color] = {
    10: "GRAYSCALE",
    20: "RGB",
    30: "BGR",
    40: "GRAYSCALE_FLOAT16",
}
"""`ImageFeatureType.ColorSpace`."""

Range = tuple[int, int | None]


@dataclass(frozen=True)
class Feature:
    """
    An input, output or state, as the package describes it.

    An image is an array of shape (height, width, 3), or (height, width) if it is gray.
    Its pixels are uint8, red first (even if the program takes BGR), or float16. The
    outputs of a classifier have dtype object: a label, and a dictionary.

    Example:
        >>> import padc, torch
        >>> padc.convert(torch.nn.ReLU(), (torch.ones(2),)).save("relu.mlpackage")
        >>> (feature,) = padc.coreml.load("relu.mlpackage").inputs
        >>> feature.name, feature.dtype, feature.shape
        ('input', dtype('float32'), (2,))
        >>> feature.expected
        'float32 of shape (2,)'
    """

    name: str
    """The name by which values are given and returned."""
    dtype: np.dtype[Any]
    """The dtype of its arrays."""
    shape: tuple[int, ...]
    """The shape, or the default one of a flexible input."""
    ranges: tuple[Range, ...] = ()
    """The smallest and the largest size of each dimension; None is unlimited."""
    shapes: tuple[tuple[int, ...], ...] = ()
    """The shapes to choose from, if they are listed."""
    default: float | None = None
    """The value of all elements of an optional input that is not given."""
    color: Color | None = None
    """The pixel format; None unless it is an image."""

    def accepts(self, shape: tuple[int, ...]) -> bool:
        """
        Check a shape.

        Args:
            shape: The sizes in elements.

        Returns:
            Whether a value may have this shape.

        Example:
            >>> import numpy as np, padc
            >>> ranges = ((1, 1), (4, None))
            >>> feature = padc.coreml.Feature("x", np.dtype("i4"), (1, 8), ranges)
            >>> feature.accepts((1, 100)), feature.accepts((1, 3))
            (True, False)
        """
        if self.shapes:
            return shape in self.shapes
        if not self.ranges:
            return shape == self.shape
        return len(shape) == len(self.ranges) and all(
            low <= size and (high is None or size <= high)
            for size, (low, high) in zip(shape, self.ranges, strict=True)
        )

    @property
    def expected(self) -> str:
        """The dtype and the shapes of values, in words."""
        if self.shapes:
            return f"{self.dtype} of one of the shapes {list(self.shapes)}"
        if self.ranges:
            dims = (
                str(low) if low == high else f"{low}..{'' if high is None else high}"
                for low, high in self.ranges
            )
            return f"{self.dtype} of shape ({', '.join(dims)})"
        return f"{self.dtype} of shape {self.shape}"


def describe(item: Message) -> Feature:
    """
    The feature in a `FeatureDescription` message.

    Raises InvalidProgramError if a size is negative, and UnsupportedError unless it is
    an array, image, string, integer or dictionary.
    """
    match item.type.WhichOneof("Type"):
        case "multiArrayType":
            return _array(item, item.type.multiArrayType)
        case "stateType":
            return _array(item, item.type.stateType.arrayType)
        case "imageType":
            return _image(item, item.type.imageType)
        case "stringType" | "int64Type" | "dictionaryType":
            return Feature(item.name, np.dtype(object), ())
        case kind:
            raise UnsupportedError(
                [Problem(f"{item.name!r} is a {kind}, not an array or an image")]
            )


def _range(size: Message) -> Range:
    return size.lowerBound, None if size.upperBound < 0 else size.upperBound


def _sizes(item: Message, shape: Sequence[int]) -> tuple[int, ...]:
    if min(shape, default=0) < 0:
        raise InvalidProgramError(f"{item.name!r} has a negative size: {list(shape)}")
    return tuple(shape)


def _array(item: Message, array: Message) -> Feature:
    if (dtype := ARRAY_DTYPES.get(array.dataType)) is None:
        raise UnsupportedError(
            [Problem(f"{item.name!r} is an array of type {array.dataType}")]
        )
    default = array.WhichOneof("defaultOptionalValue") if item.type.isOptional else None
    return Feature(
        item.name,
        np.dtype(dtype),
        _sizes(item, array.shape),
        tuple(_range(size) for size in array.shapeRange.sizeRanges),
        tuple(tuple(shape.shape) for shape in array.enumeratedShapes.shapes),
        getattr(array, default) if default else None,
    )


def _image(item: Message, image: Message) -> Feature:
    if (color := COLORS.get(image.colorSpace)) is None:
        raise UnsupportedError(
            [Problem(f"{item.name!r} is an image of color space {image.colorSpace}")]
        )
    channels = (3,) if color in ("RGB", "BGR") else ()
    ranges: tuple[Range, ...] = ()
    if image.WhichOneof("SizeFlexibility") == "imageSizeRange":
        sizes = image.imageSizeRange
        ranges = (
            _range(sizes.heightRange),
            _range(sizes.widthRange),
            *((size, size) for size in channels),
        )
    return Feature(
        item.name,
        np.dtype(np.float16 if color == "GRAYSCALE_FLOAT16" else np.uint8),
        _sizes(item, (image.height, image.width, *channels)),
        ranges,
        tuple(
            (size.height, size.width, *channels) for size in image.enumeratedSizes.sizes
        ),
        color=color,
    )


def to_tensor(
    feature: Feature, data: Mapping[str, npt.ArrayLike], kind: TensorType
) -> Array:
    """
    The value of an input, as the program takes it.

    Raises UsageError if it is missing, or does not match the feature, and
    InvalidProgramError if the feature does not match the program.
    """
    if feature.name not in data:
        if feature.default is None:
            raise UsageError(
                f"the input {feature.name!r} is missing",
                hint=f"it is {feature.expected}",
            )
        try:
            array = np.full(feature.shape, feature.default, feature.dtype)
        except (ValueError, OverflowError) as error:
            raise InvalidProgramError(
                f"the default of the input {feature.name!r}: {error}"
            ) from error
    else:
        array = np.asarray(data[feature.name])
    if array.dtype != feature.dtype or not feature.accepts(array.shape):
        raise UsageError(
            f"the input {feature.name!r} is {array.dtype} of shape {array.shape}",
            hint=f"it must be {feature.expected}",
        )
    if feature.color == "BGR":
        array = array[..., ::-1]
    if feature.color is not None:
        # [height, width, channels] becomes [1, channels, height, width].
        array = np.atleast_3d(array).transpose(2, 0, 1)[None]
    # Core ML passes a scalar as an array of one element.
    if kind.shape and not kind.fits(array.shape):
        raise InvalidProgramError(
            f"the input {feature.name!r} has shape {array.shape}, but the program "
            f"declares a {kind}"
        )
    # A copy, since a state may keep the value, and the caller may change the array.
    return np.array(array, dtype=kind.dtype.held_as)


def from_value(feature: Feature, value: Value, kind: Any) -> Any:
    """
    The value of an output, as the caller gets it.

    Pixels are rounded and clamped to 0 to 255; how Core ML does this is not documented.
    Raises InvalidProgramError if the value of an image has another shape.
    """
    if not isinstance(value, np.ndarray):
        return value
    # Copies, since a result may be an input or one of the model's constants.
    if feature.color is None:
        return np.array(value, dtype=kind.dtype.storage)
    channels = 3 if feature.color in ("RGB", "BGR") else 1
    if value.ndim != 4 or value.shape[:2] != (1, channels):
        raise InvalidProgramError(
            f"the output {feature.name!r} of shape {list(value.shape)} is not an "
            f"image of {channels} channels"
        )
    pixels = np.moveaxis(value[0].astype(np.float32), 0, -1)
    if feature.color != "GRAYSCALE_FLOAT16":
        pixels = np.rint(pixels).clip(0, 255)
    array = np.array(pixels, dtype=feature.dtype)
    if feature.color == "BGR":
        return array[..., ::-1]
    return array if feature.color == "RGB" else array.squeeze(-1)
