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
from padc.denoted import Denoted, as_input
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
        self.denoted = Denoted(model)
        self.outputs = [x for x in self.denoted.outputs if x.name not in given]
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
        """
        The outputs as the model has them, without those that are buffers' new values.

        An input that is an image or of float16 in the package is the nearest to the
        tensor. An image among the outputs is the tensor that it denotes, a
        classifier's dictionary the tensor of the probabilities.
        """
        check_count(self.inputs, inputs)
        pairs = zip(self.inputs, inputs, strict=True)
        outputs = self.predict({f.name: self.denoted.value(f, x) for f, x in pairs})
        return tuple(self.denoted.tensor(f, outputs[f.name]) for f in self.outputs)

    def nearest(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The inputs as the package gets them: tensors that its features denote."""
        check_count(self.inputs, inputs)
        pairs = zip(self.inputs, inputs, strict=True)
        return [self.denoted.nearest(feature, tensor) for feature, tensor in pairs]

    def samples(
        self, samples: Sequence[Sequence[torch.Tensor]]
    ) -> list[Sequence[torch.Tensor]]:
        """The samples in shapes that the package takes; random pixels in the last."""
        if any(len(sample) != len(self.inputs) for sample in samples):
            return list(samples)
        fitting = [self._fitted(sample, i) for i, sample in enumerate(samples)]
        last = zip(self.inputs, fitting[-1], strict=True)
        return [*fitting[:-1], [self.denoted.random(f, x) for f, x in last]]

    def _fitted(
        self, sample: Sequence[torch.Tensor], number: int
    ) -> Sequence[torch.Tensor]:
        """A sample; in other shapes of all inputs if the package refuses one."""
        pairs = list(zip(self.inputs, sample, strict=True))
        if all(self.denoted.accepts(f, x) for f, x in pairs):
            return sample
        return [self.denoted.fitted(f, x, number) for f, x in pairs]

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


def check_count(features: Sequence[Feature], inputs: Sequence[Any]) -> None:
    """Raise UsageError unless there is a tensor for each input."""
    if len(inputs) != len(features):
        raise UsageError(f"the package takes {len(features)} inputs, got {len(inputs)}")


def as_inputs(
    features: Sequence[Feature], inputs: Sequence[torch.Tensor]
) -> dict[str, npt.NDArray[Any]]:
    """The arrays of inputs in their order, by name; UsageError if they do not fit."""
    check_count(features, inputs)
    return {
        feature.name: as_input(feature, tensor)
        for feature, tensor in zip(features, inputs, strict=True)
    }
