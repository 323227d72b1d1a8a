"""The interface of the models that `padc.compile` returns."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import torch

from padc.errors import UsageError
from padc.ir.weights import Array


class CompiledModel(abc.ABC):
    """
    A model compiled by `padc.compile`; it is called as the model is called.

    It takes tensors, or numpy arrays, which are read without a copy where their layout
    allows it. It returns what the model returns: tensors without gradients, or arrays
    if it was given arrays and no tensors. A bfloat16 result becomes a float32 array,
    since numpy has no bfloat16. Threads may call it at the same time.

    The examples of the methods continue this one.

    Example:
        >>> import numpy as np, padc, torch
        >>> compiled = padc.compile(torch.nn.ReLU(), (torch.zeros(3),))
        >>> compiled(np.array([-1, 0, 2], np.float32))
        array([0., 0., 2.], dtype=float32)
        >>> compiled.input_names, compiled.output_names, compiled.is_native
        (('input',), ('relu',), True)
    """

    input_names: tuple[str, ...]
    """The names that `torch.export` gives to the tensors that the model takes."""
    output_names: tuple[str, ...]
    """The names of the outputs that are not constants, as `padc.convert` has them."""

    @abc.abstractmethod
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """
        Compute what the model computes.

        Args:
            *args: The positional arguments of the model, in the structure that it was
                exported with. Tensors are dense, on the CPU, of the dtypes of the
                export, and of its shapes or of others within its dynamic dimensions.
            **kwargs: Its keyword arguments.

        Returns:
            The outputs in the model's structure, with its shapes and dtypes.

        Raises:
            UsageError: The model was exported for other arguments.

        Example:
            >>> compiled(torch.tensor([-1.0, 0.0, 2.0]))
            tensor([0., 0., 2.])
        """

    def __reduce__(self) -> NoReturn:
        """Raise UsageError: machine code is that of its process."""
        raise UsageError(
            "a compiled model can be neither copied nor pickled",
            hint="compile it again, in each process: a cache keeps its machine code",
        )

    @abc.abstractmethod
    def run_into(
        self, outputs: Sequence[torch.Tensor | Array], *args: Any, **kwargs: Any
    ) -> None:
        """
        Write the model's outputs to memory of the caller.

        Args:
            outputs: A contiguous tensor or writable array for each tensor that the
                model returns, in order, of its shape and dtype.
            *args: The positional arguments, as for a call.
            **kwargs: The keyword arguments, as for a call.

        Raises:
            UsageError: The outputs or the arguments do not fit, or an output shares
                memory with an input or another output.

        Example:
            >>> output = torch.empty(3)
            >>> compiled.run_into([output], torch.ones(3))
            >>> output
            tensor([1., 1., 1.])
        """

    @abc.abstractmethod
    def run_named(self, inputs: Mapping[str, torch.Tensor]) -> dict[str, Any]:
        """
        Compute the model's outputs by name.

        Args:
            inputs: A tensor for each of `input_names`, of the dtype and shape that the
                model was exported for.

        Returns:
            The outputs by `output_names`, as tensors.

        Raises:
            UsageError: Inputs are missing or unknown, or do not fit.

        Example:
            >>> compiled.run_named({"input": torch.ones(3)})
            {'relu': tensor([1., 1., 1.])}
        """

    @abc.abstractmethod
    def report(self) -> str:
        """
        Describe which ops were compiled, which PyTorch runs, and why.

        Returns:
            A line for each part of the program in the order of execution, then a line
            for each op that was not compiled. The size of an arena, the memory for
            intermediate results, is in bytes.

        Example:
            >>> print(compiled.report())
            compiled (arena 0 bytes): 1 aten.relu
        """

    @property
    @abc.abstractmethod
    def is_native(self) -> bool:
        """Whether all of the model was compiled, and PyTorch computes nothing."""
