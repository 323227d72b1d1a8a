# pyright: basic
"""Assertions on sizes, which is how PyTorch 2.8 writes guards."""

from __future__ import annotations

from collections.abc import Mapping

import sympy
import torch
from torch.export import ExportedProgram
from torch.fx import Node

from padc.frontends.torch_export.nodes import schema_name
from padc.frontends.torch_export.types import expression_of


def size_assertions(ep: ExportedProgram) -> Mapping[Node, sympy.Basic]:
    """The assertions that depend on input sizes alone, with their conditions."""
    conditions: dict[Node, sympy.Basic] = {}
    for node in ep.graph.nodes:
        if schema_name(node.target) == "aten._assert_scalar":
            asserted = node.args[0]
            value = asserted.meta.get("val") if isinstance(asserted, Node) else None
            if isinstance(value, torch.SymBool):
                conditions[node] = value.node.expr
    if not conditions:
        return {}  # To save time.
    inputs = [node.meta.get("val") for node in ep.graph.find_nodes(op="placeholder")]
    sizes = [size for x in inputs if isinstance(x, torch.Tensor) for size in x.shape]
    symbols = {symbol for size in sizes for symbol in expression_of(size).free_symbols}
    return {
        node: condition
        for node, condition in conditions.items()
        if condition.free_symbols <= symbols
    }
