# pyright: basic
"""Types of the `torch` dialect for the values of nodes."""

from __future__ import annotations

from typing import Any

import sympy
import torch
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import statically_known_true
from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import Attribute

from padc.errors import Obstacle
from padc.ir import torch as torch_d
from padc.ir.torch.tensors import ELEMENT_TYPES


def tensor_type(tensor: torch.Tensor) -> torch_d.VTensorType:
    """The type of a tensor; raises Obstacle if padc does not have its dtype."""
    if tensor.layout != torch.strided or tensor.dtype not in ELEMENT_TYPES:
        raise Obstacle(
            f"a tensor of type {describe(tensor)}",
            "padc takes dense tensors of bool, integers, bfloat16, and float16 to "
            "float64",
        )
    # A symbol may have been replaced by a number since the size was traced.
    sizes = map(expression_of, tensor.shape)
    shape = tuple(
        int(size) if isinstance(size, sympy.Integer) else DYNAMIC_INDEX
        for size in sizes
    )
    return torch_d.VTensorType.get(ELEMENT_TYPES[tensor.dtype], shape)


def type_of(value: Any) -> Attribute:
    """The type of a node's value, of which torch.export keeps an example."""
    match value:
        case torch.Tensor():
            return tensor_type(value)
        case list() | tuple():
            return torch_d.ListType(torch_d.LIST_ELEMENTS["Tensor"])
        case bool() | torch.SymBool():
            return torch_d.BoolType()
        case int() | torch.SymInt():
            return torch_d.IntType()
        case float() | torch.SymFloat():
            return torch_d.FloatType()
        case _:
            raise Obstacle(f"an op that returns {value!r}")


def expression_of(size: int | torch.SymInt) -> sympy.Expr:
    """A size as PyTorch knows it now: an expression of symbols, or a number."""
    if isinstance(size, int):
        return sympy.Integer(size)
    expression = size.node.expr
    # PyTorch keeps the expression of a size that it broadcasts since a guard says 1.
    if expression.args and statically_known_true(size == 1):
        return sympy.Integer(1)
    return expression


def describe(value: Any) -> str:
    """A value in a message: dtype, shape and layout of a tensor."""
    if not isinstance(value, torch.Tensor):
        return str(value)
    sizes = ", ".join(map(str, value.shape))
    dtype = str(value.dtype).removeprefix("torch.")
    layout = "" if value.layout == torch.strided else f" ({value.layout})"
    return f"{dtype}[{sizes}]{layout}"


def describe_operands(node: Node) -> str:
    """The types of a node's operands, in a message."""
    operands = [describe(operand.meta.get("val")) for operand in node.all_input_nodes]
    return f"({', '.join(operands)})"
