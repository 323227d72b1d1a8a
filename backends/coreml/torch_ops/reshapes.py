# pyright: basic, reportMissingTypeStubs=false
"""
Reshapes to computed sizes.

padc's program of one op is for sizes that PyTorch tells apart, and PyTorch asks whether
products of them are equal. What it cannot tell is left to Core ML's reshape.
"""

from typing import Any

import numpy as np

from padc.backends.coreml import quiet
from padc.backends.coreml.torch_ops.arguments import arguments_of

with quiet():
    from coremltools.converters.mil import Builder
    from coremltools.converters.mil.mil.types.symbolic import is_symbolic

mb: Any = Builder


def convert_like(context: Any, node: Any) -> None:
    """Convert `reshape_as` or `view_as`."""
    (x, other), _ = arguments_of(context, node)
    shape = mb.shape(x=other, name=f"{node.name}_shape")
    context.add(mb.reshape(x=x, shape=shape, name=node.name), torch_name=node.name)


def convert_unflatten(context: Any, node: Any) -> None:
    """Convert `unflatten` of a dimension into given sizes."""
    (x, dim, new), _ = arguments_of(context, node)
    dim %= x.rank
    shape = mb.shape(x=x, name=f"{node.name}_shape")

    def size(place: int) -> Any:
        return mb.gather(x=shape, indices=np.int32(place), axis=0)

    sizes = [size(i) if is_symbolic(n) else n for i, n in enumerate(x.shape)]
    sizes[dim : dim + 1] = new
    vectors = [
        np.array([n], np.int32)
        if isinstance(n, int | np.integer)
        else mb.reshape(x=mb.cast(x=n, dtype="int32"), shape=[1])
        for n in sizes
    ]
    shape = mb.concat(values=vectors, axis=0)
    context.add(mb.reshape(x=x, shape=shape, name=node.name), torch_name=node.name)


CONVERTERS = {
    "reshape_as": convert_like,
    "unflatten": convert_unflatten,
    "view_as": convert_like,
}
