# pyright: basic, reportPrivateUsage=false
"""
Exported programs that are imported as they are, ops in place included.

`ExportedProgram.run_decompositions` makes any program functional, by tracing it again.
That takes as long as the rest of a compilation. Most programs have no ops in place, or
only some on tensors without views: such an op only changes the value that a name
stands for.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch
from torch._ops import OpOverload
from torch.fx import Graph, GraphModule, Node

from padc.frontends.torch_export.control_flow import is_control_flow
from padc.frontends.torch_export.dropouts import DROPOUTS, is_idle_dropout
from padc.frontends.torch_export.nodes import (
    functional_name,
    graph_modules,
    is_composite,
    schema_name,
)
from padc.frontends.torch_export.scalars import SCALAR_OPS

# Composites whose results have memory of their own.
OWNING = frozenset(
    f"aten.{name}"
    for name in (
        *("conv1d", "conv2d", "conv3d", "linear", "matmul", "pad", "softmax.int"),
        *("conv1d.padding", "conv2d.padding", "conv3d.padding", "conv_transpose1d"),
        *("conv_transpose2d.input", "conv_transpose3d.input", "grid_sampler"),
        *("max_pool1d", "max_pool2d", "max_pool3d", "adaptive_avg_pool1d"),
        *("avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d"),
        *("layer_norm", "group_norm", "batch_norm", "instance_norm", "prelu"),
        *("upsample_nearest1d.vec", "upsample_nearest2d.vec", "upsample_nearest3d.vec"),
        *("upsample_linear1d.vec", "upsample_bilinear2d.vec", "upsample_bicubic2d.vec"),
        *("upsample_trilinear3d.vec", "scaled_dot_product_attention"),
    )
)
MADE_FUNCTIONAL = frozenset(
    f"aten.{name}"
    for name in (
        *("relu_", "hardtanh_", "leaky_relu_", "elu_", "silu_", "mish_", "sigmoid_"),
        *("hardswish_", "hardsigmoid_", "tanh_", "clamp_"),
        *("add_.Tensor", "sub_.Tensor", "mul_.Tensor", "div_.Tensor"),
    )
)
"""Ops in place that `as_functional` describes."""
RETURNS_OPERAND = DROPOUTS | {"aten.detach_"}
"""Ops that return their operand itself."""


def in_place_changes(module: GraphModule) -> Mapping[Node, Sequence[Node]] | None:
    """
    The ops in place of `module`, each with the nodes that stand for the changed tensor.

    None if the graph has to be decomposed: `as_functional` does not describe it.
    """
    found: dict[Node, Sequence[Node]] = {}
    for each in graph_modules(module):
        if (changes := changes_in(each.graph)) is None:
            return None
        found |= changes
    return found


def changes_in(graph: Graph) -> Mapping[Node, Sequence[Node]] | None:
    """`in_place_changes` of one graph."""
    same: dict[Node, list[Node]] = {}
    changed: dict[Node, Sequence[Node]] = {}
    seen: set[Node] = set()
    for node in graph.nodes:
        if node.op != "call_function":
            continue
        name = schema_name(node.target)
        if not is_kept(name, node):
            return None
        seen.add(node)
        if name not in RETURNS_OPERAND | MADE_FUNCTIONAL:
            continue
        if not node.args:
            return None  # In a file; PyTorch gives the operand by its place.
        given = cast(Node, node.args[0])
        nodes = same.setdefault(given, [given])
        if name in MADE_FUNCTIONAL:
            users = {user for each in nodes for user in each.users} & seen
            if (
                not is_owning(nodes[0])
                or any(map(may_be_view, users))
                or not is_of_same_type(node)
            ):
                return None
            changed[node] = tuple(nodes)
        nodes.append(node)
        same[node] = nodes
    return changed


def is_owning(node: Node) -> bool:
    """Whether the result of `node` has memory of its own."""
    return isinstance(node.target, OpOverload) and not may_be_view(node)


def may_be_view(node: Node) -> bool:
    """Whether a result of `node` may share the memory of an operand."""
    op = node.target
    if not isinstance(op, OpOverload) or schema_name(op) in RETURNS_OPERAND | OWNING:
        return False
    if any(argument.alias_info is not None for argument in op._schema.arguments):
        return not op._schema.is_mutable
    # The schemas of composites do not say so: meshgrid's does not.
    return is_composite(op)


def is_of_same_type(node: Node) -> bool:
    """Whether an op in place is on floats of one dtype, so that nothing is promoted."""
    values = [each.meta["val"] for each in node.all_input_nodes]
    dtypes = {v.dtype if isinstance(v, torch.Tensor) else None for v in values}
    (dtype,) = dtypes if len(dtypes) == 1 else (None,)
    numbers = (*node.args, *node.kwargs.values())
    return (
        dtype is not None
        and dtype.is_floating_point
        and not any(isinstance(number, complex) for number in numbers)
    )


def is_kept(name: str, node: Node) -> bool:
    """Whether `as_functional` describes an op with the arguments of `node`."""
    if node.target in SCALAR_OPS or node.target is operator.getitem:
        return True
    if not isinstance(node.target, OpOverload):
        return is_control_flow(node)  # Others call a graph in another mode.
    if name in DROPOUTS:
        return is_idle_dropout(node)
    if node.target._schema.is_mutable:
        return name in MADE_FUNCTIONAL | RETURNS_OPERAND
    if name == "aten.batch_norm":
        return node.args[5] is False
    return name.endswith("no_training") or not has_state(node)


def has_state(node: Node) -> bool:
    """Whether a call has running statistics, which it may change."""
    for place, argument in enumerate(cast(OpOverload, node.target)._schema.arguments):
        if argument.name in ("running_mean", "running_var"):
            given = node.args[place] if place < len(node.args) else None
            if given is not None or argument.name in node.kwargs:
                return True
    return False


def is_read_as_view(node: Node) -> bool:
    """Whether `as_functional` reads `node` as a view of a contiguous tensor."""
    if schema_name(node.target) not in ("aten.flatten.using_ints", "aten.reshape"):
        return False
    given, result = cast(Node, node.args[0]), node.meta["val"]
    is_static = all(isinstance(size, int) for size in result.shape)
    return is_static and given.meta["val"].is_contiguous()


def as_functional(node: Node) -> tuple[str, Sequence[Any]]:
    """The functional op that computes what `node` does, and its arguments in order."""
    name = schema_name(node.target)
    match name:
        case "aten.flatten.using_ints":
            return "aten.view", [node.args[0], list(node.meta["val"].shape)]
        case "aten.reshape":
            return "aten.view", node.args
        case "aten.batch_norm":
            # Whether cuDNN may compute it: true in PyTorch's builds for CUDA.
            return name, [*node.args[:-1], False]
        case _ if name in MADE_FUNCTIONAL:
            return functional_name(name), node.args
        case _:
            return name, node.args
