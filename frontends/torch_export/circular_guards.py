# pyright: reportUnknownMemberType=false, reportMissingTypeStubs=false
"""
Guards that PyTorch lacks: circular pads that crop must leave enough to wrap.

PyTorch pads before it crops, and returns memory that nobody wrote where cropping leaves
fewer elements than are padded: `F.pad(x, (3, -2), mode="circular")` of 4 elements.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

import sympy
import torch
from torch.export import ExportedProgram
from torch.fx import Node
from torch.utils._sympy.printers import PythonPrinter

from padc.errors import SourceLocation, UsageError
from padc.frontends.torch_export.locations import node_location
from padc.frontends.torch_export.types import expression_of
from padc.ir.padding import cropped_size


def circular_guards(
    ep: ExportedProgram, inputs: Mapping[str, tuple[int, str]]
) -> Iterator[str]:
    """
    Conditions on input sizes, in Python as PyTorch writes guards.

    `inputs` are the number and the name of each input, by what guards call it. Raises
    UsageError where a static size leaves too little.
    """
    symbols: dict[str, str] | None = None
    for node in ep.graph.nodes:
        for size, needed in cropped(node):
            if isinstance(size, sympy.Integer):
                if int(size) < needed:
                    raise too_little(node, int(size), needed)
                continue
            if symbols is None:
                symbols = sources_of_symbols(ep, inputs)
            text = PythonPrinter().doprint(size)
            names = "|".join(map(str, cast(set[sympy.Symbol], size.free_symbols)))
            known = symbols
            text = re.sub(rf"\b({names})\b", lambda m: known.get(m[0], m[0]), text)
            yield f"{text} >= {needed}"


def cropped(node: Node) -> Iterator[tuple[sympy.Expr, int]]:
    """The cropped size of each dimension of a circular pad, and its least size."""
    if node.target != torch.ops.aten.pad.default or "circular" not in node.args:
        return
    tensor, amounts = node.args[:2]
    assert isinstance(tensor, Node)
    pads = cast(list[Any], amounts)
    value: torch.Tensor = tensor.meta["val"]
    for place, (lower, upper) in enumerate(zip(pads[::2], pads[1::2], strict=True)):
        if not (isinstance(lower, int) and isinstance(upper, int)):
            continue
        if min(lower, upper) < 0 < max(lower, upper):
            size = expression_of(value.shape[value.dim() - 1 - place])
            yield cropped_size(size, lower, upper), max(lower, upper)


def sources_of_symbols(
    ep: ExportedProgram, inputs: Mapping[str, tuple[int, str]]
) -> dict[str, str]:
    """The input size that each symbol is, as guards call it."""
    values = {node.name: node.meta.get("val") for node in ep.graph.nodes}
    found: dict[str, str] = {}
    for source, (_, name) in inputs.items():
        value = values[name]
        assert isinstance(value, torch.Tensor)
        for dim, size in enumerate(value.shape):
            found.setdefault(str(expression_of(size)), f"{source}.size()[{dim}]")
    return found


def too_little(node: Node, size: int, needed: int) -> UsageError:
    return UsageError(
        f"a circular pad by {needed} after a crop that leaves {size} elements: PyTorch "
        "returns memory that nobody wrote",
        location=SourceLocation.of(node_location(node)),
        hint="crop the result instead of the input, or pad by less",
    )
