# pyright: basic, reportMissingTypeStubs=false
"""
Ranges of sizes that are larger than those that a model was exported for.

coremltools does not compare them. For other sizes the exported program computes
something else than the model.
"""

import functools
from collections.abc import Callable, Iterator
from typing import Any

from padc.backends.coreml import quiet
from padc.backends.coreml.torch_ops.sizes import bounds
from padc.warn import warn

with quiet():
    from coremltools.converters.mil.input_types import RangeDim

SPECIAL = 2
"""PyTorch says that a size is 2 at least where it has not looked at 1."""


def with_warnings(match: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """coremltools' method that matches the user's inputs with those of a program."""

    @functools.wraps(match)
    def matched(converter: Any, given: Any) -> Any:
        found = match(converter, given)
        for input, exported in zip(found, converter.graph.inputs.values()):
            for problem in beyond(input.shape, exported.shape):
                warn(f"the input '{input.name or exported.name}': {problem}")
        return found

    return matched


def beyond(given: Any, exported: Any) -> Iterator[str]:
    """Each range of `given` that is larger than that of the exported program."""
    for dim, size in enumerate(exported.shape):
        if not isinstance(size, RangeDim):
            continue
        low, high = bounds(exported, dim)
        least, most = ends_of(given, dim)
        if least < (1 if low <= SPECIAL else low) or most > high:
            yield (
                f"the model was exported for sizes of {low} to {high} in dimension "
                f"{dim}, and may compute something else for others of {least} to {most}"
            )


def ends_of(shape: Any, dim: int) -> tuple[int, int]:
    """The smallest and the largest size of a dimension, which may be one number."""
    sizes = getattr(shape, "shape", ())
    if dim < len(sizes) and isinstance(size := sizes[dim], int):
        return size, size
    return bounds(shape, dim)
