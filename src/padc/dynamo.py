# pyright: reportUnknownMemberType=false
"""
padc as a backend of `torch.compile`: `torch.compile(model, backend="padc")`.

Dynamo's graphs take parameters as inputs, so weights may change between calls. A graph
is compiled when it is first called with tensors of new shapes or dtypes, or with new
integers. If an output needs gradients, PyTorch runs the graph as it is, so training is
not affected: call the model under `torch.no_grad` or `torch.inference_mode` to have it
compiled.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch._dynamo.config  # pyright: ignore[reportMissingTypeStubs]
from torch._subclasses.fake_tensor import FakeTensorMode

from padc.backends.native.thread_team import check_threads
from padc.compiled import compile_exported
from padc.errors import (
    Obstacle,
    PadcError,
    UnsupportedError,
    UsageError,
    first_line,
)
from padc.ir.precisions import native_precision

__all__ = ["backend"]

Function = Callable[..., Any]


def backend(
    graph: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
) -> Function:
    """
    Compile a graph of Dynamo; `torch.compile` calls this.

    A graph that cannot be compiled is left to PyTorch, with a warning.

    Args:
        graph: A graph of ATen ops, with its parameters as inputs.
        example_inputs: Tensors and integers of its first call. They are not used: each
            call compiles for the shapes (in elements) and dtypes that it comes with.
        options: `threads`, the most threads that a call uses, and `precision`; see
            `padc.compile`.

    Returns:
        A function with the arguments and outputs of `graph`.

    Raises:
        UsageError: `options` has other keys, or values that `padc.compile` refuses.

    Example:
        >>> import padc, torch
        >>> model = torch.compile(torch.nn.ReLU(), backend="padc")
        >>> with torch.no_grad():
        ...     model(torch.tensor([-1.0, 1.0]))
        tensor([0., 1.])
    """
    given = dict(options or {})
    threads = given.pop("threads", None)
    check_threads(threads)
    strict = native_precision(given.pop("precision", "default")) == "strict"
    if given:
        raise UsageError(
            f"torch.compile was given the options {', '.join(map(repr, given))}",
            hint="padc has the options 'threads' and 'precision'",
        )
    return Graph(graph, threads, strict)


class Graph:
    """A graph that is compiled on demand; threads may call it at the same time."""

    def __init__(self, graph: torch.fx.GraphModule, threads: int | None, strict: bool):
        self._graph = graph
        self._threads = threads
        self._strict = strict
        self._compiled: dict[Any, Function] = {}
        self._lock = threading.Lock()
        self._is_compilable = True

    def __call__(self, *args: Any) -> Any:
        key = (torch.is_grad_enabled(), *map(kind, args))
        function = self._compiled.get(key)
        if function is None:
            with self._lock:
                function = self._compiled.get(key) or self._compile(args)
                self._compiled[key] = function
        return function(*args)

    def _compile(self, args: Sequence[Any]) -> Function:
        """A function for arguments like these; the graph if it cannot be compiled."""
        if not self._is_compilable:
            return self._graph
        # The number of times that Dynamo itself compiles a function.
        limit = torch._dynamo.config.recompile_limit  # pyright: ignore
        if len(self._compiled) >= limit:
            return self._give_up(f"it was compiled for {limit} kinds of arguments")
        try:
            return compiled(self._graph, args, self._threads, self._strict)
        except UnsupportedError as error:
            messages = dict.fromkeys(problem.message for problem in error.problems)
            return self._give_up(", ".join(messages))
        except (Obstacle, PadcError) as error:
            return self._give_up(error.message)

    def _give_up(self, why: str) -> Function:
        self._is_compilable = False
        warnings.warn(
            f"padc leaves a graph of torch.compile to PyTorch: {why}", stacklevel=5
        )
        return self._graph


def kind(value: Any) -> Any:
    """The properties of an argument that a graph is compiled for."""
    if isinstance(value, torch.Tensor):
        return value.shape, value.dtype, value.device, value.requires_grad
    return type(value), value


class TensorsOf(torch.nn.Module):
    """A module that returns only some outputs of a graph."""

    def __init__(self, graph: torch.fx.GraphModule, which: Sequence[int]):
        super().__init__()
        self._graph = graph
        self._which = which

    def forward(self, *args: Any) -> Any:
        outputs = self._graph(*args)
        return [outputs[i] for i in self._which]


def compiled(
    graph: torch.fx.GraphModule,
    args: Sequence[Any],
    threads: int | None = None,
    strict: bool = False,
) -> Function:
    """
    `graph` as machine code for arguments like `args`; `graph` itself if an output
    needs a gradient.

    Raises Obstacle or PadcError if it cannot be compiled.
    """
    outputs = fake_outputs(graph, args)
    which = [i for i, x in enumerate(outputs) if isinstance(x, torch.Tensor)]
    if not which or any(outputs[i].requires_grad for i in which):
        return graph
    try:
        with torch.no_grad():
            exported = torch.export.export(TensorsOf(graph, which), tuple(args))
    except Exception as error:
        raise Obstacle(f"torch.export cannot trace it: {first_line(error)}") from error
    model = compile_exported(exported, threads, strict)

    def run(*args: Any) -> list[Any]:
        results = list(outputs)
        for i, tensor in zip(which, model(*args), strict=True):
            results[i] = with_strides(tensor, outputs[i].stride())
        return results

    return run


def with_strides(tensor: torch.Tensor, strides: Sequence[int]) -> torch.Tensor:
    """`tensor` with the strides that the code around a graph expects."""
    if tensor.stride() == strides:
        return tensor
    result = torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype)
    return result.copy_(tensor)


def fake_outputs(graph: torch.fx.GraphModule, args: Sequence[Any]) -> list[Any]:
    """The outputs of `graph` as tensors without data; Obstacle if they alias."""
    mode = FakeTensorMode()
    fakes = [mode.from_tensor(x) if isinstance(x, torch.Tensor) else x for x in args]
    try:
        with mode:
            outputs = list(graph(*fakes))
    except Exception as error:
        raise Obstacle(f"its shapes cannot be inferred: {first_line(error)}") from error
    taken = {storage(x) for x in fakes if isinstance(x, torch.Tensor)}
    for output in outputs:
        if isinstance(output, torch.Tensor):
            if storage(output) in taken:
                raise Obstacle("an output shares memory with another tensor")
            taken.add(storage(output))
    return outputs


def storage(tensor: torch.Tensor) -> int:
    """The identity of a tensor's storage."""
    return tensor.untyped_storage()._cdata  # pyright: ignore[reportPrivateUsage]
