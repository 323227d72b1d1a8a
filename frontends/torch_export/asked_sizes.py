# pyright: basic
"""
The bounds that were asked for, which torch.export does not keep.

A `Dim.AUTO` or `Dim.DYNAMIC` becomes the sizes that the model was traced for.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch.export import Dim, ExportedProgram, ShapesCollection

ASKED = "padc.asked_sizes"

Bounds = tuple[int | None, int | None]
"""The smallest and the largest size, where they are given."""


def keep_asked_sizes(
    ep: ExportedProgram,
    module: torch.nn.Module,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    dynamic_shapes: Any,
) -> None:
    """Keep the bounds that the program was exported with, for `asked_sizes`."""
    if not dynamic_shapes:
        return
    leaves = pytree.tree_leaves((args, kwargs))
    tensors = [each for each in leaves if isinstance(each, torch.Tensor)]
    numbers = {id(tensor): number for number, tensor in enumerate(tensors)}
    found: dict[tuple[int, int], Bounds] = {}
    arguments = inspect.signature(module.forward).bind(*args, **kwargs).arguments
    shapes = dynamic_shapes
    if isinstance(shapes, ShapesCollection):
        shapes = shapes.dynamic_shapes(module, tuple(args), dict(kwargs))
    if isinstance(shapes, Sequence):
        shapes = dict(zip(arguments, shapes, strict=False))
    for path, leaf in pytree.tree_leaves_with_path(arguments):
        for dim, size in sizes_at(shapes, path):
            if isinstance(size, type(Dim.AUTO)):
                found[numbers[id(leaf)], dim] = size.min, size.max
    ep.graph_module.meta[ASKED] = found


def sizes_at(shapes: Any, path: Any) -> list[tuple[int, Any]]:
    """What `dynamic_shapes` has for each dimension of the argument at a path."""
    try:
        for key in path:
            shapes = key.get(shapes)
        dims = shapes if isinstance(shapes, Mapping) else range(len(shapes))
        return [(dim, shapes[dim]) for dim in dims]
    except (TypeError, KeyError, IndexError, AttributeError):
        return []  # None stands for all below it, and a number has no dimensions.


def asked_sizes(ep: ExportedProgram) -> Mapping[tuple[int, int], Bounds]:
    """The bounds of dimensions, by the number of the tensor among the inputs."""
    return ep.graph_module.meta.get(ASKED, {})
