# pyright: reportUnknownMemberType=false
"""Models that padc cannot import: PyTorch runs them, behind the same interface."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import torch
import torch.utils._pytree as pytree
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind

from padc.backends.native.function import write_results
from padc.compiled import (
    CompiledModel,
    as_array,
    as_targets,
    as_tensor,
    check_apart,
    check_names,
)
from padc.errors import UnsupportedError, UsageError, first_line
from padc.ir.weights import Array


class EagerModel(CompiledModel):
    """What `padc.compile` returns where nothing of a model can be compiled."""

    def __init__(self, exported: ExportedProgram, reason: UnsupportedError):
        self._module = exported.module()
        self._reason = reason
        signature = exported.graph_signature
        assert exported.call_spec.in_spec is not None
        self._in_spec = exported.call_spec.in_spec
        self._inputs = [
            spec.arg
            for spec in signature.input_specs
            if spec.kind == InputKind.USER_INPUT
        ]
        self._outputs = [
            spec.arg
            for spec in signature.output_specs
            if spec.kind == OutputKind.USER_OUTPUT
        ]
        self.input_names, self.output_names = (
            tuple(arg.name for arg in args if not isinstance(arg, ConstantArgument))
            for args in (self._inputs, self._outputs)
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        given: list[Any] = [
            leaf
            for leaf in pytree.tree_leaves((args, kwargs))
            if isinstance(leaf, np.ndarray | torch.Tensor)
        ]
        as_arrays = bool(given) and all(isinstance(x, np.ndarray) for x in given)
        args, kwargs = pytree.tree_map_only(
            np.ndarray, lambda array: as_tensor("an input", array), (args, kwargs)
        )
        try:
            with torch.no_grad():
                results = self._module(*args, **kwargs)
        except Exception as error:
            raise UsageError(
                f"PyTorch cannot run the model: {first_line(error)}",
                hint="give inputs like those that it was exported with",
            ) from error
        if not as_arrays:
            return results
        return pytree.tree_map_only(torch.Tensor, as_array, results)

    def run_into(
        self, outputs: Sequence[torch.Tensor | Array], *args: Any, **kwargs: Any
    ) -> None:
        leaves = pytree.tree_leaves(self(*args, **kwargs))
        results = [
            as_tensor("an output", cast(Array, x)) if isinstance(x, np.ndarray) else x
            for x in leaves
            if isinstance(x, np.ndarray | torch.Tensor)
        ]
        targets = as_targets(outputs)
        check_apart(targets, [])
        write_results(results, targets)

    def run_named(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        check_names(inputs, self.input_names)
        leaves = [
            arg.value if isinstance(arg, ConstantArgument) else inputs[arg.name]
            for arg in self._inputs
        ]
        args, kwargs = pytree.tree_unflatten(leaves, self._in_spec)
        results = pytree.tree_leaves(self(*args, **kwargs))
        return {
            arg.name: result
            for arg, result in zip(self._outputs, results, strict=True)
            if not isinstance(arg, ConstantArgument)
        }

    def report(self) -> str:
        problems = (f"not compiled: {problem}" for problem in self._reason.problems)
        return "\n".join(["PyTorch: the whole model", *problems])

    @property
    def is_native(self) -> bool:
        return False
