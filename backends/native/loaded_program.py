"""Running a stored program: how values go from one part to the next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import torch
from xdsl.context import Context

from padc.backends.calls.output_tensors import write_results
from padc.backends.native.machine import Code
from padc.backends.native.native_function import NativeFunction
from padc.backends.native.stored_program import StoredPart, StoredProgram
from padc.backends.native.torch_function import TorchFunction
from padc.ir.weights import Weights, weights_of


class RunDirectly(Protocol):
    """A run on these inputs, and the results in `outputs` or new ones; None if none."""

    def __call__(
        self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None, /
    ) -> Sequence[torch.Tensor] | None: ...


def no_direct_run(
    inputs: Sequence[Any], outputs: Sequence[Any] | None = None, /
) -> None:
    """For programs that cannot run directly: does nothing, and returns None."""


class LoadedProgram:
    """A program that can be called, by any number of threads at once."""

    def __init__(
        self,
        ctx: Context,
        stored: StoredProgram,
        threads: int | None = None,
        is_trusted: bool = True,
    ):
        """
        Machine code uses up to `threads` threads; None: as many as PyTorch uses.

        What PyTorch runs of a program that is not trusted calls no kernel that does not
        check its operands.
        """
        weights: Weights = weights_of(ctx)
        weights.update(stored.literals)
        self.stored = stored
        self._functions = [
            load(ctx, part, weights, threads, is_trusted) for part in stored.parts
        ]
        self._only: NativeFunction | None = None
        """The only part, if it takes and returns the values of the program in order."""
        self.run_directly: RunDirectly = no_direct_run
        """Runs if all tensors can be used as they are; else does nothing."""
        if len(stored.parts) == 1:
            (part,), (function,) = stored.parts, self._functions
            is_all = list(part.inputs) == list(stored.inputs) and (
                list(part.outputs) == list(stored.outputs)
            )
            if isinstance(function, NativeFunction) and is_all:
                self._only = function
                self.run_directly = function.run_directly

    def __call__(
        self,
        inputs: Sequence[torch.Tensor],
        outputs: Sequence[torch.Tensor] | None = None,
    ) -> list[torch.Tensor]:
        """
        Run on tensors that were checked, and return new tensors, or `outputs`.

        Raises UsageError unless `outputs` fit the results.
        """
        if self._only is not None:
            return self._only.run(inputs, outputs)
        values: dict[int, Any] = dict(zip(self.stored.inputs, inputs, strict=True))
        last = len(self._functions) - 1
        for i, (part, function) in enumerate(
            zip(self.stored.parts, self._functions, strict=True)
        ):
            taken = [values[number] for number in part.inputs]
            if (
                outputs is not None
                and i == last
                and isinstance(function, NativeFunction)
                and list(part.outputs) == list(self.stored.outputs)
            ):
                return function(taken, outputs)
            values.update(zip(part.outputs, function(taken), strict=True))
        results = [values[number] for number in self.stored.outputs]
        if outputs is None:
            return results
        write_results(results, outputs)
        return list(outputs)


def load(
    ctx: Context,
    part: StoredPart,
    weights: Mapping[str, Any],
    threads: int | None,
    is_trusted: bool,
) -> NativeFunction | TorchFunction:
    """The function that runs a part."""
    if part.signature is None:
        return TorchFunction(ctx, part, is_trusted)
    code = Code(part.code, ["main", "main_sizes"])
    return NativeFunction(part.signature, code, weights, threads)
