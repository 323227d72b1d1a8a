# pyright: basic, reportPrivateUsage=false
"""Idle dropouts: those that return their operand itself, as all do in inference."""

from __future__ import annotations

import copy
from typing import cast

from torch.export import ExportedProgram
from torch.export.graph_signature import ExportGraphSignature
from torch.fx import GraphModule, Node

from padc.frontends.torch_export.nodes import graph_modules, nodes_of, schema_name

DROPOUTS = frozenset(
    f"aten.{name}"
    for kind in ("dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout")
    for name in (kind, f"{kind}_")
)


def is_idle_dropout(node: Node) -> bool:
    """Whether `node` is a dropout that returns its operand itself."""
    if schema_name(node.target) not in DROPOUTS:
        return False
    _, probability, train = node.args
    return train is False or (isinstance(probability, int | float) and probability == 0)


def without_idle_dropouts(ep: ExportedProgram) -> ExportedProgram:
    """
    `ep`, or a copy of it without its idle dropouts.

    PyTorch decomposes an idle dropout to a copy of its operand. A later op in place on
    the operand would not change that copy.
    """
    if not any(map(is_idle_dropout, nodes_of(ep.graph_module))):
        return ep
    module, signature = copy_graph(ep)
    for node in nodes_of(module):
        if is_idle_dropout(node):
            operand = cast(Node, node.args[0])
            node.replace_all_uses_with(operand)
            if node.graph is module.graph:
                signature.replace_all_uses(node.name, operand.name)
            node.graph.erase_node(node)
    for each in graph_modules(module):
        each.recompile()
    # PyTorch's own passes copy programs so: the constructor takes every attribute.
    return ep._update(module, signature)


def copy_graph(ep: ExportedProgram) -> tuple[GraphModule, ExportGraphSignature]:
    """
    Copies of the program's graph, whose nodes keep their names, and of its signature.

    `copy.deepcopy` alone renames nodes that are called like a Python builtin: `input`
    becomes `input_1`, and the signature, which refers to nodes by name, does not fit.
    """
    module, signature = copy.deepcopy((ep.graph_module, ep.graph_signature))
    for node, original in zip(nodes_of(module), nodes_of(ep.graph_module), strict=True):
        node.name = original.name
    return module, signature
