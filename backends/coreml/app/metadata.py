# pyright: basic, reportMissingTypeStubs=false
"""
What a package says about itself: author, license, descriptions, Xcode's preview.

The keys are the names that coremltools' `MLModel` has for them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from padc.errors import UsageError

TEXTS = {
    "author": "author",
    "license": "license",
    "short_description": "shortDescription",
    "version": "versionString",
}
"""The fields of `Metadata` in mlmodel/format/Model.proto."""

DESCRIPTIONS = ("input_description", "output_description")
PREVIEW_TYPE = "com.apple.coreml.model.preview.type"
PREVIEW_PARAMETERS = "com.apple.coreml.model.preview.parameters"
PREVIEWS = {PREVIEW_TYPE: "preview_type", PREVIEW_PARAMETERS: "preview_parameters"}
KEYS = (
    *TEXTS,
    *DESCRIPTIONS,
    "user_defined_metadata",
    "preview_type",
    "preview_parameters",
)


def checked_metadata(metadata: Any) -> Mapping[str, Any]:
    """`metadata` if its keys and values are right; raises UsageError."""
    if metadata is None:
        return {}
    if not isinstance(metadata, Mapping):
        raise UsageError(f"metadata is a {type(metadata).__name__}, not a dictionary")
    for key, value in metadata.items():
        if key not in KEYS:
            raise UsageError(
                f"metadata has no {key!r}", hint=f"its keys are {', '.join(KEYS)}"
            )
        if key in (*TEXTS, "preview_type"):
            check_text(f"metadata {key!r}", value)
        elif key != "preview_parameters":
            check_texts(key, value)
    for key in metadata.get("user_defined_metadata", {}):
        if key.startswith("padc.") or key.startswith("com.github.apple.coremltools."):
            raise UsageError(f"the metadata {key!r} is written by padc itself")
        if key in PREVIEWS and PREVIEWS[key] in metadata:
            raise UsageError(f"the metadata {key!r} is given as {PREVIEWS[key]!r}, too")
    try:
        json.dumps(metadata.get("preview_parameters"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"metadata 'preview_parameters': {error}") from error
    return dict(metadata)


def check_texts(key: str, value: Any) -> None:
    if not isinstance(value, Mapping):
        raise UsageError(
            f"metadata {key!r} is a {type(value).__name__}, not a dictionary"
        )
    for name, each in value.items():
        check_text(f"a key of metadata {key!r}", name)
        check_text(f"metadata {key!r} of {name!r}", each)


def check_text(what: str, value: Any) -> None:
    """Raise UsageError unless a value is text that UTF-8 can encode."""
    if not isinstance(value, str):
        raise UsageError(f"{what} is a {type(value).__name__}, not a string")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise UsageError(
            f"{what} is {value!r}, which has no encoding in UTF-8",
            hint="half of a surrogate pair, or a byte that is not of UTF-8, is no "
            "character: leave it out",
        ) from error


def check_described(metadata: Mapping[str, Any], kind: str, names: list[str]) -> None:
    """Raise UsageError if a described input or output does not exist."""
    for name in metadata.get(f"{kind}_description", {}):
        if name not in names:
            raise UsageError(
                f"metadata describes the {kind} {name!r}, which the package does not "
                "have",
                hint=f"its {kind}s are {', '.join(names)}",
            )


def describe_features(metadata: Mapping[str, Any], description: Any) -> None:
    """Write what checked metadata say of the inputs and outputs of a function."""
    for key, items in (
        ("input_description", (*description.input, *description.state)),
        ("output_description", description.output),
    ):
        texts = metadata.get(key, {})
        for item in items:
            item.shortDescription = texts.get(item.name, item.shortDescription)


def write_metadata(metadata: Mapping[str, Any], description: Any) -> None:
    """Write what checked metadata say of the package."""
    for key, message in TEXTS.items():
        if key in metadata:
            setattr(description.metadata, message, metadata[key])
    user_defined = description.metadata.userDefined
    for key, value in metadata.get("user_defined_metadata", {}).items():
        user_defined[key] = value
    if "preview_type" in metadata:
        user_defined[PREVIEW_TYPE] = metadata["preview_type"]
    if "preview_parameters" in metadata:
        user_defined[PREVIEW_PARAMETERS] = json.dumps(metadata["preview_parameters"])
