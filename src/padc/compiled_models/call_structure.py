"""How a model is called: from its arguments to a list of tensors, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import torch
import torch.utils._pytree as pytree
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind

from padc.compiled_models.call_values import as_tensor, describe
from padc.errors import UsageError
from padc.frontends.compat import children
from padc.ir.weights import Array


class CallStructure:
    """
    The arguments and the outputs of an exported program, as trees of leaves.

    A leaf is a tensor, a number that may vary, or a constant of the export.
    """

    def __init__(self, exported: ExportedProgram):
        in_spec, out_spec = exported.call_spec.in_spec, exported.call_spec.out_spec
        assert in_spec is not None and out_spec is not None
        self._in_spec, self._out_spec = in_spec, out_spec
        signature = exported.graph_signature
        self._arguments = [
            spec.arg
            for spec in signature.input_specs
            if spec.kind == InputKind.USER_INPUT
        ]
        self._outputs = [
            spec.arg
            for spec in signature.output_specs
            if spec.kind == OutputKind.USER_OUTPUT
        ]
        self.input_names = tuple(
            arg.name for arg in self._arguments if not isinstance(arg, ConstantArgument)
        )
        """The names of the arguments that are not constants."""
        positional, named = children(in_spec)
        self.is_flat = (
            not children(named)
            and all(child.is_leaf() for child in children(positional))
            and len(self.input_names) == len(self._arguments)
        )
        """Whether each argument is a leaf, given by position, and not a constant."""
        self.is_computed = [not isinstance(x, ConstantArgument) for x in self._outputs]
        """For each leaf of the outputs, whether it is not a constant."""

    def flatten(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
        """The leaves of arguments; UsageError if their structure is another one."""
        if self.is_flat and len(args) == len(self._arguments) and not kwargs:
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

    def tensors(self, leaves: list[Any]) -> list[torch.Tensor]:
        """
        The tensors among the leaves of arguments; arrays become tensors.

        Raises UsageError for other values than tensors, arrays and the constants of the
        export.
        """
        if self.is_flat and all(isinstance(leaf, torch.Tensor) for leaf in leaves):
            return leaves
        tensors: list[torch.Tensor] = []
        for leaf, argument in zip(leaves, self._arguments, strict=True):
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
        return tensors

    def arguments(self, inputs: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        """The positional and the keyword arguments, from inputs by `input_names`."""
        leaves = [
            arg.value if isinstance(arg, ConstantArgument) else inputs[arg.name]
            for arg in self._arguments
        ]
        return pytree.tree_unflatten(leaves, self._in_spec)

    def outputs(self, computed: Sequence[Any]) -> Any:
        """The outputs in the model's structure, from those that are computed."""
        leaves = computed
        if len(computed) != len(self._outputs):
            values = iter(computed)
            leaves = [
                x.value if isinstance(x, ConstantArgument) else next(values)
                for x in self._outputs
            ]
        if self._out_spec.is_leaf():
            return leaves[0]
        return pytree.tree_unflatten(leaves, self._out_spec)
