"""An ATen op that is being lowered to Core ML's, and the table of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    TensorType,
    UnrealizedConversionCastOp,
    f32,
    i1,
    i32,
)
from xdsl.ir import Attribute, Operation, SSAValue

from padc.ir import mil
from padc.ir.element_types import is_float, width
from padc.ir.tcp import tensor_type
from padc.ir.torch import (
    BoolType,
    FloatType,
    FromBuiltinTensorOp,
    LiteralOp,
    PythonValue,
    ToBuiltinTensorOp,
    VTensorType,
    builtin_type,
)
from padc.ir.weights import Array, Weights, numpy_dtype
from padc.passes.aten.aten_call import AtenCall, known
from padc.passes.common.lowering import LoweringTable
from padc.passes.common.mil_builder import MilBuilder
from padc.passes.torch_to_mil.aten.movement import Size
from padc.passes.torch_to_mil.aten.tensor import Tensor, computed_type, number


@dataclass(frozen=True)
class MilCall(AtenCall):
    """An ATen op that is being lowered to Core ML's ops."""

    build: MilBuilder
    weights: Weights

    def insert(self, op: Operation) -> SSAValue:
        return self.build.insert(op)

    # --- tensors ----------------------------------------------------------------

    def tensor(self, name: str) -> Tensor:
        """A tensor argument; narrow integers are cast to int32."""
        return self.as_tensor(self.op.arg(name))

    def optional(self, name: str) -> Tensor | None:
        """A tensor argument, or None if it is not given."""
        return self.tensor(name) if self.has(name) else None

    def tensors(self, name: str) -> list[Tensor]:
        """A list of tensors."""
        return [self.as_tensor(x) for x in self.elements(name)]

    def as_tensor(self, x: SSAValue) -> Tensor:
        """A value of the torch dialect as a Tensor."""
        assert isinstance(x.type, VTensorType)
        value = self.raw(x)
        element = computed_type(x.type.element_type)
        if tensor_type(value).element_type != element:
            value = self.build.cast(value, element)
        return Tensor(self.build, value, x.type.element_type)

    def raw(self, x: SSAValue) -> SSAValue:
        """A value of the torch dialect as a builtin tensor, of its own type."""
        return as_builtin(self.build, x)

    def shape(self, name: str) -> Sequence[int]:
        """The sizes of a tensor argument."""
        type = self.op.arg(name).type
        assert isinstance(type, VTensorType)
        return type.get_shape()

    def is_empty(self, name: str) -> bool:
        """Whether a tensor argument has no elements."""
        return isinstance(self.op.arg(name).type, VTensorType) and (
            0 in self.shape(name)
        )

    def array(self, x: Tensor) -> Array:
        """The data of a constant of the program (see `mil.is_constant`)."""
        return self.data(x.ssa)

    def known_array(self, x: SSAValue) -> Array | None:
        """The elements of a value of the torch dialect; None if they are computed."""
        value = self.raw(x)
        return self.data(value) if mil.is_constant(value) else None

    def data(self, value: SSAValue) -> Array:
        """The data of a constant, or of one that ops of `mil.FOLDED` move."""
        owner = value.owner
        match owner:
            case LiteralOp() | ConstantOp():
                data = owner.value
                assert isinstance(data, DenseIntOrFPElementsAttr | DenseResourceAttr)
                return self.weights.array(data)
            case ToBuiltinTensorOp():
                return self.data(owner.operand)
            case _:
                assert isinstance(owner, mil.MilOp)
        data, type = self.data(owner.operands[0]), tensor_type(value)
        if owner.name == "mil.transpose":
            return data.transpose(cast("list[int]", owner.input("perm")))
        dtype = numpy_dtype(type.element_type)
        return data.reshape(tuple(type.get_shape())).astype(dtype, copy=False)

    def weight(self, name: str, array: Array, type: Attribute) -> Tensor:
        """A large constant of PyTorch's type `type`, which the weights hold."""
        element = computed_type(type)
        name = self.weights.add(name, array.astype(numpy_dtype(element)))
        value = DenseResourceAttr.from_params(name, TensorType(element, array.shape))
        return Tensor(self.build, self.insert(ConstantOp(value)), type)

    # --- numbers and sizes ------------------------------------------------------

    def dim(self, name: str, rank: int) -> int:
        """A dimension counted from 0; of a tensor of rank 0, 0."""
        return self.integer(name) % max(rank, 1)

    def dims(self, name: str, rank: int, *, empty: bool = False) -> list[int]:
        """
        A list of dimensions, or a single one, counted from 0.

        None or an empty list means all dimensions, unless `empty`.
        """
        value: PythonValue = self.constant(name) if self.has(name) else []
        values = value if isinstance(value, list) else [value]
        dims = [dim % max(rank, 1) for dim in values if isinstance(dim, int)]
        return dims if dims or empty else list(range(rank))

    def integers(self, name: str) -> list[int]:
        """A list of known integers."""
        values = self.constant(name)
        assert isinstance(values, list)
        return [value for value in values if isinstance(value, int)]

    def size(self, name: str) -> Size:
        """An integer, known or computed when the program runs."""
        return self.as_size(self.op.arg(name))

    def sizes(self, name: str) -> list[Size]:
        """A list of integers, each known or computed when the program runs."""
        return [self.as_size(element) for element in self.elements(name)]

    def as_size(self, value: SSAValue) -> Size:
        integer = known(value)
        return integer if isinstance(integer, int) else self.scalar(integer)

    def scalar(self, value: SSAValue) -> Tensor:
        """A computed number of the torch dialect, as a tensor of rank 0."""
        return Tensor(self.build, as_builtin(self.build, value), scalar_type(value))

    # --- results ----------------------------------------------------------------

    def result_shape(self, index: int = 0) -> list[int]:
        """The sizes of a result; `DYNAMIC_INDEX` for those that vary."""
        return list(self.declared_type(index).get_shape())

    def constant_tensor(self, array: Any, type: Attribute) -> Tensor:
        """An array as a tensor of PyTorch's type `type`."""
        element = computed_type(type)
        dtype = number(0, element).dtype
        return Tensor(self.build, self.build.constant(np.asarray(array, dtype)), type)

    def as_result(self, x: Tensor, index: int = 0) -> SSAValue:
        """`x`, converted to the type of a result, and repeated to its shape."""
        x = x.to(self.result_element_type(index))
        shape = self.result_shape(index)
        if not isinstance(x.value, SSAValue) and DYNAMIC_INDEX not in shape:
            x = x.like(self.build.constant(np.full(shape, x.value)))
        stored = self.result_type(index)
        value = before_cast(x.ssa, stored.element_type)
        if tensor_type(value).element_type != stored.element_type:
            value = self.build.cast(value, stored.element_type)
        return value

    def as_element(self, x: Tensor) -> SSAValue:
        """`x` as an element of a list of tensors, which has their common type."""
        value, type = x.ssa, builtin_type(VTensorType.get(x.type, x.shape))
        return self.build.cast(value, type.element_type)


def scalar_type(value: SSAValue) -> Attribute:
    """The element type of a computed number of the torch dialect."""
    match value.type:
        case FloatType():
            return f32
        case BoolType():
            return i1
        case _:
            return i32


def as_builtin(build: MilBuilder, x: SSAValue) -> SSAValue:
    """A tensor or a computed number of the torch dialect as a builtin tensor."""
    if isinstance(x.owner, FromBuiltinTensorOp | UnrealizedConversionCastOp):
        return x.owner.operands[0]
    if isinstance(x.type, VTensorType):
        return build.insert(ToBuiltinTensorOp(x))
    type = TensorType(scalar_type(x), ())
    return build.insert(UnrealizedConversionCastOp.get([x], [type]))


def before_cast(x: SSAValue, type: Attribute) -> SSAValue:
    """A narrow integer of `type` that was cast to `x`; otherwise `x`."""
    if isinstance(x.owner, mil.MilOp) and x.owner.name == "mil.cast":
        (narrow,) = x.owner.operands
        is_narrow = not is_float(type) and 1 < width(type) < 32
        if is_narrow and tensor_type(narrow).element_type == type:
            return narrow
    return x


Made: TypeAlias = SSAValue | Tensor | Sequence[Tensor]
"""The result of a row: a Tensor, a list of them, or a value of the IR."""

MilLowering: TypeAlias = Callable[
    [MilCall], Tensor | SSAValue | Sequence[Made | None] | None
]
"""
Builds what replaces an op's first results, alone or in a sequence; None if it stays.
In a sequence, None is a result that must not have uses.

Tensors are converted to the results' types. An op that stays must become unused.
"""

LOWERINGS = LoweringTable[str, MilLowering]()
"""By the names of ATen schemas."""

lowers = LOWERINGS.lowers
