"""
The tensors that images and labels stand for, as a package's metadata has them.

The key is `padc.features`, the value JSON:
`{"images": {"photo": {"scale": [0.017, 0.018, 0.017], "bias": [-2.1, -2.0, -1.8],
"channel_first": true}}, "outputs": ["classLabel_probs"],
"labels": {"output": "classLabel_probs", "shape": [1, 10]}}`.
`images` are inputs and outputs, `outputs` those of the model, in its order.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from padc.backends.coreml.evaluator.metadata_keys import FEATURES, reading_metadata

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Image:
    """
    The arithmetic between an image and a tensor, for each channel of the tensor.

    A tensor of an input is `scale * pixel + bias`, a pixel of an output is
    `scale * value + bias`.
    """

    scale: tuple[float, ...]
    bias: tuple[float, ...]
    channel_first: bool = True
    """Whether the tensor is [1, channels, height, width]; else channels are last."""

    @property
    def is_identity(self) -> bool:
        return set(self.scale) == {1.0} and not any(self.bias)

    def applied(self, values: Array) -> Array:
        """`scale * values + bias`, for an array with channels last."""
        return values * np.array(self.scale) + np.array(self.bias)

    def undone(self, values: Array) -> Array:
        """The inverse of `applied`."""
        return (values - np.array(self.bias)) / np.array(self.scale)

    def as_pixels(self, tensor: Array) -> Array:
        """A tensor of rank 4 as [height, width, channels]."""
        return tensor[0].transpose(1, 2, 0) if self.channel_first else tensor[0]

    def as_tensor(self, pixels: Array) -> Array:
        """[height, width, channels] or [height, width] as a tensor of rank 4."""
        pixels = np.atleast_3d(pixels)
        return (pixels.transpose(2, 0, 1) if self.channel_first else pixels)[None]


@dataclass(frozen=True)
class Labels:
    """The output that is a dictionary of a probability for each label."""

    output: str
    shape: tuple[int, ...]
    """The shape of the model's output."""


@dataclass(frozen=True)
class Denotation:
    """How a package's features stand for the model's tensors."""

    images: Mapping[str, Image] = field(default_factory=dict[str, Image])
    """The images, by the names of inputs and outputs."""
    outputs: Sequence[str] = ()
    """The outputs in the model's order, without buffers; empty for the package's."""
    labels: Labels | None = None

    def to_json(self) -> str:
        """The text for a package's metadata."""
        return json.dumps(asdict(self))


def denotation_in(metadata: Mapping[str, str]) -> Denotation:
    """What a package's metadata says; InvalidProgramError if it is damaged."""
    with reading_metadata(FEATURES):
        entry: Any = json.loads(metadata.get(FEATURES, "{}"))
        images = {str(k): image_in(v) for k, v in entry.get("images", {}).items()}
        outputs = tuple(map(str, cast(list[Any], entry.get("outputs", []))))
        labels = entry.get("labels")
        return Denotation(
            images, outputs, None if labels is None else labels_in(labels)
        )


def image_in(entry: Mapping[str, Any]) -> Image:
    scale, bias = tuple(map(float, entry["scale"])), tuple(map(float, entry["bias"]))
    finite = bool(np.isfinite([*scale, *bias]).all())
    if (
        len(scale) != len(bias)
        or len(scale) not in (1, 3)
        or 0.0 in scale
        or not finite
    ):
        raise ValueError(f"the scale {scale} and bias {bias}")
    return Image(scale, bias, bool(entry["channel_first"]))


def labels_in(entry: Mapping[str, Any]) -> Labels:
    return Labels(str(entry["output"]), tuple(map(int, entry["shape"])))
