# pyright: basic
"""The function that an import builds: its ops, its constants, a value for each node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np
import torch
from torch.fx import Node
from xdsl.builder import Builder
from xdsl.dialects.builtin import (
    BytesAttr,
    ComplexType,
    DenseIntOrFPElementsAttr,
    TensorType,
    f32,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint

from padc.errors import Obstacle
from padc.frontends.torch_export.locations import call_location
from padc.frontends.torch_export.types import tensor_type
from padc.ir import torch as torch_d
from padc.ir.torch.dtypes import DTYPE_NUMBERS
from padc.ir.torch.tensors import weight_array

Imported: TypeAlias = Any
"""The value of a node: an SSAValue, or a sequence of them if it has several results."""

# c10/core/MemoryFormat.h and c10/core/Layout.h.
ENUM_CODES: Mapping[Any, int] = {
    **{getattr(torch, name): number for name, number in DTYPE_NUMBERS.items()},
    torch.contiguous_format: 0,
    torch.preserve_format: 1,
    torch.channels_last: 2,
    torch.channels_last_3d: 3,
    torch.strided: 0,
}


class RankZero(NamedTuple):
    """A number that becomes a tensor of rank 0."""

    value: int | float
    dtype: torch.dtype


class FunctionBuilder:
    """Appends ops to a function or region; equal constants and lists are one op."""

    def __init__(self):
        self.block = Block()
        self.builder = Builder(InsertPoint.at_end(self.block))
        self.values: dict[Node, Imported] = {}
        """The value of each imported node."""
        self.constants: dict[tuple[Any, ...], SSAValue] = {}

    def region(self, types: Sequence[Attribute]) -> FunctionBuilder:
        """A builder of a region of this function, whose block has these arguments."""
        inner = FunctionBuilder()
        for type in types:
            inner.block.insert_arg(type, len(inner.block.args))
        inner.values = self.values
        inner.constants = dict(self.constants)
        return inner

    def add(self, op: Operation, node: Node | None = None) -> Operation:
        """Append an op, located at the user's line of `node`."""
        if node is not None:
            op.location = call_location(node)
        return self.builder.insert(op)

    def operand(self, type: str, given: Any) -> SSAValue:
        """The value of a node's argument `given`, for ATen's type `type`."""
        if isinstance(given, Node):
            return self.imported_operand(type, self.values[given])
        if isinstance(given, SSAValue):
            return given
        if given is None or not type.rstrip("?").endswith("]"):
            return self.constant(type, given)
        list_type = type.rstrip("?")
        element, _, size = list_type[:-1].rpartition("[")
        if not isinstance(given, list | tuple):
            given = [given] * int(size)
        return self.add_list(list_type, [self.operand(element, part) for part in given])

    def imported_operand(self, type: str, value: Imported) -> SSAValue:
        """A value that is there already, as ATen's type `type`."""
        if not isinstance(value, SSAValue):
            return self.add_list(type, list(value))
        if type.rstrip("?") == "float" and value.type == torch_d.IntType():
            types = [torch_d.FloatType()]
            op = self.add(torch_d.aten_op("aten.Float.Scalar", [value], types))
            return op.results[0]
        return value

    def add_list(self, type: str, elements: Sequence[SSAValue]) -> SSAValue:
        """A list of ATen's type `type`."""
        element_type = torch_d.LIST_ELEMENTS[type[: type.rindex("[")]]
        key = (element_type, *elements)
        if key not in self.constants:
            op = self.add(torch_d.ListConstructOp(elements, element_type))
            self.constants[key] = op.results[0]
        return self.constants[key]

    def constant(self, type: str, value: Any) -> SSAValue:
        """A Python value; raises Obstacle if padc does not have its type."""
        if type.rstrip("?") == "float" and isinstance(value, int):
            value = float(value)
        # repr tells apart what compares equal: 0.0 and -0.0, nan and another nan.
        key = (value.__class__, repr(value))
        if key not in self.constants:
            match value:
                case None:
                    op, hint = torch_d.ConstantNoneOp(), "none"
                case bool():
                    op, hint = torch_d.ConstantBoolOp(value), str(value).lower()
                case int():
                    op, hint = torch_d.ConstantIntOp(value), f"int{value}"
                case float():
                    op, hint = torch_d.ConstantFloatOp(value), "float"
                case str():
                    op, hint = torch_d.ConstantStrOp(value), "str"
                case torch.device():
                    op, hint = torch_d.ConstantDeviceOp(str(value)), "device"
                case complex():
                    literal = rank_zero_literal(np.complex64(value), ComplexType(f32))
                    op, hint = torch_d.LiteralOp(literal), "complex"
                case RankZero():
                    try:
                        tensor = torch.tensor(value.value, dtype=value.dtype)
                    except RuntimeError as error:
                        raise Obstacle(f"{value.value}: {error}") from error
                    element_type = tensor_type(tensor).element_type
                    literal = rank_zero_literal(weight_array(tensor), element_type)
                    op, hint = torch_d.LiteralOp(literal), "number"
                case torch.SymInt() | torch.SymFloat() | torch.SymBool():
                    raise Obstacle(f"the number {value}, which no node computes")
                case _ if value in ENUM_CODES:
                    return self.constant("int", ENUM_CODES[value])
                case torch.dtype():
                    raise Obstacle(
                        f"padc does not compute with {value}", "use float32 or float16"
                    )
                case _:
                    raise Obstacle(f"the constant {value!r}")
            self.constants[key] = named(self.add(op).results[0], hint)
        return self.constants[key]


def rank_zero_literal(value: Any, type: Attribute) -> DenseIntOrFPElementsAttr:
    """A tensor of rank 0; `value` is a number or array of numpy."""
    builtin_type = TensorType(type, [])
    return DenseIntOrFPElementsAttr(cast(Any, builtin_type), BytesAttr(value.tobytes()))


def named(value: SSAValue, hint: str) -> SSAValue:
    """`value`, printed as `hint` if that is a valid name."""
    if SSAValue.is_valid_name(hint):
        value.name_hint = hint
    return value
