# pyright: reportMissingTypeStubs=false
"""The options of `padc convert` for inputs, outputs, labels and metadata."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from padc.errors import UsageError, resolve

DTYPES = ("float16", "float32", "int8", "int32")

LAYOUTS = ("RGB", "BGR", "GRAYSCALE", "GRAYSCALE_FLOAT16")

Sizes: TypeAlias = tuple[int, int, int]
"""The smallest, the greatest and the default size of a dimension."""

SIZES = r"\d{1,18}(\.\.\d{1,18}(=\d{1,18})?)?"
"""The form of `Sizes` on the command line."""

IMAGE_KEYS = ("mean", "std", "scale", "bias", "channels")


def add_feature_options(parser: argparse.ArgumentParser) -> None:
    """Add the groups for inputs and outputs, for a classifier, and for metadata."""
    features = parser.add_argument_group(
        "inputs and outputs",
        "NAME is the model's name; each option may be given several times.\n"
        "  padc convert nets:segment -o segment.mlpackage \\\n"
        "    --image x:RGB:mean=0.485,0.456,0.406:std=0.229,0.224,0.225 \\\n"
        "    --shapes x:1x3x64..512x64..512 --output-image mask:GRAYSCALE:scale=255",
    )
    image = "NAME:LAYOUT[:KEY=NUMBERS]..."
    add_repeated(
        features,
        "--image",
        image,
        "an input that is an image: RGB, BGR, GRAYSCALE or GRAYSCALE_FLOAT16. mean= "
        "and std= normalize as torchvision does; or scale= and bias= give "
        "scale * pixel + bias: a number, or one for each channel with commas. "
        "channels=last for tensors [1, height, width, channels]",
    )
    add_repeated(
        features,
        "--output-image",
        image,
        "an output that is an image: scale * value + bias are its pixels",
    )
    add_repeated(
        features,
        "--shapes",
        "NAME:SHAPE[,SHAPE]...",
        "the shapes of an input, among those that the model takes: 1x3x64..512x64 with "
        "a range, 1x3x64..512=128x64 with one whose default is 128, or a list: "
        "1x3x64x64,1x3x128x128",
    )
    add_repeated(features, "--input-name", "NAME:NEW", "a new name of an input")
    add_repeated(features, "--output-name", "NAME:NEW", "a new name of an output")
    add_repeated(
        features,
        "--input-dtype",
        "NAME:DTYPE",
        f"the dtype of an input: {', '.join(DTYPES)}",
    )
    add_repeated(features, "--output-dtype", "NAME:DTYPE", "the dtype of an output")
    add_repeated(
        features,
        "--default",
        "NAME:NUMBER",
        "an input that may be left out; all of its elements are then this number",
    )
    classifier = parser.add_argument_group(
        "classifiers",
        "The probabilities become a label and a dictionary.\n"
        "  padc convert nets:classify -o classify.mlpackage --labels labels.txt",
    )
    classifier.add_argument(
        "--labels",
        metavar="FILE",
        help="one class label per line; blank lines at the end do not count",
    )
    classifier.add_argument(
        "--label-name",
        metavar="NAME",
        help="the name of the output with the label; that with the dictionary is "
        "NAME_probs (default: classLabel)",
    )
    classifier.add_argument(
        "--probabilities",
        metavar="NAME",
        help="the output with the probabilities, if there are several outputs",
    )
    add_metadata_options(parser)


def add_metadata_options(parser: argparse.ArgumentParser) -> None:
    metadata = parser.add_argument_group(
        "metadata",
        "What Xcode shows of the package.\n"
        "  padc convert nets:classify -o classify.mlpackage --author 'Ada Byron' \\\n"
        "    --license MIT --model-version 1.0 --description 'Tells cats from dogs'",
    )
    metadata.add_argument("--author", metavar="TEXT", help="who made the model")
    metadata.add_argument("--license", metavar="TEXT", help="its license")
    metadata.add_argument("--model-version", metavar="TEXT", help="its version")
    metadata.add_argument("--description", metavar="TEXT", help="what it does")
    for kind in ("input", "output"):
        add_repeated(
            metadata,
            f"--describe-{kind}",
            "NAME:TEXT",
            f"what an {kind} is, by its name in the package",
        )
    metadata.add_argument(
        "--preview",
        metavar="TYPE",
        help="how Xcode previews the model, such as imageSegmenter",
    )
    metadata.add_argument(
        "--preview-parameters", metavar="FILE.json", help="what that preview needs"
    )
    add_repeated(metadata, "--metadata", "KEY=TEXT", "any other entry")


def add_repeated(group: Any, option: str, metavar: str, help: str) -> None:
    group.add_argument(option, action="append", default=[], metavar=metavar, help=help)


def feature_arguments(arguments: argparse.Namespace) -> dict[str, Any]:
    """The arguments of `padc.convert` that the options ask for; raises UsageError."""
    found: dict[str, Any] = {}
    if metadata := read_metadata(arguments):
        found["metadata"] = metadata
    inputs, outputs = read_features(arguments)
    if inputs:
        found["inputs"] = {name: made(each) for name, each in inputs.items()}
    if outputs:
        found["outputs"] = {name: made(each) for name, each in outputs.items()}
    if arguments.labels is not None:
        found["classifier_config"] = classifier_config(arguments)
        return found
    for option in ("label_name", "probabilities"):
        if getattr(arguments, option) is not None:
            shown = option.replace("_", "-")
            raise UsageError(
                f"--{shown} is given without --labels",
                hint="give the class labels: --labels FILE",
            )
    return found


# --- inputs and outputs ---------------------------------------------------------------


@dataclass
class Described:
    """The description of an input or output by the options."""

    options: dict[str, Any] = field(default_factory=dict[str, Any])
    """The values of options, read, by the options' names."""

    def add(self, option: str, name: str, value: Any) -> None:
        if option in self.options:
            raise UsageError(f"{option} is given twice for '{name}'")
        self.options[option] = value


def read_features(
    arguments: argparse.Namespace,
) -> tuple[dict[str, Described], dict[str, Described]]:
    """The described inputs and outputs by name."""
    inputs: dict[str, Described] = {}
    outputs: dict[str, Described] = {}
    rows: Sequence[tuple[str, Callable[[str, str], Any], dict[str, Described]]] = (
        ("--image", read_image, inputs),
        ("--shapes", read_shapes, inputs),
        ("--input-name", read_name, inputs),
        ("--input-dtype", read_dtype, inputs),
        ("--default", read_number, inputs),
        ("--output-image", read_image, outputs),
        ("--output-name", read_name, outputs),
        ("--output-dtype", read_dtype, outputs),
    )
    for option, read, found in rows:
        texts: Sequence[str] = getattr(arguments, option[2:].replace("-", "_"))
        for text in texts:
            name, colon, rest = text.partition(":")
            if not name or not colon:
                raise UsageError(f"{option} {text} is not NAME:...")
            value = read(f"{option} {text}", rest)
            found.setdefault(name, Described()).add(option, name, value)
    return inputs, outputs


def made(described: Described) -> Any:
    """A `ct.TensorType` or `ct.ImageType`."""
    import coremltools as ct
    import numpy as np

    given = {option.split("-")[-1]: each for option, each in described.options.items()}
    shapes = given.get("shapes")
    shape = None if shapes is None else made_shape(shapes)
    if "image" not in given:
        dtype = np.dtype(given["dtype"]).type if "dtype" in given else None
        made: Any = ct.TensorType(given.get("name"), shape, dtype)
        if "default" in given:
            made.default_value = given["default"]
        return made
    others = [each for each in described.options if each.endswith(("dtype", "default"))]
    if others:
        raise UsageError(
            f"an input or output with {others[0]} is described as an image",
            hint=f"leave out {others[0]}: images have neither a dtype nor a default",
        )
    layout, options = given["image"]
    return made_image(given.get("name"), shape, layout, options)


def made_image(
    name: str | None, shape: Any, layout: str, options: Mapping[str, Any]
) -> Any:
    import coremltools as ct

    from padc.coreml import image_type

    first = False if options.get("channels") == "last" else None
    if "mean" in options or "std" in options:
        mean, std = options.get("mean"), options.get("std")
        return image_type(
            name,
            color_layout=layout,
            mean=mean,
            std=std,
            shape=shape,
            channel_first=first,
        )
    scale, bias = options.get("scale", 1.0), options.get("bias")
    return ct.ImageType(
        name,
        shape,
        scale=scale,
        bias=bias,
        color_layout=ct.colorlayout[layout],
        channel_first=first,
    )


def made_shape(shapes: Sequence[Sequence[Sizes]]) -> Any:
    import coremltools as ct

    made = [
        [each[0] if each[0] == each[1] else ct.RangeDim(*each) for each in shape]
        for shape in shapes
    ]
    return made[0] if len(made) == 1 else ct.EnumeratedShapes(made)


def read_image(what: str, text: str) -> tuple[str, dict[str, Any]]:
    layout, *fields = text.split(":")
    resolve("color layout", layout, LAYOUTS)
    options: dict[str, Any] = {}
    for each in fields:
        key, _, value = each.partition("=")
        if key not in IMAGE_KEYS or key in options:
            raise UsageError(
                f"{what}: '{each}' is not understood",
                hint="after the layout come mean=, std=, scale=, bias= and channels=",
            )
        options[key] = value if key == "channels" else read_numbers(what, value)
    if options.get("channels", "last") not in ("first", "last"):
        raise UsageError(f"{what}: channels are first or last")
    if {"mean", "std"} & {*options} and {"scale", "bias"} & {*options}:
        raise UsageError(
            f"{what}: it is normalized by mean= and std=, or by scale= and bias="
        )
    return layout, options


def read_numbers(what: str, text: str) -> float | list[float]:
    try:
        numbers = [float(number) for number in text.split(",")]
    except ValueError as error:
        raise UsageError(f"{what}: '{text}' are not numbers") from error
    return numbers[0] if len(numbers) == 1 else numbers


def read_number(what: str, text: str) -> float | int:
    try:
        return int(text) if re.fullmatch(r"[+-]?\d+", text) else float(text)
    except ValueError as error:
        raise UsageError(f"{what}: '{text}' is not a number") from error


def read_shapes(what: str, text: str) -> list[list[Sizes]]:
    """The sizes of each dimension of each shape."""
    if not re.fullmatch(rf"{SIZES}([x,]{SIZES})*", text, re.ASCII):
        raise UsageError(
            f"{what}: '{text}' are not shapes",
            hint="such as 1x3x64..512x64..512=128, or 1x3x64x64,1x3x128x128",
        )
    shapes = [
        [read_sizes(size) for size in shape.split("x")] for shape in text.split(",")
    ]
    for low, high, default in (sizes for shape in shapes for sizes in shape):
        if not low <= default <= high:
            raise UsageError(
                f"{what}: a range's first size is its smallest, and its default is in "
                "the range"
            )
    return shapes


def read_sizes(text: str) -> Sizes:
    """Read `8`, `8..64` or `8..64=16`."""
    bounds, _, default = text.partition("=")
    low, _, high = bounds.partition("..")
    return int(low), int(high or low), int(default or low)


def read_name(what: str, text: str) -> str:
    return text


def read_dtype(what: str, text: str) -> str:
    return resolve("dtype", text, DTYPES)


# --- labels and metadata --------------------------------------------------------------


def classifier_config(arguments: argparse.Namespace) -> Any:
    import coremltools as ct

    return ct.ClassifierConfig(
        arguments.labels,
        predicted_feature_name=arguments.label_name,
        predicted_probabilities_output=arguments.probabilities,
    )


def read_metadata(arguments: argparse.Namespace) -> dict[str, Any]:
    """The argument `metadata` of `padc.convert`."""
    texts = {
        "author": arguments.author,
        "license": arguments.license,
        "version": arguments.model_version,
        "short_description": arguments.description,
        "preview_type": arguments.preview,
    }
    found: dict[str, Any] = {k: v for k, v in texts.items() if v is not None}
    for key, option, separator in (
        ("input_description", "describe_input", ":"),
        ("output_description", "describe_output", ":"),
        ("user_defined_metadata", "metadata", "="),
    ):
        if texts_by_name := getattr(arguments, option):
            found[key] = read_pairs(option, texts_by_name, separator)
    if (path := arguments.preview_parameters) is not None:
        try:
            found["preview_parameters"] = json.loads(Path(path).read_text("utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise UsageError(f"--preview-parameters {path}: {error}") from error
    return found


def read_pairs(option: str, texts: Sequence[str], separator: str) -> dict[str, str]:
    """The texts by name; UsageError if one has no name, or a name has two texts."""
    shown = option.replace("_", "-")
    found: dict[str, str] = {}
    for text in texts:
        name, has_separator, value = text.partition(separator)
        if not name or not has_separator:
            raise UsageError(f"--{shown} {text} is not NAME{separator}TEXT")
        if name in found:
            raise UsageError(f"--{shown} is given twice for '{name}'")
        found[name] = value
    return found
