# pyright: reportUnknownMemberType=false
"""A package that is run again and again on tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy.typing as npt
import torch

from padc.backends.coreml.evaluator import Feature, Model
from padc.backends.coreml.model_buffers import BufferFeature
from padc.errors import UsageError
from padc.packages.buffered_model import BufferedModel
from padc.packages.denoted import Denoted, as_input


class Session(BufferedModel):
    """A `BufferedModel` that takes and returns the tensors that its features denote."""

    def __init__(self, model: Model):
        super().__init__(model)
        self.denoted = Denoted(model)
        given = {each.output for each in self.buffers}
        self.outputs = [x for x in self.denoted.outputs if x.name not in given]

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

    def buffer(self, feature: BufferFeature) -> torch.Tensor:
        """The value of a buffer."""
        return torch.from_numpy(self.buffer_value(feature))


def check_samples(samples: Any) -> None:
    """Raise UsageError unless there is a sample, and each is a sequence of tensors."""
    is_list = isinstance(samples, Sequence)
    for sample in cast(Sequence[Any], samples) if is_list else [samples]:
        if not is_sample(sample):
            raise UsageError(
                "a sample is a sequence of tensors, one for each input of the model, "
                f"and here it is a {type(sample).__name__}",
                hint="give a list of samples: [(x,)]",
            )
    if not samples:
        raise UsageError("there are no inputs to compare the package on")


def is_sample(sample: Any) -> bool:
    return isinstance(sample, Sequence) and all(
        isinstance(tensor, torch.Tensor) for tensor in cast(Sequence[Any], sample)
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
