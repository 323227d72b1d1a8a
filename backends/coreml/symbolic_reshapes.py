# pyright: basic, reportMissingTypeStubs=false
"""
Sizes that coremltools infers for the results of reshapes of dynamic sizes.

It asks SymPy's general solver for each unknown size, which took two fifths of the
conversion of a transformer. Nearly all are one division.
"""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any

from padc.backends.coreml import quiet

with quiet():
    from coremltools.converters.mil.mil.ops.defs.iOS15.tensor_transformation import (
        reshape,
    )
    from coremltools.converters.mil.mil.types.symbolic import is_symbolic

solve: Any = reshape.enforce_volumetric_constraint


@contextmanager
def quick_reshapes() -> Generator[None]:
    """Let coremltools divide where that solves its equation."""
    op: Any = reshape
    op.enforce_volumetric_constraint = staticmethod(sizes)
    try:
        yield
    finally:
        op.enforce_volumetric_constraint = staticmethod(solve)


def sizes(volume: Any, shape: Sequence[Any]) -> list[Any]:
    """
    The sizes of a tensor with `volume` elements; some sizes in `shape` are unknown.

    A size that is a factor of the volume stays. If one other size is unknown, it is the
    quotient of the volume and the known sizes.
    """
    symbols = [size for size in shape if is_symbolic(size)]
    given = volume.free_symbols if is_symbolic(volume) else set()
    kept = [symbol for symbol in symbols if symbol in given]
    unknown = [symbol for symbol in symbols if symbol not in given]
    rest = volume / prod(kept)
    is_plain = (
        all(symbol.is_Symbol for symbol in symbols)
        and len(set(symbols)) == len(symbols)
        and -1 not in shape
        and not (is_symbolic(rest) and rest.free_symbols & set(kept))
    )
    if not is_plain:
        return solve(volume, shape)
    if len(unknown) != 1:
        return list(shape)
    quotient = rest / prod(int(size) for size in shape if not is_symbolic(size))
    if not is_symbolic(quotient):
        quotient = int(quotient)
    return [quotient if size is unknown[0] else size for size in shape]
