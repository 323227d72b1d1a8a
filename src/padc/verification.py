# pyright: reportUnknownMemberType=false
"""Running a saved package, and comparing it with the model in PyTorch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt
import torch
import torch.utils._pytree as pytree
from torch.export import ExportedProgram
from torch.export.graph_signature import OutputKind, TensorArgument

from padc.backends.coreml.evaluator import Feature, Model, load
from padc.errors import UsageError, WrongResultError
from padc.frontends.torch_export import module_of

TOLERANCES: Mapping[str, float] = {"float32": 1e-4, "float16": 1e-2}
"""The largest error allowed, in parts of the range of the expected output."""


@dataclass(frozen=True)
class Comparison:
    """How far an output of the package is from the model's."""

    name: str
    max_error: float
    """The largest absolute error; infinite where shapes or NaNs differ."""
    relative_error: float
    """The largest absolute error in parts of the expected output's range."""


def run_package(
    path: str | Path, inputs: Sequence[torch.Tensor]
) -> tuple[torch.Tensor, ...]:
    """Run a saved package on tensors, in the order of its inputs."""
    return _run(load(path), inputs)


def _run(model: Model, inputs: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    if len(inputs) != len(model.inputs):
        raise UsageError(
            f"the package takes {len(model.inputs)} inputs, got {len(inputs)}"
        )
    given = {
        feature.name: _as_input(feature, tensor)
        for feature, tensor in zip(model.inputs, inputs, strict=True)
    }
    outputs = model.predict(given)
    return tuple(torch.from_numpy(outputs[feature.name]) for feature in model.outputs)


def _as_input(feature: Feature, tensor: torch.Tensor) -> npt.NDArray[Any]:
    """The same values in the dtype that the package takes; UsageError if it can't."""
    if not _is_tensor(tensor):
        raise UsageError(
            f"the input '{feature.name}' is of type {type(tensor).__name__}",
            hint="give a torch.Tensor",
        )
    exact = tensor.detach().cpu()
    # numpy has no bfloat16.
    exact = (exact.float() if exact.dtype == torch.bfloat16 else exact).numpy()
    # Core ML has no int64, bool or rank 0 at its borders: int32, floats, [1] instead.
    array = np.real(exact).astype(feature.dtype)
    if not np.array_equal(array, exact, equal_nan=array.dtype.kind == "f"):
        raise UsageError(
            f"the input '{feature.name}' of dtype {tensor.dtype} has values that the "
            f"package's {feature.dtype} has not"
        )
    return array.reshape(feature.shape) if tensor.dim() == 0 else array


def sample_inputs(exported: ExportedProgram) -> list[tuple[torch.Tensor, ...]]:
    """The program's example inputs, and random ones of their shapes and dtypes."""
    if exported.example_inputs is None:
        raise UsageError(
            "the program was saved without example inputs to verify it with",
            hint="give inputs to verify",
        )
    leaves = pytree.tree_leaves(exported.example_inputs)
    examples = tuple(leaf for leaf in leaves if _is_tensor(leaf))
    generator = torch.Generator().manual_seed(0)

    def random_like(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.is_floating_point():
            return torch.randn(tensor.shape, generator=generator).to(tensor.dtype)
        # Of other dtypes only the values that are there are known to be legal.
        order = torch.randperm(tensor.numel(), generator=generator)
        return tensor.flatten()[order].reshape(tensor.shape)

    return [examples, tuple(map(random_like, examples))]


def tensor_outputs(exported: ExportedProgram) -> list[torch.Tensor]:
    """For each output of the package, a tensor like the model's: dtype and rank."""
    values = {node.name: node.meta.get("val") for node in exported.graph.nodes}
    return [
        values[spec.arg.name]
        for spec in exported.graph_signature.output_specs
        if spec.kind == OutputKind.USER_OUTPUT and isinstance(spec.arg, TensorArgument)
    ]


def verify_package(
    model: torch.nn.Module | ExportedProgram,
    exported: ExportedProgram,
    path: str | Path,
    inputs: Sequence[Sequence[torch.Tensor]],
    precision: str = "float32",
) -> list[Comparison]:
    """
    Run a saved package and its model on each of `inputs`, and compare all outputs.

    `exported` is the model's export, which tells how it takes its inputs. Returns the
    worst comparison of each output. Raises WrongResultError where one is off by more
    than `TOLERANCES[precision]` of the expected output's range, UsageError where
    inputs or outputs do not correspond.
    """
    package = load(path)
    if not inputs:
        raise UsageError("there are no inputs to compare the package on")
    worst: dict[str, Comparison] = {}
    for sample in inputs:
        example = exported.example_inputs or (tuple(sample), {})
        actual = _run(package, sample)
        expected = _run_eager(model, example, sample)
        if len(actual) != len(expected):
            raise UsageError(
                f"{path} has {len(actual)} outputs, the model has {len(expected)}"
            )
        for feature, is_, should in zip(package.outputs, actual, expected, strict=True):
            found = compare(feature.name, is_, should)
            known = worst.get(feature.name, found)
            worst[feature.name] = max(known, found, key=lambda c: c.relative_error)
    tolerance = TOLERANCES[precision]
    wrong = [c for c in worst.values() if not c.relative_error <= tolerance]
    if wrong:
        listed = ", ".join(
            f"'{c.name}' by {c.max_error:.3g}, {c.relative_error:.3g} of its range"
            for c in wrong
        )
        raise WrongResultError(
            f"the package does not compute what the model does: off are {listed}; "
            f"allowed is {tolerance:g} of the range",
        )
    return list(worst.values())


def _run_eager(
    model: torch.nn.Module | ExportedProgram,
    example: tuple[Any, ...],
    inputs: Sequence[torch.Tensor],
) -> list[torch.Tensor]:
    """The model's outputs; inputs that are not tensors are those of the example."""
    tensors = iter(inputs)
    leaves, spec = pytree.tree_flatten(example)
    given = [next(tensors) if _is_tensor(leaf) else leaf for leaf in leaves]
    args, kwargs = pytree.tree_unflatten(given, spec)
    call = module_of(model) if isinstance(model, ExportedProgram) else model
    with torch.inference_mode():
        result = call(*args, **kwargs)
    return [leaf for leaf in pytree.tree_leaves(result) if _is_tensor(leaf)]


def _is_tensor(leaf: Any) -> TypeGuard[torch.Tensor]:
    return isinstance(leaf, torch.Tensor)


def compare(name: str, actual: torch.Tensor, expected: torch.Tensor) -> Comparison:
    """Compare values; integers and bools must be equal, NaN only equals NaN."""
    if expected.dim() == 0:
        expected = expected.reshape(1)
        actual = actual.reshape(-1)
    different = Comparison(name, float("inf"), float("inf"))
    if actual.shape != expected.shape:
        return different
    if expected.numel() == 0:
        return Comparison(name, 0.0, 0.0)
    is_, should = actual.double(), expected.double()
    same = (is_ == should) | (is_.isnan() & should.isnan())
    if not expected.is_floating_point():
        return Comparison(name, 0.0, 0.0) if bool(same.all()) else different
    error = torch.where(same, 0.0, (is_ - should).abs())
    if not bool(error.isfinite().all()):
        return different
    finite = should[should.isfinite()]
    extent = float(finite.max() - finite.min()) if finite.numel() else 0.0
    # A constant output has no range; its size is what errors are measured by.
    scale = extent or float(finite.abs().max()) if finite.numel() else 1.0
    worst = float(error.max())
    return Comparison(name, worst, worst / (scale or 1.0))
