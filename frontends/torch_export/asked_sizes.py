# pyright: basic, reportPrivateUsage=false
"""
The bounds that were asked for, which torch.export does not keep.

A `Dim.AUTO` or `Dim.DYNAMIC` becomes the sizes that the model was traced for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch.export import Dim, ExportedProgram, ShapesCollection
from torch.export.dynamic_shapes import _combine_args, _tree_map_with_path

from padc.errors import UsageError

ASKED = "padc.asked_sizes"

Bounds = tuple[int | None, int | None]
"""The smallest and the largest size, where they are given."""
AskedSizes = Mapping[tuple[int, int], Bounds]
"""Those of dimensions, by the number of the tensor among the inputs."""


def bounds_asked_for(
    module: torch.nn.Module,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    dynamic_shapes: Any,
) -> AskedSizes:
    """
    The bounds in the `dynamic_shapes` of an export.

    Raises UsageError for a dimension that its tensor does not have, and for a
    `Dim.AUTO` or `Dim.DYNAMIC` of a negative one: torch.export ignores it.
    """
    found: dict[tuple[int, int], Bounds] = {}
    if not dynamic_shapes:
        return found
    leaves = pytree.tree_leaves((args, kwargs))
    tensors = [each for each in leaves if isinstance(each, torch.Tensor)]
    numbers = {id(tensor): number for number, tensor in enumerate(tensors)}
    try:
        given = shapes_of_tensors(module, args, kwargs, dynamic_shapes)
    except Exception:
        return found  # The arguments do not fit, which the export tells.
    for name, tensor, shape in given:
        for dim, size in sizes_of(shape):
            if size in (None, Dim.STATIC):
                continue
            is_hint, rank = isinstance(size, type(Dim.AUTO)), tensor.dim()
            if dim not in range(0 if is_hint else -rank, rank):
                raise UsageError(
                    f"dynamic_shapes names dimension {dim} of {name}, which has the "
                    f"shape {(*tensor.shape,)}",
                    hint=f"its dimensions are 0 to {rank - 1}"
                    if rank
                    else "leave it out: it has no dimensions",
                )
            if is_hint:
                found[numbers[id(tensor)], dim] = size.min, size.max
    return found


def shapes_of_tensors(
    module: torch.nn.Module,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    dynamic_shapes: Any,
) -> list[tuple[str, torch.Tensor, Any]]:
    """
    The name of each tensor, the tensor, and what `dynamic_shapes` has for it.

    Raises what PyTorch raises of arguments or shapes that do not fit.
    """
    arguments = _combine_args(module, args, kwargs)
    shapes = dynamic_shapes
    if isinstance(shapes, ShapesCollection):
        shapes = shapes.dynamic_shapes(module, tuple(args), dict(kwargs))
    if isinstance(shapes, Sequence):
        shapes = dict(zip(arguments, shapes, strict=True))
    leaves: Any = pytree.tree_leaves_with_path(arguments)
    names = {id(x): f"{path[0].key}{pytree.keystr(path[1:])}" for path, x in leaves}
    found: list[tuple[str, torch.Tensor, Any]] = []

    def visit(path: Any, leaf: Any, shape: Any) -> None:
        if isinstance(leaf, torch.Tensor):
            found.append((names[id(leaf)], leaf, shape))

    _tree_map_with_path(visit, arguments, shapes, tree_name="inputs")
    return found


def sizes_of(shape: Any) -> Iterator[tuple[int, Any]]:
    """The dimensions of a tensor in `dynamic_shapes`, and what it has for each."""
    match shape:
        case Mapping():
            yield from shape.items()
        case Sequence():
            yield from enumerate(shape)
        case _:
            pass


def keep_asked_sizes(ep: ExportedProgram, sizes: AskedSizes) -> None:
    """Keep the bounds that a program was exported with, for `asked_sizes`."""
    ep.graph_module.meta[ASKED] = sizes


def asked_sizes(ep: ExportedProgram) -> AskedSizes:
    """The bounds that a program was exported with, as far as they are known."""
    return ep.graph_module.meta.get(ASKED, {})
