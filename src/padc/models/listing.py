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
from padc.ir.targets import TARGETS
from padc.ir.torch.describe import shape_of
from padc.ir.torch.size_ranges import MOST_SHAPES

if TYPE_CHECKING:
    from padc.backends.coreml.app.features import Features

Values: TypeAlias = Mapping[str, Sequence[int]]
"""The values of symbols, by name, of which ranges have others, too."""


def with_listed_shapes(
    module: ModuleOp, features: Features | None, values: Values, target: str
) -> Features:
    """
    The features of a program, in which inputs with such sizes list their shapes.

    Raises Obstacle if Core ML cannot have these lists, or the user describes others.
    """
    import coremltools as ct

    from padc.backends.coreml.app.features import Features, model_names

    features = features or Features()
    function = main(module)
    sizes = symbolic_sizes(function, value_names(function.arg_attrs))
    listed = listed_inputs(sizes, values)
    names = model_names("input", entries(function.arg_attrs), BUFFER)
    check_together([str(names[number]) for number in listed], listed.values(), target)
    described: list[Any] = [*features.of_inputs(function)]
    for number, own in enumerate(described):
        shape = getattr(own, "shape", None)
        if hasattr(shape, "shapes") or (number in listed and shape is not None):
            raise Obstacle(
                f"the input '{names[number]}' is described with a shape, and not all "
                "inputs of dynamic sizes are described with lists or sizes"
            )
    for number, own_sizes in listed.items():
        own = described[number] = copy.copy(described[number]) or ct.TensorType()
        shape = shape_of(function.args[number].type) or ()
        what = f"the input '{names[number]}'"
        own.shape = ct.EnumeratedShapes(shapes_of(what, shape, own_sizes, values))
    inputs = {
        str(name): each
        for name, each in zip(names, described, strict=True)
        if each is not None  # Buffers have neither a name nor a description.
    }
    return replace(features, inputs=inputs)


def listed_inputs(
    sizes: Sequence[Size], values: Values
) -> Mapping[int, Sequence[Size]]:
    """
    The sizes of each input that lists its shapes, by its number.

    Those have a size with gaps, or one of the same symbol as another listed input.
    """
    of_inputs: dict[int, list[Size]] = {}
    for size in sizes:
        of_inputs.setdefault(size.number, []).append(size)
    listed: dict[int, list[Size]] = {}
    reached = set(values)
    while found := [
        number
        for number, own in of_inputs.items()
        if number not in listed and reached & {x.name for x in symbols_of(own)}
    ]:
        for number in found:
            listed[number] = of_inputs[number]
            reached |= {symbol.name for symbol in symbols_of(of_inputs[number])}
    return dict(sorted(listed.items()))


def symbols_of(sizes: Sequence[Size]) -> list[Symbol]:
    """The symbols that sizes depend on, by their names."""
    found = {symbol for size in sizes for symbol in size.used}
    return sorted(found, key=lambda symbol: symbol.name)


def check_together(
    names: Sequence[str], inputs: Collection[Sequence[Size]], target: str
) -> None:
    """Raise Obstacle for lists of several inputs that Core ML does not have."""
    which = " and ".join(f"'{name}'" for name in names)
    if len({tuple(symbols_of(sizes)) for sizes in inputs}) > 1:
        raise Obstacle(
            f"the inputs {which} would list shapes that do not belong together, and "
            "Core ML takes the first ones of all, or the second ones"
        )
    if len(names) > 1 and TARGETS.index(target) < TARGETS.index("iOS18"):
        raise Obstacle(
            f"the inputs {which} would list shapes, which several do from iOS18 on"
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
