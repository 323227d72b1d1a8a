# pyright: reportUnknownMemberType=false
"""Models that padc cannot import; PyTorch runs them, with the same interface."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import compress
from typing import Any

import numpy as np
import torch
import torch.utils._pytree as pytree
from torch.export import ExportedProgram

from padc.backends.calls.output_tensors import write_results
from padc.backends.native.thread_team import one_thread_if_forked
from padc.compiled_model import CompiledModel
from padc.compiled_models.call_structure import CallStructure
from padc.compiled_models.call_values import (
    are_arrays,
    as_array,
    as_targets,
    as_tensor,
    check_apart,
    check_names,
)
from padc.errors import UnsupportedError, UsageError, first_line
from padc.frontends.compat import copy_of
from padc.frontends.torch_export import kernels_for, module_of
from padc.frontends.torch_export.guards import GuardCheck
from padc.frontends.torch_export.output_names import output_names
from padc.ir.names import unique_name
from padc.ir.weights import Array


class EagerModel(CompiledModel):
    """A model that cannot be compiled, not even in part."""

    def __init__(
        self, exported: ExportedProgram, reason: UnsupportedError, limits: GuardCheck
    ):
        self._check_limits = limits
        """Checks what PyTorch does not."""
        self._module = copy_of(module_of(exported))
        self._reason = reason
        held = (*self._module.parameters(), *self._module.buffers())
        self._weights = {storage_of(x) for x in held} - {None}
        self._structure = CallStructure(exported)
        self.input_names = self._structure.input_names
        names: list[str] = []
        for name in compress(output_names(exported), self._structure.is_computed):
            names.append(unique_name(name, {*self.input_names, *names}))
        self.output_names = tuple(names)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with one_thread_if_forked():
            results = self._run(*args, **kwargs)
            if not are_arrays(pytree.tree_leaves((args, kwargs))):
                return results
            return pytree.tree_map_only(torch.Tensor, as_array, results)

    def run_into(
        self, outputs: Sequence[torch.Tensor | Array], *args: Any, **kwargs: Any
    ) -> None:
        args, kwargs = as_tensors((args, kwargs))
        targets = as_targets(outputs)
        check_apart(targets, tensors_in((args, kwargs)))
        with one_thread_if_forked():
            write_results(tensors_in(self._run(*args, **kwargs)), targets)

    def run_named(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        check_names(inputs, self.input_names)
        args, kwargs = self._structure.arguments(inputs)
        with one_thread_if_forked():
            results = pytree.tree_leaves(self._run(*args, **kwargs))
        computed = compress(results, self._structure.is_computed)
        return dict(zip(self.output_names, computed, strict=True))

    def report(self) -> str:
        problems = (f"not compiled: {problem}" for problem in self._reason.problems)
        return "\n".join(["PyTorch: the whole model", *problems])

    @property
    def is_native(self) -> bool:
        return False

    def _run(self, *args: Any, **kwargs: Any) -> Any:
        """The model's outputs, with tensors that have no gradients."""
        args, kwargs = as_tensors((args, kwargs))
        try:
            if self._check_limits.guards:
                leaves = self._structure.flatten(args, kwargs)
                self._check_limits(tensors_in(leaves))
            with torch.no_grad(), kernels_for(self._module):
                results = self._module(*args, **kwargs)
        except UsageError:
            raise
        except Exception as error:
            raise UsageError(
                f"PyTorch cannot run the model: {first_line(error)}",
                hint="give inputs like those that it was exported with",
            ) from error
        return pytree.tree_map_only(torch.Tensor, self._without_alias, results)

    def _without_alias(self, result: torch.Tensor) -> torch.Tensor:
        """`result`, copied if its storage is a weight's: callers may write to it."""
        result = result.detach()
        return result.clone() if storage_of(result) in self._weights else result


def as_tensors(values: Any) -> Any:
    """The same tree, with its arrays as tensors of the same memory."""
    return pytree.tree_map_only(
        np.ndarray, lambda array: as_tensor("an input", array), values
    )


def tensors_in(values: Any) -> list[torch.Tensor]:
    """The tensors in a tree, in order."""
    return [x for x in pytree.tree_leaves(values) if isinstance(x, torch.Tensor)]


def storage_of(tensor: torch.Tensor) -> int | None:
    """The address of a tensor's storage; None if it has no storage."""
    try:
        return tensor.untyped_storage().data_ptr()
    except RuntimeError:  # Sparse tensors, and those inside `torch.vmap`.
        return None
