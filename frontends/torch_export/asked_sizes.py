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

    Raises UsageError for a dynamic dimension that its tensor does not have:
    torch.export may take it, and fix all sizes.
    """
    found: dict[tuple[int, int], Bounds] = {}
    if not dynamic_shapes:
        return found
    leaves = pytree.tree_leaves((args, kwargs))
    tensors = [each for each in leaves if isinstance(each, torch.Tensor)]
    numbers = {id(tensor): number for number, tensor in enumerate(tensors)}
    try:
        arguments = inspect.signature(module.forward).bind(*args, **kwargs).arguments
    except TypeError:
        return found  # The model cannot be called, which the export tells.
    shapes = dynamic_shapes
    if isinstance(shapes, ShapesCollection):
        shapes = shapes.dynamic_shapes(module, tuple(args), dict(kwargs))
    if isinstance(shapes, Sequence):
        shapes = dict(zip(arguments, shapes, strict=False))
    for path, leaf in pytree.tree_leaves_with_path(arguments):
        for dim, size in sizes_at(shapes, path) if id(leaf) in numbers else ():
            if size in (None, Dim.STATIC) or isinstance(size, int):
                continue
            if dim not in range(leaf.dim()):
                raise UsageError(
                    f"the dynamic shapes have dimension {dim} of "
                    f"{pytree.keystr(path)}, whose shape is {(*leaf.shape,)}",
                    hint="count dimensions from 0",
                )
            if isinstance(size, type(Dim.AUTO)):
                found[numbers[id(leaf)], dim] = size.min, size.max
    return found


def keep_asked_sizes(ep: ExportedProgram, sizes: AskedSizes) -> None:
    """Keep the bounds that a program was exported with, for `asked_sizes`."""
    ep.graph_module.meta[ASKED] = sizes


def sizes_at(shapes: Any, path: Any) -> list[tuple[int, Any]]:
    """What `dynamic_shapes` has for each dimension of the argument at a path."""
    try:
        for key in path:
            shapes = key.get(shapes)
        dims = shapes if isinstance(shapes, Mapping) else range(len(shapes))
        return [(dim, shapes[dim]) for dim in dims]
    except (TypeError, KeyError, IndexError, AttributeError):
        return []  # None stands for all below it.


def asked_sizes(ep: ExportedProgram) -> AskedSizes:
    """The bounds that a program was exported with, as far as they are known."""
    return ep.graph_module.meta.get(ASKED, {})
