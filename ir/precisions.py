"""How exactly floats are computed: by a Core ML program, and by machine code."""

from typing import Literal, TypeAlias, cast, get_args

from padc.errors import resolve

Precision: TypeAlias = Literal["float32", "float16"]

NativePrecision: TypeAlias = Literal["default", "strict"]
"""Of machine code: whether convolutions may be computed by Winograd's algorithm."""

DEFAULT_PRECISION: Precision = "float32"


def resolve_precision(precision: object) -> Precision:
    """A precision by name, or as a `ct.precision`; UsageError for any other one."""
    name = getattr(precision, "name", None)
    name = str(precision) if name is None else str(name).lower()
    return cast(Precision, resolve("precision", name, get_args(Precision)))


def native_precision(name: str) -> NativePrecision:
    """The precision of machine code of this name; UsageError for another name."""
    return cast(NativePrecision, resolve("precision", name, get_args(NativePrecision)))
