# pyright: reportUnknownMemberType=false
"""Models that are compiled to machine code, whole or in parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import torch
import torch.utils._pytree as pytree
from torch.export import ExportedProgram
from torch.export.graph_signature import (
    ConstantArgument,
    InputKind,
    OutputKind,
)

from padc.backends.native.input_check import InputCheck
from padc.backends.native.loaded_program import LoadedProgram
from padc.call_values import (
    are_arrays,
    as_array,
    as_targets,
    as_tensor,
    check_apart,
    check_names,
    describe,
    is_tensor,
)
from padc.compiled_model import CompiledModel
from padc.errors import UsageError
from padc.frontends.compat import children
from padc.ir.weights import Array


class NativeModel(CompiledModel):
    """A model with machine code for all of its ops or some of them."""

    def __init__(
        self,
        exported: ExportedProgram,
        program: LoadedProgram,
        check: InputCheck,
        input_names: Sequence[str],
        output_names: Sequence[str],
    ):
        self._program = program
        self._check = check
        self.input_names = tuple(input_names)
        self.output_names = tuple(output_names)
        in_spec, out_spec = exported.call_spec.in_spec, exported.call_spec.out_spec
        assert in_spec is not None and out_spec is not None
        self._in_spec, self._out_spec = in_spec, out_spec
        signature = exported.graph_signature
        self._inputs = [
            spec.arg
            for spec in signature.input_specs
            if spec.kind == InputKind.USER_INPUT
        ]
        positional, named = children(in_spec)
        self._is_flat = (
            not children(named)
            and all(child.is_leaf() for child in children(positional))
            and not any(isinstance(it, ConstantArgument) for it in self._inputs)
        )
        """Whether all arguments are tensors given by position."""
        self._outputs = [
            spec.arg
            for spec in signature.output_specs
            if spec.kind == OutputKind.USER_OUTPUT
        ]
        self._returns_tensors = not any(
            isinstance(it, ConstantArgument) for it in self._outputs
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._is_flat and self._returns_tensors and not kwargs:
            tensors = self._program.run_directly(args)
            if tensors is not None:
                return self._unflatten(tensors)
        leaves = self._flatten(args, kwargs)
        results = iter(self._program(self._tensors(leaves)))
        as_arrays = are_arrays(leaves)
        outputs: list[Any] = []
        for output in self._outputs:
            if isinstance(output, ConstantArgument):
                outputs.append(output.value)
            else:
                result = next(results)
                outputs.append(as_array(result) if as_arrays else result)
        return self._unflatten(outputs)

    def _unflatten(self, outputs: Sequence[Any]) -> Any:
        if self._out_spec.is_leaf():
            return outputs[0]
        return pytree.tree_unflatten(outputs, self._out_spec)

    def run_into(
        self, outputs: Sequence[torch.Tensor | Array], *args: Any, **kwargs: Any
    ) -> None:
        if self._is_flat and not kwargs and isinstance(outputs, (list, tuple)):
            if self._program.run_directly(args, outputs) is not None:
                return
        inputs = self._tensors(self._flatten(args, kwargs))
        targets = as_targets(outputs)
        check_apart(targets, inputs)
        self._program(inputs, targets)

    def run_named(self, inputs: Mapping[str, torch.Tensor]) -> dict[str, Any]:
        check_names(inputs, self.input_names)
        tensors = [inputs[name] for name in self.input_names]
        self._check(tensors)
        return dict(zip(self.output_names, self._program(tensors), strict=True))

    def _flatten(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
        if self._is_flat and len(args) == len(self._inputs) and not kwargs:
            return list(args)
        try:
            return self._in_spec.flatten_up_to((args, dict(kwargs)))
        except ValueError as error:
            positional, named = children(self._in_spec)
            count, names = positional.num_children, cast(list[str], named.context)
            keywords = f", and {', '.join(names)} by name" if names else ""
            raise UsageError(
                f"the model was exported with other arguments: {error}",
                hint=f"it takes {count} arguments by position{keywords}",
            ) from error

    def _tensors(self, leaves: list[Any]) -> list[torch.Tensor]:
        if self._is_flat and all(map(is_tensor, leaves)):
            self._check(leaves)
            return leaves
        tensors: list[torch.Tensor] = []
        for leaf, argument in zip(leaves, self._inputs, strict=True):
            if isinstance(argument, ConstantArgument):
                if type(leaf) is not type(argument.value) or leaf != argument.value:
                    raise UsageError(
                        f"the model was exported with {argument.name} "
                        f"{argument.value!r}, got {describe(leaf)}"
                    )
                continue
            if isinstance(leaf, np.ndarray):
                leaf = as_tensor(f"the input '{argument.name}'", cast(Array, leaf))
            if not isinstance(leaf, torch.Tensor):
                raise UsageError(
                    f"the input '{argument.name}' is of type {type(leaf).__name__}",
                    hint="give a torch.Tensor or a numpy array",
                )
            tensors.append(leaf)
        self._check(tensors)
        return tensors

    def report(self) -> str:
        stored = self._program.stored
        lines: list[str] = []
        for part in stored.parts:
            counts = Counter(part.ops)
            listed = ", ".join(f"{n} {name}" for name, n in sorted(counts.items()))
            where = "PyTorch" if part.signature is None else "compiled"
            memory = ""
            if part.signature is not None and part.signature.arena_bytes is not None:
                memory = f" (arena {part.signature.arena_bytes} bytes)"
            lines.append(f"{where}{memory}: {listed or 'nothing'}")
        return "\n".join([*lines, *(f"not compiled: {why}" for why in stored.reasons)])

    @property
    def is_native(self) -> bool:
        parts = self._program.stored.parts
        return all(part.signature is not None or not part.ops for part in parts)
