"""The dtypes that a Core ML program computes floats in."""

from typing import Literal, TypeAlias, get_args

from padc.errors import resolve

Precision: TypeAlias = Literal["float32", "float16"]

DEFAULT_PRECISION: Precision = "float32"


def resolve_precision(name: str) -> str:
    """The precision of this name; UsageError for another name."""
    return resolve("precision", name, get_args(Precision))
