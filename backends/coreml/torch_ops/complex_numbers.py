# pyright: basic
"""
Complex numbers in the arguments of ops, replaced by tensors of rank 0.

coremltools has complex tensors only.
"""

import copy
from functools import partial
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch.export import ExportedProgram
from torch.fx import Graph, Node

from padc.backends.coreml.torch_ops.views import Builder, nodes_of

aten = torch.ops.aten


def replace_complex_numbers(graph: Any) -> None:
    """Replace the complex numbers in a TorchScript graph."""
    for node in list(nodes_of(graph)):
        if node.kind() != "prim::Constant" or not node.hasAttribute("value"):
            continue
        if isinstance(number := node.output().toIValue(), complex):
            tensor = Builder(graph, node).constant(torch.tensor(number))
            node.output().replaceAllUsesWith(tensor)
            node.destroy()


def with_complex_tensors(ep: ExportedProgram) -> ExportedProgram:
    """Replace the complex numbers in `ep` by tensors of rank 0, in a copy."""
    if not any(map(has_complex_numbers, ep.graph.nodes)):
        return ep
    made = copy.copy(ep)
    made._graph_module = copy.deepcopy(ep.graph_module)
    graph = made.graph
    for node in filter(has_complex_numbers, list(graph.nodes)):
        tensor = partial(complex_tensor, graph, node)
        with graph.inserting_before(node):
            node.args = pytree.tree_map_only(complex, tensor, node.args)
            node.kwargs = pytree.tree_map_only(complex, tensor, node.kwargs)
    return made


def has_complex_numbers(node: Node) -> bool:
    leaves = pytree.tree_leaves((node.args, node.kwargs))
    return any(isinstance(leaf, complex) for leaf in leaves)


def complex_tensor(graph: Graph, user: Node, number: complex) -> Node:
    """The node of a complex tensor, at the line of `user`."""

    def call(target: Any, *args: Any) -> Node:
        node = graph.call_function(target, args)
        node.meta = dict(user.meta)
        values = [x.meta["val"] if isinstance(x, Node) else x for x in args]
        with user.meta["val"].fake_mode:
            node.meta["val"] = target(*values)
        return node

    parts = [call(aten.full.default, [], x) for x in (number.real, number.imag)]
    return call(aten.complex.default, *parts)
