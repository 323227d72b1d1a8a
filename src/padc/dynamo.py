# pyright: reportUnknownMemberType=false
"""
padc as a backend of `torch.compile`: `torch.compile(model, backend="padc")`.

Dynamo's graphs take parameters as inputs, so weights may change between calls, unless
the option `freezing` makes constants of them: see `frozen_graph`. A graph
is compiled when it is first called, for all sizes that Dynamo lets vary. Where that is
impossible, it is compiled again when it is called with tensors of new shapes or dtypes,
or with new integers. If an output needs gradients, PyTorch runs the graph as it is, so
training is not affected: call the model under `torch.no_grad` or `torch.inference_mode`
to have it compiled.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from padc.versions import require

require("torch", "native")

import torch
import torch._dynamo.config  # pyright: ignore[reportMissingTypeStubs]
from torch.export import Dim
from torch.fx.traceback import preserve_node_meta

from padc.backends.native.thread_team import check_threads, one_thread_if_forked
from padc.compiled import compile_exported
from padc.compiled_model import CompiledModel
from padc.compiled_models.native_model import NativeModel
from padc.errors import (
    Obstacle,
    PadcError,
    UnsupportedError,
    UsageError,
    first_line,
)
from padc.fake_run import run_on_fakes
from padc.frontends.torch_export import trace
from padc.frozen_graph import FrozenGraph
from padc.ir.precisions import native_precision
from padc.warn import warn

__all__ = ["backend"]

Function = Callable[..., Any]

MOST_KINDS = 1000
"""The most kinds of arguments that a graph remembers."""


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
        example_inputs: Tensors and integers of its first call. They are not used: a
            call compiles for the shapes (in elements) and dtypes that it comes with,
            and for all sizes that the graph says vary.
        options: `threads`, the most threads that a call uses, and `precision`; see
            `padc.compile`. `freezing`: whether weights are constants until PyTorch
            counts a change of them, which it does not for `weight.data.add_(1)`.

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
    freezing = given.pop("freezing", False)
    if not isinstance(freezing, bool):
        raise UsageError(f"the option 'freezing' is {freezing!r}, not a bool")
    if given:
        raise UsageError(
            f"torch.compile was given the options {', '.join(map(repr, given))}",
            hint="padc has the options 'threads', 'precision' and 'freezing'",
        )
    compiled = partial(Graph, threads=threads, strict=strict)
    return FrozenGraph(graph, compiled) if freezing else compiled(graph)


@dataclass(frozen=True)
class VaryingSizes:
    """Which arguments of a graph, and which of their sizes, vary between calls."""

    dims: Mapping[int, Sequence[int]]
    """The varying dimensions of each argument that is a tensor."""
    integers: Mapping[int, tuple[int, int]]
    """The arguments that are integers: a tensor and its dimension of that size."""

    def sizes(self, args: Sequence[Any]) -> list[int]:
        """The sizes that vary."""
        return [args[x].shape[dim] for x, dims in self.dims.items() for dim in dims]

    def arguments(self, tensors: Sequence[torch.Tensor]) -> Sequence[Any]:
        """All arguments of a graph."""
        count = len(self.dims) + len(self.integers)
        found: dict[int, Any] = dict(zip(self.dims, tensors, strict=True))
        for number, (tensor, dim) in self.integers.items():
            found[number] = found[tensor].shape[dim]
        return [found[number] for number in range(count)]


def varying_sizes(graph: torch.fx.GraphModule) -> VaryingSizes | None:
    """
    The sizes that vary.

    None if none does, or if an integer argument is not the size of a tensor.
    """
    nodes = graph.graph.find_nodes(op="placeholder")
    examples = [node.meta.get("example_value") for node in nodes]
    dims: dict[int, Sequence[int]] = {}
    places: dict[str, tuple[int, int]] = {}
    for number, x in enumerate(examples):
        if isinstance(x, torch.Tensor):
            sizes = enumerate(x.shape)
            symbols = {d: str(n) for d, n in sizes if isinstance(n, torch.SymInt)}
            dims[number] = list(symbols)
            for d, symbol in symbols.items():
                places.setdefault(symbol, (number, d))
    others = [number for number in range(len(examples)) if number not in dims]
    if not places or any(str(examples[number]) not in places for number in others):
        return None
    integers = {number: places[str(examples[number])] for number in others}
    return VaryingSizes(dims, integers)


def float_arguments(graph: torch.fx.GraphModule) -> list[int]:
    """The arguments that are Python's floats: Dynamo makes tensors of them."""
    nodes = graph.graph.find_nodes(op="placeholder")
    return [number for number, node in enumerate(nodes) if items_of(node)]


def items_of(node: torch.fx.Node) -> list[torch.fx.Node]:
    """The calls of `item` on a value."""
    return [each for each in node.users if each.target == "item"]


def with_floats(
    graph: torch.fx.GraphModule, numbers: Sequence[int], values: Sequence[float]
) -> torch.fx.GraphModule:
    """`graph` with constants in place of the arguments that are Python's floats."""
    if not numbers:
        return graph
    copied = copy.deepcopy(graph.graph)
    nodes = list(copied.find_nodes(op="placeholder"))
    for number, value in zip(numbers, values, strict=True):
        for item in items_of(nodes[number]):
            with copied.inserting_before(item):
                item.replace_all_uses_with(copied.call_function(type(value), (value,)))
            copied.erase_node(item)
    return torch.fx.GraphModule(graph, copied)


class Graph:
    """A graph that is compiled on demand; threads may call it at the same time."""

    def __init__(self, graph: torch.fx.GraphModule, threads: int | None, strict: bool):
        self._graph = graph
        self._varying = varying_sizes(graph)
        self._threads = threads
        self._strict = strict
        self._floats = float_arguments(graph)
        self._of_all_sizes: dict[str, NativeModel] = {}
        """By the values of Python's floats."""
        self._compiled_count = 0
        self._compiled: dict[Any, Function] = {}
        self._is_compilable = True
        self._lock = threading.Lock()

    def __call__(self, *args: Any) -> Any:
        floats = [args[number].item() for number in self._floats]
        key = (torch.is_grad_enabled(), repr(floats), *map(kind, args))
        function = self._compiled.get(key)
        if function is None:
            with self._lock:
                function = self._compiled.get(key) or self._compile(args, floats)
                if len(self._compiled) >= MOST_KINDS:
                    self._compiled.clear()
                    self._compiled_count = 0
                self._compiled[key] = function
        return function(*args)

    def _compile(self, args: Sequence[Any], floats: Sequence[float]) -> Function:
        """A function for arguments like these; the graph if it cannot be compiled."""
        if not self._is_compilable and not self._of_all_sizes:
            return self._graph
        graph = with_floats(self._graph, self._floats, floats)
        try:
            outputs = fake_outputs(graph, args)
            tensors = [i for i, x in enumerate(outputs) if isinstance(x, torch.Tensor)]
            if not tensors or any(outputs[i].requires_grad for i in tensors):
                return self._graph
            bases = bases_of({i: outputs[i] for i in tensors})
            which = [i for i in tensors if i not in bases]
            function = self._tensors_function(graph, repr(floats), which, args)
            return restored(function, outputs, which, bases)
        except UnsupportedError as error:
            messages = dict.fromkeys(problem.message for problem in error.problems)
            return self._give_up(", ".join(messages))
        except UsageError:
            raise  # A pad never fits. PyTorch may return memory that nobody wrote.
        except (Obstacle, PadcError) as error:
            return self._give_up(error.message)

    def _tensors_function(
        self,
        graph: torch.fx.GraphModule,
        floats: str,
        which: Sequence[int],
        args: Sequence[Any],
    ) -> Function:
        """A function that returns the outputs `which`; or Obstacle or PadcError."""
        if (varying := self._varying) is not None:
            tensors = [args[number] for number in varying.dims]
            model = self._of_all_sizes.get(floats)
            # torch.export takes sizes of 0 and 1 for constants.
            if model is None and min(varying.sizes(args)) > 1:
                self._check_count()
                module = TensorsOf(graph, which, varying)
                model = self._for_all_sizes(module, tensors, varying)
                if model is None:
                    self._varying = None
                else:
                    self._compiled_count += 1
                    self._of_all_sizes[floats] = model
            if model is not None and model.takes(tensors):
                return lambda *args: model(*[args[number] for number in varying.dims])
        self._check_count()
        self._compiled_count += 1
        module = TensorsOf(graph, which)
        model = self._compile_tensors(module, args)
        if not isinstance(model, NativeModel) or model.takes_any_strides:
            return model
        return lambda *args: (model if model.takes(args) else module)(*args)

    def _check_count(self) -> None:
        """Raise Obstacle if the graph was compiled as often as it may be."""
        # The number of times that Dynamo itself compiles a function.
        limit = torch._dynamo.config.recompile_limit  # pyright: ignore
        if self._compiled_count >= limit:
            raise Obstacle(f"it was compiled for {limit} kinds of arguments")

    def _for_all_sizes(
        self, module: TensorsOf, tensors: Sequence[Any], varying: VaryingSizes
    ) -> NativeModel | None:
        """The module compiled for sizes that vary; None if that is impossible."""
        dims = [{d: Dim.AUTO for d in each} for each in varying.dims.values()]
        try:
            model = self._compile_tensors(module, tensors, (tuple(dims),))
        except (Obstacle, PadcError):
            return None
        return model if isinstance(model, NativeModel) and model.is_native else None

    def _compile_tensors(
        self, module: TensorsOf, args: Sequence[Any], dynamic_shapes: Any = None
    ) -> CompiledModel:
        try:
            with torch.no_grad():
                exported = trace(module, tuple(args), {}, dynamic_shapes)
        except Exception as error:
            message = f"torch.export cannot trace it: {first_line(error)}"
            raise Obstacle(message) from error
        return compile_exported(exported, self._threads, self._strict)

    def _give_up(self, why: str) -> Function:
        if self._is_compilable:
            warn(f"padc leaves a graph of torch.compile to PyTorch: {why}")
        self._is_compilable = False
        return self._graph


def kind(value: Any) -> Any:
    """The properties of an argument that a graph is compiled for."""
    if isinstance(value, torch.Tensor):
        return value.shape, value.dtype, value.device, value.requires_grad
    return type(value), value


class TensorsOf(torch.nn.Module):
    """A module that returns only some outputs of a graph."""

    def __init__(
        self,
        graph: torch.fx.GraphModule,
        which: Sequence[int],
        varying: VaryingSizes | None = None,
    ):
        super().__init__()
        self._graph = graph
        self._which = which
        self._varying = varying
        """If not None, the caller passes only the arguments that are tensors."""

    def forward(self, *args: Any) -> Any:
        given = args if self._varying is None else self._varying.arguments(args)
        # Unlike a call, this keeps the lines of the user.
        with preserve_node_meta():
            outputs = torch.fx.Interpreter(self._graph).run(*given)
        return [outputs[i] for i in self._which]


def restored(
    function: Function,
    outputs: Sequence[Any],
    which: Sequence[int],
    bases: Mapping[int, int],
) -> Function:
    """
    A function that returns `outputs`; `function` computes those of `which`.

    Others that are tensors are views of these, by `bases`.
    """
    strides = {i: outputs[i].stride() for i in which}
    views = {
        i: (base, outputs[i].shape, outputs[i].stride(), outputs[i].storage_offset())
        for i, base in bases.items()
    }
    others = [None if i in strides or i in views else x for i, x in enumerate(outputs)]

    def run(*args: Any) -> list[Any]:
        results: list[Any] = list(others)
        for (i, each), tensor in zip(strides.items(), function(*args), strict=True):
            results[i] = with_strides(tensor, each)
        for i, (base, shape, steps, offset) in views.items():
            first = results[base].storage_offset()
            results[i] = results[base].as_strided(shape, steps, first + offset)
        return results

    return run


def with_strides(tensor: torch.Tensor, strides: Sequence[int]) -> torch.Tensor:
    """`tensor` with the strides that the code around a graph expects."""
    if tensor.stride() == strides:
        return tensor
    result = torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype)
    with one_thread_if_forked():
        return result.copy_(tensor)


def fake_outputs(graph: torch.fx.GraphModule, args: Sequence[Any]) -> list[Any]:
    """The outputs of `graph` as tensors without data; Obstacle if one is an input's."""
    try:
        fakes, outputs = run_on_fakes(graph, args, has_weights=True)
    except Exception as error:
        raise Obstacle(f"its shapes cannot be inferred: {first_line(error)}") from error
    taken = {storage(x) for x in fakes if isinstance(x, torch.Tensor)}
    for output in outputs:
        if isinstance(output, torch.Tensor):
            if storage(output) in taken:
                raise Obstacle("an output shares memory with an input")
    return outputs


def bases_of(tensors: Mapping[int, torch.Tensor]) -> Mapping[int, int]:
    """
    For each of the tensors that is a view of another, the number of that one.

    Raises Obstacle if none of those that share memory has all of it, and their dtype.
    """
    groups: dict[int, list[int]] = {}
    for i, x in tensors.items():
        groups.setdefault(storage(x), []).append(i)
    bases: dict[int, int] = {}
    for group in groups.values():
        if len(group) == 1:
            continue
        base = next((i for i in group if has_all_of_its_memory(tensors[i])), None)
        if base is None or any(
            tensors[i].dtype != tensors[base].dtype
            or tensors[i].is_conj()
            or tensors[i].is_neg()
            for i in group
        ):
            raise Obstacle("outputs share memory, but are not views of one of them")
        bases |= {i: base for i in group if i != base}
    return bases


def has_all_of_its_memory(x: torch.Tensor) -> bool:
    """Whether each element of the memory of `x` is one of `x`, once."""
    count = 1
    for stride, size in sorted(zip(x.stride(), x.shape, strict=True)):
        if size != 1 and stride != count:
            return False
        count *= size
    return x.untyped_storage().nbytes() == count * x.element_size()


def storage(tensor: torch.Tensor) -> int:
    """The identity of a tensor's storage."""
    return tensor.untyped_storage()._cdata  # pyright: ignore[reportPrivateUsage]
