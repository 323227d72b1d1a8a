# pyright: basic, reportMissingTypeStubs=false, reportAttributeAccessIssue=false
"""
Inputs that an app may leave out: the number that fills them.

An input that is left out has its default shape. So its sizes must not be those of other
inputs, which the app gives.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from padc.backends.coreml import quiet
from padc.backends.coreml.app.io_types import numpy_name
from padc.backends.coreml.app.shapes import Ranges, Size
from padc.errors import Obstacle, shortened
from padc.ir.torch.size_ranges import SizeRange

with quiet():
    import coremltools as ct
    from coremltools.converters.mil.mil import types

OPERATORS = "floordiv", "ceildiv", "mod"
"""The words in an expression of sizes that are no names of sizes."""


def default_of(default: Any, shape: Sequence[int], dtype: Any) -> Any:
    """
    The number in the dtype of an input, whose default shape is given.

    Raises Obstacle unless the default is one finite number that the dtype has.
    """
    name = numpy_name(types.builtin_to_string(dtype))
    hint = f"give a finite number that {name} has"
    if (given := numbers_in(default)) is None:
        raise Obstacle(f"is described with the default {shortened(default)}", hint)
    if given.size > 1 and given.shape != tuple(shape):
        raise Obstacle(
            f"is described with a default of shape {given.shape}; an input that is "
            f"left out has the shape {tuple(shape)}",
            "give one number, or an array of this shape",
        )
    number = given.flat[0]
    with np.errstate(all="ignore"):
        converted = number.astype(types.nptype_from_builtin(dtype))
    kept = converted == number if types.is_int(dtype) else np.isfinite(converted)
    if not kept:
        raise Obstacle(
            f"is described with the default {number}, which {name} inputs cannot have",
            hint,
        )
    if (given != number).any():
        raise Obstacle(
            "is described with a default of different numbers",
            "give one number: Core ML fills the input with it",
        )
    return converted


def numbers_in(default: Any) -> Any:
    """The default as an array of numbers; None if it is not made of numbers."""
    try:
        given = np.asarray(default)
        # Numpy has integers beyond 64 bits as objects.
        if given.dtype.kind == "O" and all(isinstance(x, int) for x in given.flat):
            given = given.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        return None
    return given if given.size and given.dtype.kind in "biuf" else None


def check_apart(
    name: str,
    described: Mapping[str, Any],
    sizes: Mapping[str, Sequence[Size]],
    ranges: Ranges,
) -> None:
    """
    Raise Obstacle if the sizes of an input with a default follow those of others.

    `described` and `sizes` are those of all inputs, by name.
    """
    if is_listed(described[name]):
        raise Obstacle(
            "is described with a default and with enumerated shapes, which coremltools "
            "does not let an input have together",
            "give it one shape, or leave the default out",
        )
    own = {symbol for size in sizes[name] for symbol in symbols_of(size)}
    for other, its_sizes in sizes.items():
        for size in its_sizes:
            if other == name or not own & symbols_of(size) or is_fixed(size, ranges):
                continue
            raise Obstacle(
                "is described with a default, and its shape depends on that of the "
                f"input '{other}', which may have another than the default one",
                "give the input of size 1 that the model broadcasts, or leave the "
                "default out",
            )


def is_listed(described: Any) -> bool:
    return isinstance(getattr(described, "shape", None), ct.EnumeratedShapes)


def symbols_of(size: Size) -> set[str]:
    """The names of the sizes that a size is computed from; none of a number."""
    if not isinstance(size, SizeRange):
        return set()
    return {*re.findall(r"[A-Za-z_]\w*", size.name)} - {*OPERATORS}


def is_fixed(size: Size, ranges: Ranges) -> bool:
    """Whether descriptions leave one value of a size."""
    if not isinstance(size, SizeRange):
        return True
    dim = ranges.dim(size)
    return dim.lower_bound == dim.upper_bound
