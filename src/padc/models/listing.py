# pyright: reportUnknownMemberType=false, reportMissingTypeStubs=false
"""Inputs that list their shapes, because the sizes that fit are no range."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

from xdsl.dialects.builtin import ModuleOp

from padc.backends.calls.input_check import Size, Symbol, symbolic_sizes
from padc.errors import Obstacle
from padc.ir.main_function import main, value_names
from padc.ir.model_buffers import BUFFER, entries
from padc.ir.torch.describe import shape_of
from padc.ir.torch.size_ranges import MOST_SHAPES

if TYPE_CHECKING:
    from padc.backends.coreml.app.features import Features

Values: TypeAlias = Mapping[str, Sequence[int]]
"""The values of symbols, by name, of which ranges have others, too."""


def with_listed_shapes(
    module: ModuleOp, features: Features | None, values: Values
) -> Features:
    """
    The features of a program, in which inputs with such sizes list their shapes.

    Raises Obstacle if Core ML cannot have these lists, or if the user gives such an
    input ranges.
    """
    import coremltools as ct

    from padc.backends.coreml.app.features import Features, model_names

    features = features or Features()
    function = main(module)
    listed = listed_inputs(
        symbolic_sizes(function, value_names(function.arg_attrs)), values
    )
    names = model_names("input", entries(function.arg_attrs), BUFFER)
    check_pairs([str(names[number]) for number in listed], listed.values())
    described: list[Any] = [*features.of_inputs(function)]
    for number, sizes in listed.items():
        own = described[number] = copy.copy(described[number]) or ct.TensorType()
        what = f"the input '{names[number]}'"
        if own.shape is not None:
            raise Obstacle(f"{what} is described with a shape that lists no sizes")
        shape = shape_of(function.args[number].type) or ()
        own.shape = ct.EnumeratedShapes(shapes_of(what, shape, sizes, values))
    inputs = {
        str(name): each
        for name, each in zip(names, described, strict=True)
        if each is not None  # Buffers have neither a name nor a description.
    }
    return replace(features, inputs=inputs)


def listed_inputs(
    sizes: Sequence[Size], values: Values
) -> Mapping[int, Sequence[Size]]:
    """The sizes of each input, by its number, that has one with gaps."""
    of_inputs: dict[int, list[Size]] = {}
    for size in sizes:
        of_inputs.setdefault(size.number, []).append(size)
    return {
        number: own
        for number, own in of_inputs.items()
        if any(symbol.name in values for symbol in symbols_of(own))
    }


def symbols_of(sizes: Sequence[Size]) -> list[Symbol]:
    """The symbols that sizes depend on, in an order of their own."""
    found = {symbol for size in sizes for symbol in size.used}
    return sorted(found, key=lambda symbol: symbol.name)


def check_pairs(names: Sequence[str], inputs: Collection[Sequence[Size]]) -> None:
    """Raise Obstacle for inputs whose lists Core ML would read as pairs."""
    if len({tuple(symbols_of(sizes)) for sizes in inputs}) > 1:
        which = " and ".join(f"'{name}'" for name in names)
        raise Obstacle(
            f"the inputs {which} would list shapes that do not belong together, and "
            "Core ML takes the first ones of both, or the second ones"
        )


def shapes_of(
    what: str, shape: Sequence[int], sizes: Sequence[Size], values: Values
) -> list[list[int]]:
    """All shapes of an input, of which `sizes` are the dynamic ones."""
    symbols = symbols_of(sizes)
    choices = [
        values.get(symbol.name, range(symbol.low, symbol.high + 1))
        for symbol in symbols
    ]
    if (count := prod(map(len, choices))) > MOST_SHAPES:
        raise Obstacle(
            f"{what} would list {count} shapes, and Core ML takes {MOST_SHAPES}"
        )
    found: list[list[int]] = []
    for chosen in itertools.product(*choices):
        known = dict(zip(symbols, chosen, strict=True))
        dynamic = {size.dim: size.value(known) for size in sizes}
        found.append([dynamic.get(dim, size) for dim, size in enumerate(shape)])
    return found
