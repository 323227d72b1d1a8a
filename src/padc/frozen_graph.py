# pyright: reportUnknownMemberType=false
"""
Graphs of `torch.compile` whose weights are constants until they change.

Machine code packs constants once. Weights that stay arguments, which may change at any
time, would have to be packed by each call.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from padc.backends.native.thread_team import one_thread_if_forked

Function = Callable[..., Any]
IS_WEIGHT = "_dynamo_static_input_type"
"""What Dynamo notes of an argument that is a parameter or buffer of a module."""


NORMS: Mapping[Any, tuple[int, str, bool]] = {
    F.batch_norm: (1, "training", False),
    F.instance_norm: (1, "use_input_stats", True),
    torch.batch_norm: (3, "training", True),
    torch.instance_norm: (3, "use_input_stats", True),
}
"""
The norms with running statistics.

With the place of these, and the name and default of the argument that updates them.
"""


@dataclass(frozen=True)
class Weights:
    """Weights, and what tells whether they were changed since."""

    tensors: Sequence[tuple[Tensor, int, int]]
    """Each weight, with the number of its changes in place, and its address."""
    statistics: Mapping[torch.dtype, Tensor]
    """The elements of the buffers that are vectors or scalars."""

    @staticmethod
    def of(weights: Sequence[Tensor]) -> Weights:
        tensors = [(x, x._version, x.data_ptr()) for x in weights]
        return Weights(tensors, elements_of_statistics(weights))

    def are(self, weights: Sequence[Tensor]) -> bool:
        """Whether these are the same weights, unchanged."""
        for x, (known, version, address) in zip(weights, self.tensors, strict=True):
            if x is not known or x._version != version or x.data_ptr() != address:
                return False
        now = elements_of_statistics(weights)
        with one_thread_if_forked():
            return all(
                torch.equal(x, now[dtype]) for dtype, x in self.statistics.items()
            )


def elements_of_statistics(weights: Sequence[Tensor]) -> Mapping[torch.dtype, Tensor]:
    """
    A copy of the elements of buffers that are vectors or scalars, by dtype.

    Batch norms change such buffers in place, which PyTorch does not count.
    """
    groups: dict[torch.dtype, list[Tensor]] = {}
    for x in weights:
        if x.dim() < 2 and not isinstance(x, nn.Parameter):
            groups.setdefault(x.dtype, []).append(x.view(-1))
    with one_thread_if_forked():
        return {dtype: torch.cat(each) for dtype, each in groups.items()}


@dataclass(frozen=True)
class Bound:
    """A function of all arguments but the weights, and the weights it is right for."""

    function: Function
    weights: Weights


class FrozenGraph:
    """
    A graph whose weights are constants; threads may call it at the same time.

    It is bound again if a weight was changed in place or replaced. PyTorch does not
    count what is written by `weight.data`, or by numpy.
    """

    def __init__(
        self,
        graph: torch.fx.GraphModule,
        compiled: Callable[[torch.fx.GraphModule], Function],
    ):
        """`compiled` compiles a graph on demand."""
        self._graph = graph
        self._compiled = compiled
        self._general = compiled(graph)
        """For calls that may need gradients."""
        nodes = graph.graph.find_nodes(op="placeholder")
        is_weight = [IS_WEIGHT in node.meta.get("tensor_dict", {}) for node in nodes]
        self._weights = [i for i, is_one in enumerate(is_weight) if is_one]
        self._others = [i for i, is_one in enumerate(is_weight) if not is_one]
        self._bound: Bound | None = None
        self._is_frozen = bool(self._weights)
        self._lock = threading.Lock()

    def __call__(self, *args: Any) -> Any:
        if torch.is_grad_enabled() or not self._is_frozen:
            return self._general(*args)
        weights = [args[number] for number in self._weights]
        bound = self._bound
        if bound is None or not bound.weights.are(weights):
            with self._lock:
                bound = self._bound
                if bound is None or not bound.weights.are(weights):
                    bound = self._bound = self._bind(weights, args)
            if bound is None:
                return self._general(*args)
        return bound.function(*[args[number] for number in self._others])

    def _bind(self, weights: Sequence[Tensor], args: Sequence[Any]) -> Bound | None:
        """The graph with these weights as attributes; None if it is not frozen."""
        is_first = self._bound is None
        if not all(map(counts_changes, weights)) or (
            is_first and changes_arguments(self._graph, args)
        ):
            self._is_frozen = False
            return None
        known = Weights.of(weights)
        copied = copy.deepcopy(self._graph.graph)
        module = torch.fx.GraphModule(self._graph, copied)
        nodes = copied.find_nodes(op="placeholder")
        for number, x in zip(self._weights, weights, strict=True):
            name, node = f"weight_{number}", nodes[number]
            if isinstance(x, nn.Parameter):
                module.register_parameter(name, x)
            else:
                module.register_buffer(name, x)
            with copied.inserting_before(node):
                node.replace_all_uses_with(copied.get_attr(name))
            copied.erase_node(node)
        module.recompile()
        return Bound(self._compiled(module), known)


def counts_changes(x: Tensor) -> bool:
    """Whether PyTorch counts the changes of `x`, a plain tensor on the CPU."""
    is_plain = type(x) in (Tensor, nn.Parameter) and x.layout is torch.strided
    return is_plain and x.is_cpu and not x.is_inference()


def changes_arguments(graph: torch.fx.GraphModule, args: Sequence[Any]) -> bool:
    """Whether `graph` changes an argument in place, or may do so."""
    for module in graph.modules():
        if isinstance(module, torch.fx.GraphModule):
            if any(map(changes_statistics, module.graph.nodes)):
                return True
    mode = FakeTensorMode()
    fakes = [mode.from_tensor(x) if isinstance(x, Tensor) else x for x in args]
    try:
        with mode:
            graph(*fakes)
    except Exception:
        return True
    return any(isinstance(x, Tensor) and x._version for x in fakes)


def changes_statistics(node: torch.fx.Node) -> bool:
    """Whether `node` is a norm that changes its running statistics, uncounted."""
    if node.target not in NORMS:
        return False
    place, flag, is_on = NORMS[node.target]

    def argument(number: int, name: str, default: Any) -> Any:
        return (
            node.args[number]
            if number < len(node.args)
            else node.kwargs.get(name, default)
        )

    has_statistics = argument(place, "running_mean", None) is not None
    return has_statistics and argument(5, flag, is_on) is not False
