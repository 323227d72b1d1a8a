# pyright: reportUnknownMemberType=false
"""The dynamic shapes that descriptions of inputs ask for."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import torch
import torch.utils._pytree as pytree
from xdsl.dialects.builtin import ModuleOp

from padc.backends.calls.input_check import check_sizes, symbolic_sizes
from padc.errors import UsageError
from padc.ir.main_function import main, value_names

if TYPE_CHECKING:
    from padc.backends.coreml.features import Features


def described_shapes(
    model: torch.nn.Module, example_inputs: Any, described: Any
) -> Any:
    """
    The dynamic dimensions, as `torch.export.export` takes them; None if all are static.

    Sizes that a description lists or gives a range may vary. PyTorch finds out which of
    them are equal in the model.
    """
    if described is None or not isinstance(example_inputs, list | tuple):
        return None
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
    if len(wanted) != len(tensors):  # What is wrong is found when it is compared.
        return None
    rest = iter(wanted)
    dims = [
        varying(next(rest), leaf) if isinstance(leaf, torch.Tensor) else None
        for leaf in leaves
    ]
    return pytree.tree_unflatten(dims, spec) if any(dims) else None


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
        low = min(getattr(size, "lower_bound", size) for size in sizes)
        high = max(getattr(size, "upper_bound", size) for size in sizes)
        if low < high:
            found[dim] = torch.export.Dim.DYNAMIC(min=int(low), max=int(high))
    return found or None


@dataclass(frozen=True)
class Shaped:
    """An input of which only the shape is known."""

    shape: Sequence[int]


def check_listed_shapes(module: ModuleOp, features: Features) -> None:
    """
    Raise UsageError for enumerated shapes of sizes that do not go together.

    Only asked if all inputs of dynamic sizes have such shapes.
    """
    function = main(module)
    described = features.of_inputs(function)
    sizes = symbolic_sizes(function, value_names(function.arg_attrs))
    dynamic = {size.number for size in sizes}
    listed: dict[int, Any] = {}
    for number in dynamic:
        each: Any = described[number]
        if each is not None and hasattr(each.shape, "shapes"):
            listed[number] = each.shape.shapes
    if not listed or set(listed) != dynamic:
        return
    for index in range(min(map(len, listed.values()))):
        inputs: Any = {n: Shaped(each[index].shape) for n, each in listed.items()}
        try:
            check_sizes(sizes, inputs)
        except UsageError as error:
            shapes = ", ".join(str(tuple(each.shape)) for each in inputs.values())
            raise UsageError(
                f"the enumerated shape {shapes} does not fit: {error.message}",
                hint="list shapes that the model takes",
            ) from error
