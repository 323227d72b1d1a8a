# pyright: basic, reportMissingTypeStubs=false
"""
Tensors that a model holds, as the operators see them.

coremltools clamps integers to int32, and has int32 for the bytes of traced models.
"""

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.utils._pytree as pytree

from padc.backends.coreml import quiet
from padc.backends.coreml.app.interface import INT32
from padc.backends.coreml.torch_ops.arguments import nodes_of
from padc.errors import Problem, UnsupportedError

with quiet():
    from coremltools.converters.mil import Builder
    from coremltools.converters.mil.frontend.torch.utils import TorchFrontend

mb: Any = Builder


def with_exact_values(add: Callable[..., None]) -> Callable[..., None]:
    """coremltools' method that adds a tensor of a model to its program."""

    @functools.wraps(add)
    def added(converter: Any, name: str, tensor: Any) -> None:
        is_scripted = converter.context.frontend == TorchFrontend.TORCHSCRIPT
        is_tensor = isinstance(tensor, torch.Tensor)
        if is_tensor and is_wide(tensor) and is_used(name, converter.graph):
            raise beyond_int32(name, tensor)
        if is_scripted and is_tensor and tensor.dtype == torch.uint8:
            array = tensor.detach().cpu().numpy()
            converter.context.add(mb.const(val=array, name=name))
        else:
            add(converter, name, tensor)

    return added


def constant_converter(original: Callable[..., None]) -> Callable[..., None]:
    """The converter of constants of a TorchScript graph, whose integers fit int32."""

    def convert(context: Any, node: Any) -> None:
        tensor = node.attr["value"]
        if isinstance(tensor, torch.Tensor) and is_wide(tensor):
            raise beyond_int32(node.name, tensor)
        original(context, node)

    return convert


def is_wide(tensor: torch.Tensor) -> bool:
    """Whether int32 lacks integers of a tensor."""
    if tensor.dtype != torch.int64 or not tensor.numel():
        return False
    low, high = tensor.aminmax()
    return bool(low < INT32.min or high > INT32.max)


def beyond_int32(name: str, tensor: torch.Tensor) -> UnsupportedError:
    low, high = (int(each) for each in tensor.aminmax())
    message = f"the constant '{name}' has integers of {low} to {high}"
    hint = "Core ML's integers are int32: use floats, or smaller integers"
    return UnsupportedError([Problem(message, None, hint)])


def is_used(name: str, graph: Any) -> bool:
    """Whether a node of a graph takes the tensor of a name, or the graph returns it."""
    taken = [(node.inputs, node.kwinputs) for node in nodes_of(graph.nodes)]
    return name in pytree.tree_leaves((taken, list(graph.outputs)))
