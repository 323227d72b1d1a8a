# pyright: reportUnknownMemberType=false
"""
Graphs of `torch.compile` whose weights are constants until they change.

Machine code packs constants once. Weights that stay arguments, which may change at any
time, would have to be packed by each call.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook

from padc.backends.native.thread_team import one_thread_if_forked
from padc.fake_run import run_on_fakes
from padc.warn import warn

Function = Callable[..., Any]
MOST_BOUND_IN_A_ROW = 8
IS_WEIGHT = "_dynamo_static_input_type"
"""What Dynamo notes of an argument that is a parameter or buffer of a module."""
NORMS: Mapping[Any, tuple[int, str, bool]] = {
    F.batch_norm: (1, "training", False),
    F.instance_norm: (1, "use_input_stats", True),
    torch.batch_norm: (3, "training", True),
    torch.instance_norm: (3, "use_input_stats", True),
}
"""
The norms with running statistics: the place of these, and the name and default of the
argument that tells whether they are updated.
"""


@dataclass(frozen=True)
class Weights:
    """Weights, and what tells whether they were changed since."""

    tensors: Sequence[tuple[Tensor, int, Tensor]]
    """
    Each weight, with the number of its changes in place, and a view of its memory.

    The view keeps the memory, so that a weight that gets other memory has another
    address.
    """
    statistics: Mapping[torch.dtype, Tensor]
    """The bytes of the buffers that are vectors or scalars."""

    @staticmethod
    def of(weights: Sequence[Tensor]) -> Weights:
        tensors = [(x, x._version, x.detach()) for x in weights]
        return Weights(tensors, bytes_of_statistics(weights))

    def are(self, weights: Sequence[Tensor]) -> bool:
        """Whether these are the same weights, unchanged."""
        for x, (known, version, memory) in zip(weights, self.tensors, strict=True):
            if x is not known or x._version != version:
                return False
            if x.data_ptr() != memory.data_ptr():
                return False
        now = bytes_of_statistics(weights)
        with one_thread_if_forked():
            return all(
                torch.equal(x, now[dtype]) for dtype, x in self.statistics.items()
            )


def bytes_of_statistics(weights: Sequence[Tensor]) -> Mapping[torch.dtype, Tensor]:
    """
    The bytes of buffers that are vectors or scalars, by dtype.

    Batch norms change such buffers in place, which PyTorch does not count. They are so
    small that each call compares them.
    """
    groups: dict[torch.dtype, list[Tensor]] = {}
    for x in weights:
        if x.dim() < 2 and not isinstance(x, nn.Parameter):
            groups.setdefault(x.dtype, []).append(x.view(-1))
    with one_thread_if_forked():
        return {x: torch.cat(each).view(torch.uint8) for x, each in groups.items()}


@dataclass(frozen=True)
class Bound:
    """A function of all arguments but the weights, and the weights it is right for."""

    function: Function
    weights: Weights


class FrozenGraph:
    """
    A graph whose weights are constants; threads may call it at the same time.

    It is bound again if a weight was changed in place or replaced, or an optimizer did
    a step. PyTorch does not count what is written by `weight.data`, or by numpy.
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
        self._bound_in_a_row = 0
        """How many of the last calls, without a break, had to bind it."""
        self._is_frozen = bool(self._weights)
        self._lock = threading.Lock()
        FROZEN.add(self)

    def __call__(self, *args: Any) -> Any:
        if torch.is_grad_enabled() or not self._is_frozen:
            return self._general(*args)
        weights = [args[number] for number in self._weights]
        bound = self._bound
        if bound is not None and bound.weights.are(weights):
            self._bound_in_a_row = 0
        else:
            with self._lock:
                bound = self._bound
                if bound is None or not bound.weights.are(weights):
                    bound = self._bound = self._bind(weights, args)
            if bound is None:
                return self._general(*args)
        return bound.function(*[args[number] for number in self._others])

    def _bind(self, weights: Sequence[Tensor], args: Sequence[Any]) -> Bound | None:
        """The graph with these weights as attributes; None if it is not frozen."""
        self._bound_in_a_row += 1
        if self._bound_in_a_row > MOST_BOUND_IN_A_ROW:
            warn(
                "padc does not freeze weights of torch.compile: each call changes them"
            )
            self._is_frozen = False
        elif not all(map(counts_changes, weights)):
            self._is_frozen = False
        elif self._bound is None:
            self._is_frozen = not changes_arguments(self._graph, args)
        if not self._is_frozen:
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

    def unbind(self, changed: Collection[int]) -> None:
        """Bind it again with the next call if a weight has one of these `id`s."""
        bound = self._bound
        if bound is not None and any(
            id(x) in changed for x, *_ in bound.weights.tensors
        ):
            self._bound = None


FROZEN: WeakSet[FrozenGraph] = WeakSet()
"""All of them."""


def unbind_changed(optimizer: Optimizer, *_: Any) -> None:
    """Unbind graphs whose weights an optimizer changed: fused ones do not count it."""
    groups = optimizer.param_groups
    changed = {id(x) for group in groups for x in group["params"]}
    for graph in list(FROZEN):
        graph.unbind(changed)


register_optimizer_step_post_hook(unbind_changed)


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
    try:
        fakes, _ = run_on_fakes(graph, args)
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
