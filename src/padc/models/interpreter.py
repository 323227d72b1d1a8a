"""Programs at the torch and tcp levels that the reference runs, with their buffers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from xdsl.dialects.builtin import ModuleOp

from padc.backends import reference
from padc.ir.main_function import main
from padc.ir.mil_types import StateType
from padc.ir.model_buffers import ChangedBuffer, changed_buffers
from padc.ir.torch.tensors import weight_tensor
from padc.ir.type_tests import is_tensor
from padc.ir.weights import Weights


class Interpreter:
    """
    A program, and the values of the buffers that it changes, from the export on.

    The module may be lowered later, to a level that the reference still runs.
    """

    def __init__(self, module: ModuleOp, weights: Weights, is_trusted: bool):
        self._module, self._weights = module, weights
        self._is_trusted = is_trusted
        self.function = function = main(module)
        buffers = changed_buffers(function)
        self._updates = {
            each.name: each.result for each in buffers if each.result is not None
        }
        self._names = {each.argument: each.name for each in buffers}
        self.arguments = [
            i
            for i, argument in enumerate(function.args)
            if i not in self._names and not isinstance(argument.type, StateType)
        ]
        """The positions of the arguments that the model takes."""
        count = len(function.function_type.outputs)
        updates = set(self._updates.values())
        self.results = [i for i in range(count) if i not in updates]
        """The positions of the results that the model returns."""
        self.buffers: Mapping[str, torch.Tensor] = {
            each.name: initial_tensor(each, weights) for each in buffers
        }
        """The buffers by name; each call leaves new ones."""

    def __call__(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The outputs of the model."""
        outputs, self.buffers = self.step(inputs, self.buffers)
        return outputs

    def step(
        self, inputs: Sequence[torch.Tensor], buffers: Mapping[str, torch.Tensor]
    ) -> tuple[tuple[torch.Tensor, ...], dict[str, torch.Tensor]]:
        """The outputs of the model, and the new values of the buffers."""
        given = self.given(inputs, buffers)
        results = reference.run(
            self._module, *given, weights=self._weights, is_trusted=self._is_trusted
        )
        updated = {name: results[i].clone() for name, i in self._updates.items()}
        return tuple(results[i] for i in self.results), {**buffers, **updated}

    def given(
        self, inputs: Sequence[torch.Tensor], buffers: Mapping[str, torch.Tensor]
    ) -> list[torch.Tensor]:
        """The arguments of the function, in order."""
        if len(inputs) != len(self.arguments):
            return list(inputs)  # The reference says what it takes.
        values = dict(zip(self.arguments, inputs, strict=True))
        values |= {i: buffers[name] for i, name in self._names.items()}
        return [value for _, value in sorted(values.items())]


def initial_tensor(buffer: ChangedBuffer, weights: Weights) -> torch.Tensor:
    """The value of a buffer at export, of its dtype in the model."""
    array, type = weights.array(buffer.initial), buffer.initial.get_type()
    assert is_tensor(type)
    return weight_tensor(array, type.element_type).clone()
