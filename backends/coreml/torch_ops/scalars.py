# pyright: basic, reportMissingTypeStubs=false
"""
Arithmetic on sizes that coremltools does not convert, or converts to floats.

Exported graphs call functions of Python for it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from padc.backends.coreml import quiet
from padc.backends.coreml.torch_ops.arguments import arguments_of
from padc.errors import Problem, UnsupportedError

with quiet():
    from coremltools.converters.mil import Builder
    from coremltools.converters.mil.mil import types

mb: Any = Builder

Converter = Callable[[Any, Any], None]

SCALARS: Mapping[str, Callable[..., Any]] = {
    "floordiv": lambda a, b, name: mb.floor_div(x=a, y=b, name=name),
    "mod": lambda a, b, name: mb.mod(x=a, y=b, name=name),
    "sym_float": lambda a, name: mb.cast(x=a, dtype="fp32", name=name),
    "sym_max": lambda a, b, name: mb.maximum(x=a, y=b, name=name),
    "sym_min": lambda a, b, name: mb.minimum(x=a, y=b, name=name),
}
"""The builder of each, by the name of the function of Python or PyTorch."""
ON_TENSORS_TOO = {"floor_divide": SCALARS["floordiv"]}
"""The same for ATen ops, which traced graphs have for numbers: `//`."""


def scalar_converter(
    build: Callable[..., Any], original: Converter | None
) -> Converter:
    """A converter by `build`; numbers that are not integers are for `original`."""

    def convert(context: Any, node: Any) -> None:
        values, _ = arguments_of(context, node)
        if original is None or are_integers(values):
            context.add(build(*values, name=node.name), torch_name=node.name)
        else:
            original(context, node)

    return convert


def as_tensor(context: Any, node: Any) -> None:
    """A number as a tensor of rank 0; coremltools makes a vector of one it knows."""
    context.add(context[node.inputs[0]], torch_name=node.name)


def storage_offset(context: Any, node: Any) -> None:
    """
    Where a view begins in memory, which exported programs assert something about.

    Raises UnsupportedError if something else uses it.
    """
    users = [each for each in context.torch_graph.nodes if node.name in each.inputs]
    if not {each.kind for each in users} <= COMPARISONS:
        raise UnsupportedError([Problem("a model that computes with storage_offset()")])
    context.add(mb.const(val=np.int32(0)), torch_name=node.name)


COMPARISONS = frozenset("eq ge gt le lt ne".split())

CONVERTERS: Mapping[str, Converter] = {
    "numtotensor": as_tensor,
    "sym_storage_offset": storage_offset,
}
"""The converters of other kinds."""


def are_integers(values: Sequence[Any]) -> bool:
    """Whether these are integers, known or not; not all of them known."""
    dtypes = [None if isinstance(x, int) else getattr(x, "dtype", x) for x in values]
    return set(dtypes) <= {None, types.int32} and types.int32 in dtypes
