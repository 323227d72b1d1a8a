# pyright: basic, reportPrivateUsage=false
"""
Exported programs that can be read as they are, though some ops change tensors.

`ExportedProgram.run_decompositions` makes every program functional, by tracing it
again, which takes as long as all else that is done for a network. Most networks
consist of ops that it leaves as they are, and of the same ops in place, on tensors
that nothing else looks at: these change what one name stands for, and no more.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch
from torch.export import ExportedProgram
from torch.fx import Graph, GraphModule, Node

# What these give is memory of its own.
OWNING = frozenset(
    f"aten.{name}"
    for name in (
        *("add.Tensor", "sub.Tensor", "mul.Tensor", "div.Tensor", "cat", "matmul"),
        *("relu", "hardtanh", "leaky_relu", "elu", "gelu", "silu", "mish", "sigmoid"),
        *("hardswish", "hardsigmoid", "tanh", "softplus", "softmax.int", "clamp"),
        *("conv1d", "conv2d", "conv3d", "linear", "pad", "prelu", "stack", "flip"),
        *("conv1d.padding", "conv2d.padding", "conv3d.padding", "conv_transpose1d"),
        *("conv_transpose2d.input", "conv_transpose3d.input", "grid_sampler"),
        *("max_pool1d", "max_pool2d", "max_pool3d", "avg_pool1d", "avg_pool2d"),
        *("avg_pool3d", "adaptive_avg_pool1d", "adaptive_avg_pool2d"),
        *("adaptive_avg_pool3d", "mean.dim", "layer_norm", "group_norm"),
        *("upsample_nearest1d.vec", "upsample_nearest2d.vec", "upsample_nearest3d.vec"),
        *("upsample_linear1d.vec", "upsample_bilinear2d.vec", "upsample_bicubic2d.vec"),
        *("upsample_trilinear3d.vec", "batch_norm", "instance_norm"),
    )
)
# These may give views of what they are given.
VIEWS = frozenset(
    f"aten.{name}"
    for name in (
        *("view", "permute", "transpose.int", "unsqueeze", "slice.Tensor"),
        *("select.int", "flatten.using_ints", "reshape", "pixel_shuffle"),
    )
)
# These give the tensor itself that they are given, unless a model is in training.
SAME = frozenset(("aten.dropout", "aten.dropout_"))
IN_PLACE = frozenset(
    f"aten.{name}"
    for name in (
        *("relu_", "hardtanh_", "leaky_relu_", "elu_", "silu_", "mish_", "sigmoid_"),
        *("hardswish_", "hardsigmoid_", "tanh_", "clamp_"),
        *("add_.Tensor", "sub_.Tensor", "mul_.Tensor", "div_.Tensor"),
    )
)
KNOWN = OWNING | VIEWS | SAME | IN_PLACE


def changes(graph: Graph) -> Mapping[Node, Sequence[Node]] | None:
    """
    The ops of `graph` that change a tensor, each with the nodes that stand for it.

    None if `as_functional` does not tell all that the graph computes.
    """
    same: dict[Node, list[Node]] = {}
    changed: dict[Node, Sequence[Node]] = {}
    seen: set[Node] = set()
    for node in graph.nodes:
        if node.op != "call_function":
            continue
        name = schema_name(node.target)
        if name not in KNOWN or not is_kept(name, node):
            return None
        seen.add(node)
        if name not in SAME | IN_PLACE:
            continue
        given = cast(Node, node.args[0])
        nodes = same.setdefault(given, [given])
        if name in IN_PLACE:
            users = {user for each in nodes for user in each.users} & seen
            if (
                schema_name(nodes[0].target) not in OWNING
                or any(schema_name(user.target) in VIEWS for user in users)
                or not is_of_same_type(node)
            ):
                return None
            changed[node] = tuple(nodes)
        nodes.append(node)
        same[node] = nodes
    return changed


def is_of_same_type(node: Node) -> bool:
    """Whether an op in place, of floats, gives what it gives otherwise."""
    values = [each.meta["val"] for each in node.all_input_nodes]
    dtypes = {v.dtype if isinstance(v, torch.Tensor) else None for v in values}
    (dtype,) = dtypes if len(dtypes) == 1 else (None,)
    numbers = (*node.args, *node.kwargs.values())
    return (
        dtype is not None
        and dtype.is_floating_point
        and not any(isinstance(number, complex) for number in numbers)
    )


def is_idle_dropout(node: Node) -> bool:
    """Whether `node` is a dropout that gives the tensor itself that it is given."""
    if schema_name(node.target) not in SAME:
        return False
    _, probability, train = node.args
    return train is False or (isinstance(probability, int | float) and probability == 0)


def without_idle_dropout(ep: ExportedProgram) -> ExportedProgram:
    """
    `ep`, or one that computes the same without dropouts that give what they are given.

    PyTorch decomposes them to copies, which are not changed with what they copy.
    """
    if not any(map(is_idle_dropout, nodes_of(ep.graph_module))):
        return ep
    module, signature = copy.deepcopy((ep.graph_module, ep.graph_signature))
    for node in nodes_of(module):
        if is_idle_dropout(node):
            given = cast(Node, node.args[0])
            node.replace_all_uses_with(given)
            if node.graph is module.graph:
                signature.replace_all_uses(node.name, given.name)
            node.graph.erase_node(node)
    return ep._update(module, signature)


def nodes_of(module: GraphModule) -> list[Node]:
    """Those of its graph, and of what that runs otherwise, as without gradients."""
    graphs = [m.graph for m in module.modules() if isinstance(m, GraphModule)]
    return [node for graph in graphs for node in graph.nodes]


def is_kept(name: str, node: Node) -> bool:
    """Whether `as_functional` knows an op with such arguments."""
    match name:
        case "aten.batch_norm":
            return node.args[5] is False
        case "aten.instance_norm":
            return node.args[3] is None
        case _ if name in SAME:
            return is_idle_dropout(node)
        case "aten.flatten.using_ints" | "aten.reshape":
            given, result = cast(Node, node.args[0]), node.meta["val"]
            is_static = all(isinstance(size, int) for size in result.shape)
            return is_static and given.meta["val"].is_contiguous()
        case _:
            return True


def as_functional(node: Node) -> tuple[str, Sequence[Any]]:
    """The op that computes what `node` does, and its arguments by position."""
    name = schema_name(node.target)
    match name:
        case "aten.flatten.using_ints":
            return "aten.view", [node.args[0], list(node.meta["val"].shape)]
        case "aten.reshape":
            return "aten.view", node.args
        case _ if name in IN_PLACE:
            return name.replace("_.", ".").removesuffix("_"), node.args
        case _:
            return name, node.args


def schema_name(target: Any) -> str:
    """The name of an ATen op, with its overload; of what is none, nothing."""
    if not isinstance(target, torch._ops.OpOverload):
        return ""
    name = target._schema.name.replace("::", ".")
    overload = target._schema.overload_name
    return f"{name}.{overload}" if overload else name
