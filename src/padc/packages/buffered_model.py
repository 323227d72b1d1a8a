# pyright: reportUnknownMemberType=false
"""A package that is run again and again on arrays, and keeps the buffers it changes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from padc.backends.coreml.evaluator import Model
from padc.backends.coreml.model_buffers import BufferFeature, buffers_in
from padc.errors import InvalidProgramError


class BufferedModel:
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

    def predict(self, given: Mapping[str, npt.ArrayLike]) -> dict[str, Any]:
        """All outputs by name; buffers may be among the inputs, too."""
        outputs = self._model.predict({**self._values, **given}, self._state)
        for each in self.buffers:
            if each.output is not None:
                self._values[each.input] = self._as_input(each, outputs[each.output])
        return outputs

    def buffer_value(self, feature: BufferFeature) -> npt.NDArray[Any]:
        """The value of a buffer."""
        if feature.output is None:
            return self._state.read_state(feature.input)
        return self._values[feature.input]

    def _as_input(self, buffer: BufferFeature, value: Any) -> npt.NDArray[Any]:
        """A buffer's value as its input takes it; InvalidProgramError if it cannot."""
        feature, array = self._features[buffer.input], np.asarray(value)
        if array.size != math.prod(feature.shape) or feature.dtype.kind not in "biuf":
            raise InvalidProgramError(
                f"the package's buffer '{buffer.buffer}' has the shape "
                f"{list(array.shape)}, its input '{feature.name}' is {feature.expected}"
            )
        return array.astype(feature.dtype).reshape(feature.shape)


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
