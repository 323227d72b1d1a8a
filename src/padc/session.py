# pyright: reportUnknownMemberType=false
"""A package that is run again and again, and keeps the buffers that it changes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from padc.backends.coreml.buffers import BufferFeature, buffers_in
from padc.backends.coreml.evaluator import Feature, Model
from padc.errors import InvalidProgramError, UsageError


class Session:
    """
    A loaded package, and the values of its buffers, from their values at export on.

    `inputs` and `outputs` are those without buffers.
    """

    def __init__(self, model: Model):
        self._model = model
        self.buffers = buffers_in(model.metadata)
        taken = {each.input for each in self.buffers}
        given = {each.output for each in self.buffers}
        self.inputs = [each for each in model.inputs if each.name not in taken]
        self.outputs = [each for each in model.outputs if each.name not in given]
        self._features = {each.name: each for each in (*model.inputs, *model.states)}
        check_buffers(self.buffers, model)
        self._initial = {
            each.input: self._as_input(each, each.initial)
            for each in self.buffers
            if each.initial is not None
        }
        self.reset()

    def reset(self) -> None:
        """Give the buffers the values that they had at export."""
        self._state = self._model.make_state()
        self._values = dict(self._initial)

    def run(self, inputs: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        """The outputs, without those that are new values of buffers."""
        outputs = self.predict(as_inputs(self.inputs, inputs))
        return tuple(torch.from_numpy(outputs[each.name]) for each in self.outputs)

    def predict(self, given: Mapping[str, npt.ArrayLike]) -> dict[str, Any]:
        """All outputs by name; buffers may be among the inputs, too."""
        outputs = self._model.predict({**self._values, **given}, self._state)
        for each in self.buffers:
            if each.output is not None:
                self._values[each.input] = self._as_input(each, outputs[each.output])
        return outputs

    def _as_input(self, buffer: BufferFeature, value: Any) -> npt.NDArray[Any]:
        """A buffer's value as its input takes it; InvalidProgramError if it cannot."""
        feature, array = self._features[buffer.input], np.asarray(value)
        if array.size != math.prod(feature.shape) or feature.dtype.kind not in "biuf":
            raise InvalidProgramError(
                f"the package's buffer '{buffer.buffer}' has the shape "
                f"{list(array.shape)}, its input '{feature.name}' is {feature.expected}"
            )
        return array.astype(feature.dtype).reshape(feature.shape)

    def buffer(self, feature: BufferFeature) -> torch.Tensor:
        """The value of a buffer."""
        if feature.output is None:
            return torch.from_numpy(self._state.read_state(feature.input))
        return torch.from_numpy(self._values[feature.input])


def check_buffers(buffers: Sequence[BufferFeature], model: Model) -> None:
    """Raise InvalidProgramError unless the package has the values of all buffers."""
    states = {each.name for each in model.states}
    inputs = {each.name for each in model.inputs}
    outputs = {each.name for each in model.outputs}
    for each in buffers:
        name, known = each.input, states if each.output is None else inputs
        if name in known and each.output is not None:
            name, known = each.output, outputs
        if name not in known:
            raise InvalidProgramError(
                f"the package has no '{name}', which its buffer '{each.buffer}' needs"
            )


def as_inputs(
    features: Sequence[Feature], inputs: Sequence[torch.Tensor]
) -> dict[str, npt.NDArray[Any]]:
    """The arrays of inputs in their order, by name; UsageError if they do not fit."""
    if len(inputs) != len(features):
        raise UsageError(f"the package takes {len(features)} inputs, got {len(inputs)}")
    return {
        feature.name: as_input(feature, tensor)
        for feature, tensor in zip(features, inputs, strict=True)
    }


def as_input(feature: Feature, tensor: Any) -> npt.NDArray[Any]:
    """The same values in the dtype of the feature; UsageError if it lacks some."""
    if not isinstance(tensor, torch.Tensor):
        raise UsageError(
            f"the input '{feature.name}' is of type {type(tensor).__name__}",
            hint="give a torch.Tensor",
        )
    exact = tensor.detach().cpu()
    # numpy has no bfloat16.
    exact = (exact.float() if exact.dtype == torch.bfloat16 else exact).numpy()
    # Core ML takes int32 for int64, floats for bool, and [1] for rank 0.
    array = np.real(exact).astype(feature.dtype)
    if not np.array_equal(array, exact, equal_nan=array.dtype.kind == "f"):
        raise UsageError(
            f"the input '{feature.name}' of dtype {tensor.dtype} has values that the "
            f"package's {feature.dtype} does not have"
        )
    return array.reshape(feature.shape) if tensor.dim() == 0 else array
