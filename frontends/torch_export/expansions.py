# pyright: basic, reportPrivateUsage=false
"""
Calls that become other calls, traced one at a time.

`ExportedProgram.run_decompositions` traces all of a program again, which takes longer
than the rest of a conversion. A program that needs no more than some of its calls
replaced keeps its graph: each of these is traced alone, once for all calls with the
same arguments.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import sympy
import torch
import torch.utils._pytree as pytree
from torch._ops import OpOverload
from torch._subclasses import FakeTensor
from torch.export import ExportedProgram
from torch.fx import Graph, Node
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._sympy.functions import FloorDiv

from padc.frontends.torch_export.decompositions import (
    Decompositions,
    below_autograd,
    functional_target,
    is_always_decomposed,
    signature_of,
    tensors_of,
    tracing,
)
from padc.frontends.torch_export.dropouts import is_idle_dropout
from padc.frontends.torch_export.functional import OWNING, is_read_as_view
from padc.frontends.torch_export.nodes import nodes_of, schema_name

ARITHMETIC: Mapping[Any, Callable[..., Any]] = {
    sympy.Add: operator.add,
    sympy.Mul: operator.mul,
    FloorDiv: operator.floordiv,
}
"""The functions of sizes that occur in expansions."""


@dataclass(frozen=True)
class Expansion:
    """The graph that replaces a call."""

    graph: Graph
    """Its placeholders stand for `given`."""
    given: Sequence[Node]
    """The operands of the call."""
    results: Any
    """The node of the result, or lists of nodes as the call returns them."""
    sizes: Mapping[Node, sympy.Expr]
    """The dynamic sizes that are computed."""


class NotExpandedError(Exception):
    """A call cannot be replaced alone."""


def expansions_of(
    ep: ExportedProgram, table: Decompositions, legal: Collection[str]
) -> Mapping[Node, Expansion] | None:
    """
    What each call becomes that `table` decomposes, or PyTorch always.

    None if a call cannot be replaced alone: the whole program has to be decomposed.
    """
    traces: dict[Any, Expansion] = {}
    found: dict[Node, Expansion] = {}
    for node in nodes_of(ep.graph_module):
        target = functional_target(node)
        if target is None or is_read_as_view(node) or is_idle_dropout(node):
            continue
        if target not in table and not is_never_kept(target, legal):
            continue
        given = distinct_operands(node)
        key = target, signature_of(node), pattern(node, given)
        try:
            if key not in traces:
                traces[key] = traced(target, node, given, Recorder(table, legal))
        except Exception:
            # Whatever stops the trace: PyTorch traces the program in its own way.
            return None
        found[node] = replace(traces[key], given=given)
    return found


def is_never_kept(op: OpOverload, legal: Collection[str]) -> bool:
    """Whether PyTorch decomposes `op` in any case, as composites that return views."""
    if is_always_decomposed(op):
        return True
    name, may_alias = schema_name(op), torch.Tag.maybe_aliasing_or_mutating in op.tags
    return may_alias and name not in legal and name not in OWNING


def operands(node: Node) -> list[Node]:
    leaves = pytree.tree_leaves((node.args, node.kwargs))
    return [leaf for leaf in leaves if isinstance(leaf, Node)]


def distinct_operands(node: Node) -> list[Node]:
    """The operands, those once that have the same value in `meta`."""
    return [*{id(each.meta["val"]): each for each in operands(node)}.values()]


def pattern(node: Node, given: Sequence[Node]) -> tuple[int, ...]:
    """Which of `given` each operand is."""
    places = {id(each.meta["val"]): place for place, each in enumerate(given)}
    return tuple(places[id(each.meta["val"])] for each in operands(node))


def traced(
    target: OpOverload, node: Node, given: Sequence[Node], recorder: Recorder
) -> Expansion:
    """The graph that a call of `target` with the arguments of `node` is traced to."""
    args, kwargs = pytree.tree_map_only(
        Node, lambda each: each.meta["val"], (node.args, node.kwargs)
    )
    for each in given:
        recorder.add_placeholder(each.meta["val"])
    with tracing((args, kwargs, node.meta["val"])), below_autograd(), recorder:
        made = target(*args, **kwargs)
    results = pytree.tree_map(recorder.argument, made)
    recorder.graph.output(results)
    recorder.graph.eliminate_dead_code()
    sizes = {node: expression for expression, node in recorder.sizes.items()}
    return Expansion(recorder.graph, given, results, sizes)


class Recorder(TorchDispatchMode):
    """
    Decomposes what `table` or PyTorch always decomposes, and records the other calls.

    PyTorch's own tracer would decompose all composites.
    """

    def __init__(self, table: Decompositions, legal: Collection[str]):
        super().__init__()
        self.table = table
        self.legal = legal
        self.graph = Graph()
        self.tensors: dict[int, Node] = {}
        """The node of each tensor, by its id: `meta` keeps the tensor alive."""
        self.sizes: dict[Any, Node] = {}
        """The node of each dynamic size, by its expression."""

    def add_placeholder(self, value: Any) -> None:
        node = self.graph.placeholder(f"operand_{len(self.graph.nodes)}")
        self.note(node, value)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func.namespace == "prim":  # a question: prim.device
            return func(*args, **kwargs)
        with self:
            if (rule := self.table.get(func)) is not None:
                return rule(*args, **kwargs)
            if is_never_kept(func, self.legal):
                return func.decompose(*args, **kwargs)
        result = func(*args, **kwargs)
        if tensors_of(result):
            self.record(func, args, kwargs, result)
        return result

    def record(self, func: OpOverload, args: Any, kwargs: Any, result: Any) -> None:
        if func._schema.is_mutable:
            raise NotExpandedError(f"{func} changes a tensor in place")
        args, kwargs = pytree.tree_map(self.argument, (args, kwargs))
        name = func._schema.name.partition("::")[2]
        node = self.graph.create_node("call_function", func, args, kwargs, name)
        self.note(node, result)

    def note(self, node: Node, value: Any) -> None:
        """Let `node` stand for a value."""
        node.meta["val"] = value
        match value:
            case FakeTensor():
                self.tensors[id(value)] = node
            case torch.SymInt():
                self.sizes[value.node.expr] = node
            case list() | tuple():
                for place, part in enumerate(value):
                    item = self.graph.call_function(operator.getitem, (node, place))
                    self.note(item, part)
            case _:
                pass

    def argument(self, value: Any) -> Any:
        """The argument for a value; NotExpandedError for a constant."""
        match value:
            case torch.Tensor():
                if (node := self.tensors.get(id(value))) is None:
                    raise NotExpandedError("a constant")
                return node
            case torch.SymInt():
                return self.size(value.node.expr, value)
            case torch.SymFloat() | torch.SymBool():
                raise NotExpandedError("a computed number that is not a size")
            case _:
                return value

    def size(self, expression: Any, value: torch.SymInt) -> Any:
        """A node that computes a size, or the size if it is known."""
        if expression.is_Integer:
            return int(expression)
        if expression not in self.sizes:
            self.sizes[expression] = self.computed_size(expression, value)
            self.sizes[expression].meta["val"] = value
        return self.sizes[expression]

    def computed_size(self, expression: Any, value: torch.SymInt) -> Node:
        for node in self.tensors.values():
            for dim, size in enumerate(node.meta["val"].shape):
                if isinstance(size, torch.SymInt) and size.node.expr == expression:
                    function = torch.ops.aten.sym_size.int
                    return self.graph.call_function(function, (node, dim))
        if (function := ARITHMETIC.get(expression.func)) is None:
            raise NotExpandedError(f"a size that is {expression}")
        first, *others = (self.size(part, value) for part in expression.args)
        for other in others:
            first = self.graph.call_function(function, (first, other))
            first.meta["val"] = value
        return first
