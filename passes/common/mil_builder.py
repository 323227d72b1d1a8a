"""
A builder of `mil` ops that infers the types of their results.

Every op is verified for the target when it is built, so that an op that Core ML lacks
is reported with the op that is being lowered.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.builder import Builder
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseIntOrFPElementsAttr,
    TensorType,
    f16,
    i32,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint

from padc.errors import Obstacle
from padc.ir import mil, mil_types
from padc.ir.tcp import AnyTensor, tensor_type
from padc.ir.torch.describe import describe_type, shape_of
from padc.ir.type_tests import is_tensor
from padc.ir.weights import numpy_dtype
from padc.passes.common.lowering import source_of


@dataclass(frozen=True)
class SizeOf:
    """The dynamic size of a tensor along one dimension."""

    tensor: SSAValue
    dim: int


@dataclass(frozen=True)
class MilBuilder:
    """Inserts `mil` ops of `target` before `anchor`, with its source line."""

    anchor: Operation
    target: str

    def insert(self, op: Operation) -> SSAValue:
        """Insert an op before the anchor, and return its first result."""
        return self.insert_all(op)[0]

    def insert_all(self, op: Operation) -> Sequence[SSAValue]:
        """Insert an op before the anchor, and return its results."""
        op.location = source_of(self.anchor)
        return Builder(InsertPoint.before(self.anchor)).insert(op).results

    def emit(
        self, name: str, like: AnyTensor, shape: Sequence[int], /, **inputs: Any
    ) -> SSAValue:
        """Insert `mil.<name>`: a result of `shape`, of the element type of `like`."""
        return self.emit_all(name, like, [shape], **inputs)[0]

    def emit_all(
        self,
        name: str,
        like: AnyTensor,
        shapes: Sequence[Sequence[int]],
        /,
        **inputs: Any,
    ) -> Sequence[SSAValue]:
        """Insert `mil.<name>`: results of `shapes`, of the element type of `like`."""
        types = [TensorType(like.element_type, shape) for shape in shapes]
        op = mil.op(name, types, **inputs)
        for type in (*op.operand_types, *types):
            if 0 in (shape_of(type) or ()):
                message = f"Core ML has no empty tensors, this is {describe_type(type)}"
                raise Obstacle(message, "leave it out")
        op.verify_()
        # Integers that become int32 are checked when the op is emitted.
        if not any(map(self.is_widened, (*op.operand_types, *types))):
            op.check(self.target)
        return self.insert_all(op)

    def constant(self, array: npt.NDArray[Any]) -> SSAValue:
        """A constant as a value, for inputs that must be one."""
        return self.insert(ConstantOp(mil_types.dense_attr(array)))

    def slice(
        self, x: SSAValue, dim: int, start: int, stop: int | None, step: int = 1
    ) -> SSAValue:
        """`x[start:stop:step]` along `dim`; negative positions count from the end."""
        type = tensor_type(x)
        shape = list(type.get_shape())
        if shape[dim] != DYNAMIC_INDEX:
            start, stop, _ = slice(start, stop).indices(shape[dim])
            shape[dim] = len(range(start, stop, step))
        elif start >= 0 and stop is not None and stop >= 0:
            shape[dim] = len(range(start, stop, step))
        elif start < 0 and stop is None:
            shape[dim] = len(range(start, 0, step))
        others = [d != dim for d in range(len(shape))]
        whole = [stop is None if d == dim else True for d in range(len(shape))]
        return self.emit(
            "slice_by_index",
            type,
            shape,
            x=x,
            begin=[0 if other else start for other in others],
            end=[0 if other or stop is None else stop for other in others],
            stride=[1 if other else step for other in others],
            begin_mask=others,
            end_mask=whole,
        )

    def transpose(self, x: SSAValue, perm: Sequence[int]) -> SSAValue:
        """Dimension i of the result is dimension `perm[i]` of `x`."""
        if list(perm) == sorted(perm):
            return x
        type = tensor_type(x)
        shape = [type.get_shape()[dim] for dim in perm]
        return self.emit("transpose", type, shape, x=x, perm=list(perm))

    def sizes(self, x: SSAValue) -> list[int | SizeOf]:
        """The sizes of `x`; a dynamic one is a `SizeOf`."""
        shape = enumerate(tensor_type(x).get_shape())
        return [SizeOf(x, d) if n == DYNAMIC_INDEX else n for d, n in shape]

    def reshape(self, x: SSAValue, shape: Sequence[int | SizeOf]) -> SSAValue:
        """`x` reshaped; one size may be `DYNAMIC_INDEX`."""
        type = tensor_type(x)
        known = [n if isinstance(n, int) else DYNAMIC_INDEX for n in shape]
        # With several dynamic sizes, equal types do not imply equal shapes.
        if known == list(type.get_shape()) and known.count(DYNAMIC_INDEX) < 2:
            return x
        if known.count(DYNAMIC_INDEX) < 2:
            sizes = [-1 if size == DYNAMIC_INDEX else size for size in known]
            return self.emit("reshape", type, known, x=x, shape=sizes)
        assert shape.count(DYNAMIC_INDEX) < 2
        parts = [self.size(-1 if n == DYNAMIC_INDEX else n) for n in shape]
        vector = tensor_type(parts[0])
        sizes = self.emit("concat", vector, [len(parts)], values=parts, axis=0)
        return self.emit("reshape", type, known, x=x, shape=sizes)

    def size(self, size: int | SizeOf) -> SSAValue:
        """A size as a vector of one element."""
        if isinstance(size, int):
            value = DenseIntOrFPElementsAttr.from_list(TensorType(i32, [1]), [size])
            return self.insert(ConstantOp(value))
        indices = TensorType(i32, [tensor_type(size.tensor).get_num_dims()])
        shape = self.emit("shape", indices, indices.get_shape(), x=size.tensor)
        return self.slice(shape, 0, size.dim, size.dim + 1)

    def binary(self, name: str, x: SSAValue, y: SSAValue) -> SSAValue:
        """An elementwise op on two tensors of the same type."""
        type = tensor_type(x)
        return self.emit(name, type, type.get_shape(), x=x, y=y)

    def scale(self, x: SSAValue, factor: npt.NDArray[np.floating[Any]]) -> SSAValue:
        """`x` times a constant that broadcasts to its shape."""
        type = tensor_type(x)
        dtype = np.float16 if type.element_type == f16 else np.float32
        return self.emit(
            "mul", type, type.get_shape(), x=x, y=np.asarray(factor, dtype)
        )

    def ones_like(self, x: SSAValue) -> SSAValue:
        type = tensor_type(x)
        indices = TensorType(i32, [type.get_num_dims()])
        shape = self.emit("shape", indices, indices.get_shape(), x=x)
        one = np.ones((), numpy_dtype(type.element_type))
        return self.emit("fill", type, type.get_shape(), shape=shape, value=one)

    def total(self, parts: Sequence[SSAValue], name: str) -> SSAValue:
        """All parts, reduced by the elementwise op `name`."""
        return reduce(lambda x, y: self.binary(name, x, y), parts)

    def cast(self, x: SSAValue, element_type: Attribute) -> SSAValue:
        """`x` cast to an element type that its values fit."""
        type = tensor_type(x)
        if type.element_type == element_type:
            return x
        result = TensorType(element_type, type.get_shape())
        for each in (type, result):
            if not self.is_widened(each):
                name = mil_types.element_type_name(each.element_type)
                mil.check_element_type(name, self.target)
        name = mil_types.ELEMENT_TYPES[element_type]
        return self.emit("cast", result, result.get_shape(), x=x, dtype=name)

    def is_widened(self, type: Attribute) -> bool:
        """Whether a tensor of this type becomes int32, at the end of lowering."""
        if not is_tensor(type):
            return False
        name = mil_types.ELEMENT_TYPES.get(type.element_type, "")
        return mil.is_widened(name, self.target)

    def as_int32(self, x: SSAValue) -> SSAValue:
        """`x` as int32: Core ML's arithmetic does not take narrower integers."""
        is_wide = tensor_type(x).element_type in (i32, i64)
        return x if is_wide else self.cast(x, i32)


def product(sizes: Sequence[int]) -> int:
    """The number of elements; dynamic if any size is."""
    return DYNAMIC_INDEX if DYNAMIC_INDEX in sizes else math.prod(sizes)
