# pyright: reportUnknownMemberType=false
"""The dynamic shapes that descriptions of inputs ask for."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import torch
import torch.utils._pytree as pytree
from torch.export import ExportedProgram
from xdsl.dialects.builtin import DYNAMIC_INDEX, ModuleOp

from padc.backends.calls.input_check import check_sizes, symbolic_sizes
from padc.errors import UsageError
from padc.frontends.torch_export.guards import GuardCheck, guards_of
from padc.ir.main_function import main, value_names
from padc.ir.model_buffers import BUFFER, entries, text
from padc.ir.torch.describe import shape_of
from padc.models.exported import Source

if TYPE_CHECKING:
    from padc.backends.coreml.app.features import Features


def described_export(
    model: torch.nn.Module, example_inputs: Any, described: Any
) -> tuple[Any, Any]:
    """
    Example inputs, and the dynamic dimensions as `torch.export.export` takes them.

    Sizes that a description lists or gives a range may vary; None if there are none.
    PyTorch finds out which of them are equal in the model, also among those that may be
    1 if their bounds are the same. A size of 1 in an example would be static: such an
    example is repeated.
    """
    if described is None or not isinstance(example_inputs, list | tuple):
        return example_inputs, None
    arguments = tuple(cast(Sequence[Any], example_inputs))
    leaves, spec = pytree.tree_flatten(arguments)
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    if isinstance(described, Mapping):
        names = list(inspect.signature(model.forward).parameters)
        by_name = cast(Mapping[str, Any], described)
        is_flat = len(leaves) == len(arguments) == len(tensors)
        wanted = [by_name.get(name) for name in names[: len(leaves)] if is_flat]
    else:
        wanted = list(cast(Sequence[Any], described))
    if len(wanted) != len(tensors):  # A wrong number is reported later, by `matched`.
        return arguments, None
    rest = iter(wanted)
    dims = [
        varying(next(rest), leaf) if isinstance(leaf, torch.Tensor) else None
        for leaf in leaves
    ]
    if not any(dims):
        return arguments, None
    examples = [
        repeated(leaf, found) if found else leaf
        for leaf, found in zip(leaves, dims, strict=True)
    ]
    unflatten = pytree.tree_unflatten
    return unflatten(examples, spec), unflatten(dims, spec)


def varying(described: Any, example: torch.Tensor) -> dict[int, Any] | None:
    """The dimensions of an input that may vary."""
    shape = getattr(described, "shape", None)
    if shape is None:
        return None
    listed = [each.shape for each in getattr(shape, "shapes", [shape])]
    if any(len(sizes) != example.dim() for sizes in listed):
        return None
    found: dict[int, Any] = {}
    for dim, sizes in enumerate(zip(*listed, strict=True)):
        low = int(min(getattr(size, "lower_bound", size) for size in sizes))
        high = int(max(getattr(size, "upper_bound", size) for size in sizes))
        if low >= high:
            continue
        found[dim] = torch.export.Dim.DYNAMIC(min=low, max=high)
        if low <= 1:
            # A hint alone would exclude 1.
            symbol = getattr(sizes[0], "symbol", None) or shape.symbolic_shape[dim]
            found[dim] = torch.export.Dim(f"size_{symbol}", min=1, max=high)
    return found or None


def repeated(example: torch.Tensor, dims: Mapping[int, Any]) -> torch.Tensor:
    """An example with two elements where it has one in a dynamic dimension."""
    counts = [
        2 if size == 1 and dim in dims else 1 for dim, size in enumerate(example.shape)
    ]
    return example if max(counts, default=1) == 1 else example.repeat(counts)


@dataclass(frozen=True)
class Shaped:
    """An input of which only the shape is known."""

    shape: Sequence[int]


Listed: TypeAlias = "Sequence[Sequence[Shaped]]"
"""For each listed shape, the inputs that it describes, and the others."""


def listed_shapes(module: ModuleOp, features: Features) -> Listed | None:
    """All shapes of inputs; None if some have ranges, or if none is dynamic."""
    function, is_dynamic = main(module), False
    rows: list[list[Shaped]] = []
    attributes = [*entries(function.arg_attrs)] or [{}] * len(function.args)
    for argument, entry, described in zip(
        function.args, attributes, features.of_inputs(function), strict=True
    ):
        if text(entry, BUFFER) is not None:
            continue
        shape = shape_of(argument.type) or ()
        if DYNAMIC_INDEX not in shape:
            rows.append([Shaped(shape)])
        elif shapes := shapes_in(described):
            rows.append([Shaped(sizes) for sizes in shapes])
            is_dynamic = True
        else:
            return None
    count = max(map(len, rows), default=1)
    listed = [[row[index % len(row)] for row in rows] for index in range(count)]
    return listed if is_dynamic else None


def shapes_in(described: Any) -> list[Sequence[int]]:
    """The shapes that a description lists, or its one; empty for ranges, or none."""
    shape: Any = getattr(described, "shape", None)
    if hasattr(shape, "shapes"):
        return [each.shape for each in shape.shapes]
    if shape is None or any(hasattr(size, "lower_bound") for size in shape.shape):
        return []
    return [shape.shape]


def check_listed_shapes(module: ModuleOp, exported: Source, listed: Listed) -> None:
    """
    Raise UsageError for listed shapes for which the program is not the model.

    Guards need not hold for the sizes in between.
    """
    function = main(module)
    sizes = symbolic_sizes(function, value_names(function.arg_attrs))
    is_export = isinstance(exported, ExportedProgram)
    check_guards: Any = GuardCheck(guards_of(exported) if is_export else [])
    for inputs in listed:
        try:
            check_sizes(sizes, inputs)
            check_guards(inputs)
        except UsageError as error:
            shapes = ", ".join(str(tuple(each.shape)) for each in inputs)
            raise UsageError(
                f"the shape {shapes} does not fit: {error.message}",
                hint="list shapes that the model takes",
            ) from error
