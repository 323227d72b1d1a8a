"""Models that are compiled to machine code, whole or in parts."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from padc.backends.calls.input_check import InputCheck
from padc.backends.calls.output_tensors import write_results
from padc.backends.native.loaded_program import LoadedProgram
from padc.backends.native.thread_team import one_thread_if_forked
from padc.compiled_model import CompiledModel
from padc.compiled_models.call_structure import CallStructure
from padc.compiled_models.call_values import (
    are_arrays,
    as_array,
    as_targets,
    check_apart,
    check_names,
)
from padc.errors import UsageError
from padc.frontends.torch_export.guards import GuardCheck
from padc.frontends.torch_export.input_strides import StridesCheck
from padc.ir.weights import Array


class NativeModel(CompiledModel):
    """A model with machine code for all of its ops or some of them."""

    def __init__(
        self,
        structure: CallStructure,
        program: LoadedProgram,
        check: InputCheck,
        guards: GuardCheck,
        strides: StridesCheck,
        input_names: Sequence[str],
        output_names: Sequence[str],
        buffers: Sequence[torch.Tensor] = (),
    ):
        self._structure = structure
        self._program = program
        self._check_types = check
        self._check_guards = guards
        self._check_strides = strides
        self.input_names = tuple(input_names)
        self.output_names = tuple(output_names)
        self._buffers = list(buffers)
        """The buffers that the model changes: its last inputs and outputs."""
        self._lock = threading.Lock()
        self._is_direct = structure.is_flat and not (
            guards.guards or strides.needed or buffers
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._is_direct and not kwargs:
            tensors = self._program.run_directly(args)
            if tensors is not None:
                return self._structure.outputs(tensors)
        leaves = self._structure.flatten(args, kwargs)
        # What PyTorch computes: copies, and the parts that are not compiled.
        with one_thread_if_forked():
            results = self._run(self._checked(leaves))
            if are_arrays(leaves):
                results = [as_array(result) for result in results]
        return self._structure.outputs(results)

    def run_into(
        self, outputs: Sequence[torch.Tensor | Array], *args: Any, **kwargs: Any
    ) -> None:
        if self._is_direct and not kwargs and isinstance(outputs, (list, tuple)):
            if self._program.run_directly(args, outputs) is not None:
                return
        inputs = self._checked(self._structure.flatten(args, kwargs))
        targets = as_targets(outputs)
        check_apart(targets, inputs)
        with one_thread_if_forked():
            self._run(inputs, targets)

    def run_named(self, inputs: Mapping[str, torch.Tensor]) -> dict[str, Any]:
        check_names(inputs, self.input_names)
        tensors = [inputs[name] for name in self.input_names]
        self._check(tensors)
        with one_thread_if_forked():
            return dict(zip(self.output_names, self._run(tensors), strict=True))

    def _run(
        self,
        inputs: Sequence[torch.Tensor],
        targets: Sequence[torch.Tensor] | None = None,
    ) -> Sequence[torch.Tensor]:
        """The outputs, in `targets` if they are given; changes the buffers."""
        if not self._buffers:
            return self._program(inputs, targets)
        with self._lock:
            results = self._program([*inputs, *self._buffers])
            count = len(results) - len(self._buffers)
            if targets is not None:
                write_results(results[:count], targets)
            # New tensors: a result may share memory with an output or an input.
            self._buffers = [x.clone() for x in results[count:]]
        return results[:count] if targets is None else targets

    def _checked(self, leaves: list[Any]) -> list[torch.Tensor]:
        """The tensors among these arguments; UsageError unless they fit."""
        tensors = self._structure.tensors(leaves)
        self._check(tensors)
        return tensors

    @property
    def takes_any_strides(self) -> bool:
        """Whether no op of the program depends on the strides of its inputs."""
        return not self._check_strides.needed

    def takes(self, tensors: Sequence[torch.Tensor]) -> bool:
        """Whether the program takes tensors of these types and sizes."""
        try:
            self._check(tensors)
        except UsageError:
            return False
        return True

    def _check(self, tensors: Sequence[torch.Tensor]) -> None:
        """Raise UsageError unless the program takes these tensors."""
        self._check_types([*tensors, *self._buffers])
        self._check_guards(tensors)
        self._check_strides(tensors)

    def report(self) -> str:
        return self._program.stored.report()

    @property
    def is_native(self) -> bool:
        return self._program.stored.is_native
