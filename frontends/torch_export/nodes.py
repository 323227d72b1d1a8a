# pyright: basic, reportPrivateUsage=false
"""Questions about the nodes of an exported graph."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import GraphModule, Node

RENAMED = {"aten.transpose": "aten.transpose.int"}
"""Functional ops whose overload has another name than that of the op in place."""

ASSERTIONS = frozenset(
    f"aten.{name}" for name in ("_assert_scalar", "_assert_async", "_assert_async.msg")
)
"""Ops that raise an error for other values than those that a program is for."""


def schema_name(target: Any) -> str:
    """The name of an ATen op with its overload; "" if `target` is another callable."""
    if not isinstance(target, OpOverload):
        return ""
    name = target._schema.name.replace("::", ".")
    overload = target._schema.overload_name
    return f"{name}.{overload}" if overload else name


def functional_name(name: str) -> str:
    """The name of the op that computes what one in place does: `aten.add.Tensor`."""
    namespace, packet, *overload = name.split(".")
    name = ".".join([namespace, packet.removesuffix("_"), *overload])
    return RENAMED.get(name, name)


def graph_modules(module: GraphModule) -> list[GraphModule]:
    """`module` and those that its ops call, such as a region without gradients."""
    return [each for each in module.modules() if isinstance(each, GraphModule)]


def nodes_of(module: GraphModule) -> list[Node]:
    """The nodes of all of `graph_modules`."""
    return [node for each in graph_modules(module) for node in each.graph.nodes]


def attribute_of(module: GraphModule, name: str) -> Any:
    """The attribute of a module with a dotted name."""
    return operator.attrgetter(name)(module)


def is_mutable(node: Node) -> bool:
    """Whether `node` calls an op that changes one of its operands."""
    target = node.target
    return isinstance(target, OpOverload) and target._schema.is_mutable


def is_composite(op: OpOverload) -> bool:
    """Whether PyTorch defines `op`, and its gradient, by other ops."""
    # There is no public question about kernels; PyTorch's own export asks so.
    key = torch._C.DispatchKey.CompositeImplicitAutograd
    return torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), key)


def live_nodes(nodes: Sequence[Node], wanted: Iterable[Node] = ()) -> set[Node]:
    """The nodes that the output or `wanted` need, or that may change what they need."""
    live = {nodes[-1], *wanted, *filter(is_mutable, nodes)}
    for node in reversed(nodes):
        if node in live:
            live.update(node.all_input_nodes)
    return live
