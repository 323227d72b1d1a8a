# pyright: basic
"""Arithmetic on sizes: Python's and sympy's functions become ops on `!torch.int`."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.fx import Node
from xdsl.ir import SSAValue

from padc.errors import Obstacle
from padc.frontends.torch_export.function_builder import FunctionBuilder, named
from padc.frontends.torch_export.types import type_of
from padc.ir import torch as torch_d

# The overload is the one that takes the operands' types.
SCALAR_OPS: Mapping[Any, str] = {
    operator.add: "aten.add",
    operator.sub: "aten.sub",
    operator.mul: "aten.mul",
    operator.floordiv: "aten.floordiv",
    operator.truediv: "aten.div",
    operator.mod: "aten.remainder",
    operator.pow: "aten.pow",
    operator.neg: "aten.neg",
    operator.eq: "aten.eq",
    operator.ne: "aten.ne",
    operator.lt: "aten.lt",
    operator.le: "aten.le",
    operator.gt: "aten.gt",
    operator.ge: "aten.ge",
    operator.and_: "aten.__and__",
    operator.or_: "aten.__or__",
    math.ceil: "aten.ceil",
    math.floor: "aten.floor",
    math.trunc: "aten.Int",
    torch.sym_float: "aten.Float.Scalar",
    torch.sym_int: "aten.Int.Scalar",
    torch.sym_max: "prim.max",
    torch.sym_min: "prim.min",
    torch.sym_not: "aten.__not__",
    torch.sym_sum: "aten.add",
    torch.ops.aten.sym_size.int: "aten.size",
    torch.ops.aten.sym_numel.default: "aten.numel",
}
SCALAR_OVERLOADS = (
    ".int_to_int",
    ".int",
    ".float",
    ".float_int",
    ".int_float",
    ".bool",
    ".Scalar",
    "",
)


def import_scalar_op(function: FunctionBuilder, node: Node) -> SSAValue:
    """Import a call of one of `SCALAR_OPS`; raises Obstacle if no overload fits."""
    packet = SCALAR_OPS[node.target]
    is_sum = node.target is torch.sym_sum
    arguments: Any = node.args[0] if is_sum else node.args
    values = [
        function.values[arg]
        if isinstance(arg, Node)
        else function.constant("Scalar", arg)
        for arg in arguments
    ]
    if is_sum:
        while len(values) > 1:
            values[:2] = [add_scalar_op(function, packet, values[:2], node)]
        return named(values[0], node.name)
    exponent = node.args[-1]
    if packet == "aten.pow" and isinstance(exponent, int) and exponent > 1:
        if values[0].type == torch_d.IntType():
            # PyTorch's own op returns a float, and no backend has it.
            packet, factor = "aten.mul", values[0]
            for _ in range(exponent - 2):
                values[0] = add_scalar_op(function, packet, [values[0], factor], node)
            values[1] = factor
    return named(add_scalar_op(function, packet, values, node), node.name)


def add_scalar_op(
    function: FunctionBuilder, packet: str, values: Sequence[SSAValue], node: Node
) -> SSAValue:
    """The overload of `packet` that takes `values`, with a result of `node`'s type."""
    for overload in SCALAR_OVERLOADS:
        schema = torch_d.schema_of(packet + overload)
        if schema is not None and takes(schema, values):
            types = [type_of(node.meta["val"])]
            op = function.add(torch_d.aten_op(schema.name, values, types), node)
            return op.results[0]
    given = ", ".join(str(value.type) for value in values)
    raise Obstacle(f"'{packet}' on ({given})")


def takes(schema: torch_d.Schema, values: Sequence[SSAValue]) -> bool:
    """Whether `values` are all the arguments of `schema`."""
    return len(schema.arguments) == len(values) and all(
        torch_d.fits(value.type, argument.type)
        for value, argument in zip(values, schema.arguments)
    )
