# pyright: basic, reportPrivateUsage=false
"""
Exported programs that are imported without decomposing them, ops in place included.

`ExportedProgram.run_decompositions` makes any program functional, by tracing it again.
That takes as long as the rest of a compilation. Most networks consist of ops which it
keeps, and of the same ops in place, on tensors without views: such an op in place only
changes the value that a name stands for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch
from torch.fx import Graph, Node

from padc.frontends.torch_export.dropouts import DROPOUTS, is_idle_dropout
from padc.frontends.torch_export.nodes import schema_name

# The results of these have memory of their own.
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
# The results of these may be views of an operand.
VIEWS = frozenset(
    f"aten.{name}"
    for name in (
        *("view", "permute", "transpose.int", "unsqueeze", "slice.Tensor"),
        *("select.int", "flatten.using_ints", "reshape", "pixel_shuffle"),
    )
)
IN_PLACE = frozenset(
    f"aten.{name}"
    for name in (
        *("relu_", "hardtanh_", "leaky_relu_", "elu_", "silu_", "mish_", "sigmoid_"),
        *("hardswish_", "hardsigmoid_", "tanh_", "clamp_"),
        *("add_.Tensor", "sub_.Tensor", "mul_.Tensor", "div_.Tensor"),
    )
)
KNOWN = OWNING | VIEWS | DROPOUTS | IN_PLACE


def in_place_changes(graph: Graph) -> Mapping[Node, Sequence[Node]] | None:
    """
    The ops in place of `graph`, each with the nodes that stand for the changed tensor.

    None if the graph has to be decomposed: `as_functional` does not describe it.
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
        if name not in DROPOUTS | IN_PLACE:
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
    match name:
        case "aten.batch_norm":
            return node.args[5] is False
        case "aten.instance_norm":
            return node.args[3] is None
        case _ if name in DROPOUTS:
            return is_idle_dropout(node)
        case "aten.flatten.using_ints" | "aten.reshape":
            given, result = cast(Node, node.args[0]), node.meta["val"]
            is_static = all(isinstance(size, int) for size in result.shape)
            return is_static and given.meta["val"].is_contiguous()
        case _:
            return True


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
        case _ if name in IN_PLACE:
            return name.replace("_.", ".").removesuffix("_"), node.args
        case _:
            return name, node.args
