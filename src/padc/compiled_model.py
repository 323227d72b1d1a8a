"""The interface of what `padc.compile` returns."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from padc.ir.weights import Array


class CompiledModel(abc.ABC):
    """
    A model compiled by `padc.compile`: call it as the model is called.

    It takes tensors, or numpy arrays, which it reads where they are, and returns what
    the model does, in arrays if it was given nothing but arrays: float32 ones for
    bfloat16, which numpy has not. What it returns has no gradients. Threads may call it
    at the same time.
    """

    input_names: tuple[str, ...]
    """What `torch.export` calls the tensors that it takes."""
    output_names: tuple[str, ...]
    """The names of what it returns but for constants, as `padc.convert` has them."""

    @abc.abstractmethod
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """
        What the model computes of its arguments.

        Raises UsageError where they are not those that it was exported for.
        """

    @abc.abstractmethod
    def run_into(
        self, outputs: Sequence[torch.Tensor | Array], *args: Any, **kwargs: Any
    ) -> None:
        """
        Write what the model computes to `outputs`: its tensors in order, contiguous.

        Raises UsageError where they, or the arguments, do not fit, or share memory.
        """

    @abc.abstractmethod
    def run_named(self, inputs: Mapping[str, torch.Tensor]) -> dict[str, Any]:
        """
        The model's outputs by `output_names`, for inputs by `input_names`.

        Raises UsageError where inputs are missing, too many or of another type.
        """

    @abc.abstractmethod
    def report(self) -> str:
        """Which ops were compiled, which PyTorch runs, and why."""

    @property
    @abc.abstractmethod
    def is_native(self) -> bool:
        """Whether PyTorch computes nothing of it."""
