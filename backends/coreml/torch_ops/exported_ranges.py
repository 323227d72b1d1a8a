# pyright: basic, reportMissingTypeStubs=false
"""
Sizes that a model was not exported for.

coremltools does not compare the sizes of its inputs with those of an exported program,
and does not read its guards. For other sizes the program computes something else than
the model.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import sympy
from torch.export import ExportedProgram

from padc.backends.coreml import quiet
from padc.backends.coreml.torch_ops.sizes import bounds
from padc.errors import UnsupportedError
from padc.frontends.torch_export.guarded_ranges import guarded_values
from padc.frontends.torch_export.guards import input_tensors
from padc.frontends.torch_export.types import expression_of

with quiet():
    from coremltools.converters.mil.input_types import RangeDim

SPECIAL = 2
"""torch.export gives a size this lower bound unless the model was traced for 1."""


def range_problems(converter: Any, ep: ExportedProgram) -> Iterator[str]:
    """The sizes of a converter's inputs that `ep` was not exported for."""
    exported = converter.graph.inputs
    names = [x.name or y for x, y in zip(converter.inputs, exported)]
    shapes = [x.shape for x in converter.inputs]
    own = [x.shape for x in exported.values()]
    yield from beyond(names, shapes, own)
    yield from unguarded(names, shapes, ep)


def beyond(
    names: Sequence[str], shapes: Sequence[Any], exported: Sequence[Any]
) -> Iterator[str]:
    """Each range of sizes that is larger than that of the exported program."""
    for name, given, own in zip(names, shapes, exported):
        for dim, size in enumerate(own.shape):
            if not isinstance(size, RangeDim):
                continue
            low, high = bounds(own, dim)
            least, most = ends_of(given, dim)
            if least < (1 if low <= SPECIAL else low) or most > high:
                yield message(name, dim, f"sizes of {low} to {high}", (least, most))


def unguarded(
    names: Sequence[str], shapes: Sequence[Any], ep: ExportedProgram
) -> Iterator[str]:
    """Each symbolic size of which the guards of `ep` exclude some in its range."""
    places: dict[sympy.Symbol, tuple[str, int, sympy.Expr]] = {}
    ranges: dict[sympy.Symbol, range] = {}
    for name, shape, tensor in zip(names, shapes, input_tensors(ep)):
        for dim, size in enumerate(tensor.shape):
            expression = expression_of(size)
            is_plain = isinstance(expression, sympy.Symbol)
            for symbol in getattr(expression, "free_symbols", ()):
                low, high = ends_of(shape, dim)
                own = ep.range_constraints[symbol]
                # A size like 4*n is larger than n, and says nothing of its least value.
                least = max(low, own.lower) if is_plain else own.lower
                if is_plain or symbol not in places:
                    places[symbol] = name, dim, expression
                    ranges[symbol] = range(int(least), int(min(high, own.upper)) + 1)
    try:
        allowed = guarded_values(ep, ranges)
    except UnsupportedError as error:
        yield from (each.message for each in error.problems)
        return
    for symbol, given in ranges.items():
        if not given:
            continue  # `beyond` says so.
        kept, least, most = allowed[symbol], given[0], given[-1]
        low, high = kept.values[0], kept.values[-1]
        if most > high or low > max(least, SPECIAL) or kept.has_gaps:
            name, dim, size = places[symbol]
            ends = [int(size.subs(symbol, x)) for x in (low, high, least, most)]
            some = f"{len(kept.values)} of the " if kept.has_gaps else ""
            sizes = f"{some}sizes of {ends[0]} to {ends[1]}"
            yield message(name, dim, sizes, (ends[2], ends[3]))


def message(name: str, dim: int, exported: str, given: tuple[int, int]) -> str:
    return (
        f"dimension {dim} of the input '{name}': the model was exported for {exported},"
        f" and may compute something else for others of {given[0]} to {given[1]}"
    )


def ends_of(shape: Any, dim: int) -> tuple[int, int]:
    """The smallest and the largest size of a dimension, which may be one number."""
    sizes = getattr(shape, "shape", ())
    if dim < len(sizes) and isinstance(size := sizes[dim], int):
        return size, size
    return bounds(shape, dim)
