# pyright: reportUnknownMemberType=false
"""
A text of everything that an import depends on, except the data of the weights.

It takes a fraction of the time of an import, in which PyTorch makes the program
functional.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch.export import ExportedProgram
from torch.fx import Node

from padc.frontends.torch_export.nodes import attribute_of, graph_modules
from padc.frontends.torch_export.weights import held_tensors
from padc.ir.torch.tensors import weight_array


def fingerprint(ep: ExportedProgram) -> str:
    """
    A text that is the same only if `import_exported_program` returns the same.

    That holds for one set of legal ops: which ops those are depends on padc's source.
    """
    return "\n".join(_lines(ep))


def _lines(ep: ExportedProgram) -> Iterator[str]:
    yield str(ep.graph_signature)
    yield str(ep.call_spec)
    yield f"{ep.range_constraints}"
    for name, tensor in held_tensors(ep).items():
        # An integer of rank 0 is in line; PyTorch may fold ops on constants.
        is_inline = tensor.dim() == 0 and not tensor.is_floating_point()
        data = _digest(tensor) if is_inline or name in ep.constants else ""
        yield f"{name}: {_type(tensor)} {data}"
    # The branches of `cond` and regions without gradients are among the modules.
    for module in graph_modules(ep.graph_module):
        for node in module.graph.nodes:
            yield _line(node)
            if node.op == "get_attr" and isinstance(node.meta.get("val"), torch.Tensor):
                yield _digest(attribute_of(module, str(node.target)))


def _line(node: Node) -> str:
    types = ", ".join(map(_type, pytree.tree_leaves(node.meta.get("val"))))
    return f"{node.name} = {node.target} {node.args!r} {node.kwargs!r}: {types}"


def _type(value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return str(value)
    # Strides decide what is a view, and so what an op in place changes.
    strides = list(value.stride()) if value.layout == torch.strided else ""
    return f"{value.dtype}{list(value.shape)} {value.layout}{strides}"


def _digest(tensor: torch.Tensor) -> str:
    if tensor.is_meta or tensor.layout != torch.strided:
        return ""
    return hashlib.sha256(weight_array(tensor).tobytes()).hexdigest()
