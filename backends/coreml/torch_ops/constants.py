# pyright: basic, reportMissingTypeStubs=false
"""
Tensors that a model holds, as the operators see them.

coremltools clamps integers to int32, and has int32 for the bytes of traced models.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.utils._pytree as pytree

from padc.backends.coreml import quiet
from padc.backends.coreml.torch_ops.arguments import nodes_of
from padc.errors import Problem, UnsupportedError

with quiet():
    from coremltools.converters.mil import Builder
    from coremltools.converters.mil.frontend.torch.utils import TorchFrontend

mb: Any = Builder
INT32 = np.iinfo(np.int32)


def with_exact_values(add: Callable[..., None]) -> Callable[..., None]:
    """coremltools' method that adds a tensor of a model to its program."""

    @functools.wraps(add)
    def added(converter: Any, name: str, tensor: Any) -> None:
        is_scripted = converter.context.frontend == TorchFrontend.TORCHSCRIPT
        is_tensor = isinstance(tensor, torch.Tensor)
        if is_tensor and is_used(name, converter.graph):
            check_range(name, tensor)
        if is_scripted and is_tensor and tensor.dtype == torch.uint8:
            array = tensor.detach().cpu().numpy()
            converter.context.add(mb.const(val=array, name=name))
        else:
            add(converter, name, tensor)

    return added


def constant_converter(original: Callable[..., None]) -> Callable[..., None]:
    """The converter of constants of a TorchScript graph, whose integers fit int32."""

    def convert(context: Any, node: Any) -> None:
        if isinstance(tensor := node.attr["value"], torch.Tensor):
            check_range(node.name, tensor)
        original(context, node)

    return convert


def check_range(name: str, tensor: torch.Tensor) -> None:
    """Raise UnsupportedError if int32 does not have all integers of a tensor."""
    if tensor.dtype != torch.int64 or not tensor.numel():
        return
    low, high = (int(each) for each in tensor.aminmax())
    if low < INT32.min or high > INT32.max:
        message = f"the constant '{name}' has integers of {low} to {high}"
        hint = "Core ML's integers are int32: use floats, or smaller integers"
        raise UnsupportedError([Problem(message, None, hint)])


def is_used(name: str, graph: Any) -> bool:
    """Whether a node of a graph takes the tensor of a name, or the graph returns it."""
    taken = [(node.inputs, node.kwinputs) for node in nodes_of(graph.nodes)]
    return name in pytree.tree_leaves((taken, list(graph.outputs)))
