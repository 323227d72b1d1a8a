"""
Build ATen ops on builtin tensors: passes decompose `tcp` ops into them.

Slices, concatenations and arithmetic have no ops in `tcp`: ATen's serve every backend.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TypeAlias

from xdsl.builder import Builder
from xdsl.dialects.arith import IndexCastOp
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseIntOrFPElementsAttr,
    IntegerType,
    NameLoc,
    Signedness,
    StringAttr,
    TensorType,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint

from padc.ir import arithmetic, tcp
from padc.ir import torch as torch_dialect
from padc.ir.arithmetic import IntegerBuilder
from padc.ir.element_types import describe_element
from padc.ir.padding import Amounts
from padc.ir.tcp import Amount, AnyTensor, tensor_type
from padc.ir.torch import schema_of
from padc.ir.torch.dtypes import DTYPE_NUMBERS

Argument: TypeAlias = "SSAValue | int | float | bool | str | Sequence[Argument] | None"
"""An operand of an ATen op: a value, a constant, or a list of these."""

Integer: TypeAlias = int | SSAValue
"""A number that is known, or a value of type `!torch.int`."""

LARGEST_SIZE = 2**13
"""The size that is assumed for a dynamic one where a bound has to be known."""

INT64_MAX = 2**63 - 1
"""The number that means the end of a dimension to ATen."""

INTEGER_OPS: Mapping[arithmetic.Operation, str] = {
    "add": "aten.add.int",
    "sub": "aten.sub.int",
    "mul": "aten.mul.int",
    "floordiv": "aten.floordiv.int",
    "max": "prim.max.int",
    "min": "prim.min.int",
}
"""Arithmetic on integers, as ops."""


@dataclass(frozen=True)
class AtenBuilder(IntegerBuilder):
    """Inserts ATen ops on builtin tensors before `anchor`, with its source line."""

    anchor: Operation
    purpose: str | None = None
    """The purpose in the ops' location; if None, the anchor's."""

    def insert(self, op: Operation) -> SSAValue:
        """Insert a new op before the anchor, and return its first result."""
        op.location = self.anchor.location
        if self.purpose is not None:
            op.location = NameLoc(StringAttr(self.purpose), op.location)
        return Builder(InsertPoint.before(self.anchor)).insert(op).results[0]

    def call(self, name: str, result: AnyTensor, /, **arguments: Argument) -> SSAValue:
        """
        Insert `aten.<name>` on `arguments`, with its schema's defaults for the others.

        Tensors among the arguments, and the result, are builtin ones.
        """
        type = torch_dialect.vtensor_type(result)
        value = self.emit(f"aten.{name}", type, arguments)
        return self.insert(torch_dialect.ToBuiltinTensorOp(value))

    def emit(
        self, name: str, result: Attribute, arguments: Mapping[str, Argument]
    ) -> SSAValue:
        """Insert the op with the schema `name`, whose result has a type of torch."""
        schema = schema_of(name)
        assert schema is not None, name
        operands = [
            self.operand(arguments.get(argument.name, argument.default), argument.type)
            for argument in schema.arguments
        ]
        return self.insert(torch_dialect.aten_op(name, operands, [result]))

    def evaluate(
        self, operation: arithmetic.Operation, a: Integer, b: Integer
    ) -> Integer:
        operands: dict[str, Argument] = {"a": a, "b": b}
        return self.emit(INTEGER_OPS[operation], torch_dialect.IntType(), operands)

    def size(self, x: SSAValue, dim: int) -> Integer:
        """How many elements `x` has along `dim`."""
        if (size := tensor_type(x).get_shape()[dim]) != DYNAMIC_INDEX:
            return size
        arguments: dict[str, Argument] = {"self": x, "dim": dim}
        return self.emit("aten.size.int", torch_dialect.IntType(), arguments)

    def sizes(self, x: SSAValue) -> list[Integer]:
        return [self.size(x, dim) for dim in range(tensor_type(x).get_num_dims())]

    def product(self, sizes: Sequence[Integer]) -> Integer:
        """The product of sizes; the known ones are multiplied first."""
        known = math.prod(size for size in sizes if not isinstance(size, SSAValue))
        computed = [size for size in sizes if isinstance(size, SSAValue)]
        return reduce(self.mul, computed, known)

    def operand(self, value: Argument, type: str) -> SSAValue:
        """`value` as an operand for an argument of ATen's type `type`."""
        match value:
            case SSAValue() if isinstance(value.type, TensorType):
                return self.insert(torch_dialect.FromBuiltinTensorOp(value))
            case SSAValue():
                return value
            case None:
                return self.insert(torch_dialect.ConstantNoneOp())
            case str():
                return self.insert(torch_dialect.ConstantStrOp(value))
            case bool():
                return self.insert(torch_dialect.ConstantBoolOp(value))
            case int() if type.rstrip("?") != "float":
                return self.insert(torch_dialect.ConstantIntOp(value))
            case int() | float():
                return self.insert(torch_dialect.ConstantFloatOp(float(value)))
            case _:
                inner = type.rstrip("?")
                inner = inner[: inner.rindex("[")]
                elements = [self.operand(element, inner) for element in value]
                element_type = torch_dialect.LIST_ELEMENTS[inner]
                return self.insert(
                    torch_dialect.ListConstructOp(elements, element_type)
                )

    def pad(
        self, x: SSAValue, amounts: Sequence[Amounts], fill: float | int
    ) -> SSAValue:
        """`x` padded by static amounts for each dimension; `x` itself if all are 0."""
        if all(amount == Amounts(0, 0) for amount in amounts):
            return x
        return self.insert(
            tcp.PadOp(
                x,
                self.insert(tcp.fill_constant(fill, tensor_type(x).element_type)),
                [amount.lower for amount in amounts],
                [amount.upper for amount in amounts],
                [amount.interior for amount in amounts],
            )
        )

    def slice(
        self, x: SSAValue, dim: int, start: int, stop: int | None, step: int = 1
    ) -> SSAValue:
        """`x[start:stop:step]` along `dim`; negative positions count from the end."""
        if (start, stop, step) == (0, None, 1):
            return x
        type = tensor_type(x)
        shape = list(type.get_shape())
        size = shape[dim]
        if size != DYNAMIC_INDEX:
            shape[dim] = len(range(*slice(start, stop, step).indices(size)))
            if shape[dim] == size:
                return x
        elif start < 0 and stop is None:
            shape[dim] = len(range(start, 0, step))
        elif stop is not None and (start < 0) == (stop < 0):
            shape[dim] = len(range(start, stop, step))
        return self.call(
            "slice.Tensor",
            TensorType(type.element_type, shape),
            self=x,
            dim=dim,
            start=start,
            end=INT64_MAX if stop is None else stop,
            step=step,
        )

    def cat(self, parts: Sequence[SSAValue], dim: int) -> SSAValue:
        """The concatenation of the parts along `dim`."""
        if len(parts) == 1:
            return parts[0]
        types = [tensor_type(part) for part in parts]
        sizes = [type.get_shape()[dim] for type in types]
        # A size that is static in one part holds for all.
        shape = [max(known) for known in zip(*(t.get_shape() for t in types))]
        shape[dim] = DYNAMIC_INDEX if DYNAMIC_INDEX in sizes else sum(sizes)
        result = TensorType(types[0].element_type, shape)
        return self.call("cat", result, tensors=parts, dim=dim)

    def stack(self, parts: Sequence[SSAValue], dim: int) -> SSAValue:
        """Tensors of one type, stacked along a new dimension `dim`."""
        type = tensor_type(parts[0])
        shape = list(type.get_shape())
        shape.insert(dim, len(parts))
        result = TensorType(type.element_type, shape)
        return self.call("stack", result, tensors=parts, dim=dim)

    def flip(self, x: SSAValue, dims: Sequence[int]) -> SSAValue:
        """`x` with the order of elements along `dims` reversed."""
        type = tensor_type(x)
        if all(type.get_shape()[dim] == 1 for dim in dims):
            return x
        return self.call("flip", type, self=x, dims=dims)

    def repeat(self, x: SSAValue, dim: int, times: int) -> SSAValue:
        """`x`, which has one element along `dim`, repeated `times` times."""
        if times == 1:
            return x
        type = tensor_type(x)
        shape = list(type.get_shape())
        repeats = [times if d == dim else 1 for d in range(len(shape))]
        shape[dim] = times
        result = TensorType(type.element_type, shape)
        return self.call("repeat", result, self=x, repeats=repeats)

    def permute(self, x: SSAValue, dims: Sequence[int]) -> SSAValue:
        """Dimension i of the result is dimension `dims[i]` of `x`."""
        if list(dims) == sorted(dims):
            return x
        type = tensor_type(x)
        shape = [type.get_shape()[dim] for dim in dims]
        result = TensorType(type.element_type, shape)
        return self.call("permute", result, self=x, dims=dims)

    def reshape(self, x: SSAValue, shape: Sequence[Integer]) -> SSAValue:
        """
        The same elements under `shape`.

        One size may be `DYNAMIC_INDEX`, if no other is computed.
        """
        type = tensor_type(x)
        result = TensorType(type.element_type, sizes_in_type(shape))
        if type == result and type.get_shape().count(DYNAMIC_INDEX) < 2:
            return x
        if result.get_shape().count(DYNAMIC_INDEX) == 1:
            shape = [
                -1 if size == DYNAMIC_INDEX else size for size in result.get_shape()
            ]
        return self.call("reshape", result, self=x, shape=shape)

    def flatten(self, x: SSAValue, first: int, last: int) -> SSAValue:
        """Dimensions `first` to `last`, both included, as one."""
        type = tensor_type(x)
        shape = list(type.get_shape())
        joined = shape[first : last + 1]
        dynamic = DYNAMIC_INDEX in joined
        shape[first : last + 1] = [DYNAMIC_INDEX if dynamic else math.prod(joined)]
        if shape.count(DYNAMIC_INDEX) < 2:
            return self.reshape(x, shape)
        result = TensorType(type.element_type, shape)
        return self.call(
            "flatten.using_ints", result, self=x, start_dim=first, end_dim=last
        )

    def unsqueeze(self, x: SSAValue, dim: int) -> SSAValue:
        """`x` with a new dimension of one element before `dim`."""
        type = tensor_type(x)
        shape = list(type.get_shape())
        shape.insert(dim, 1)
        result = TensorType(type.element_type, shape)
        return self.call("unsqueeze", result, self=x, dim=dim)

    def select(self, x: SSAValue, dim: int, index: int) -> SSAValue:
        """`x[index]` along `dim`, without that dimension."""
        type = tensor_type(x)
        shape = [size for d, size in enumerate(type.get_shape()) if d != dim]
        result = TensorType(type.element_type, shape)
        return self.call("select.int", result, self=x, dim=dim, index=index)

    def full(
        self, shape: Sequence[Integer], fill: float | int, like: SSAValue
    ) -> SSAValue:
        """A tensor of `shape` and the element type of `like`, all `fill`."""
        element_type = tensor_type(like).element_type
        result = TensorType(element_type, sizes_in_type(shape))
        return self.call("new_full", result, self=like, size=shape, fill_value=fill)

    def literal(self, values: Sequence[int]) -> SSAValue:
        """A constant vector of int64."""
        type = TensorType(IntegerType(64, Signedness.SIGNED), [len(values)])
        value = DenseIntOrFPElementsAttr.from_list(type, values)
        literal = self.insert(torch_dialect.LiteralOp(value))
        return self.insert(torch_dialect.ToBuiltinTensorOp(literal))

    def arange(self, start: Integer, end: Integer) -> SSAValue:
        """The numbers from `start` up to, not including, `end`, as int64."""
        size = DYNAMIC_INDEX
        if isinstance(start, int) and isinstance(end, int):
            size = end - start
        result = TensorType(i64, [size])
        return self.call("arange.start", result, start=start, end=end)

    def index_select(self, x: SSAValue, dim: int, index: SSAValue) -> SSAValue:
        """The elements of `x` at the positions `index` along `dim`."""
        type = tensor_type(x)
        shape = list(type.get_shape())
        (shape[dim],) = tensor_type(index).get_shape()
        result = TensorType(type.element_type, shape)
        return self.call("index_select", result, self=x, dim=dim, index=index)

    def elementwise(self, name: str, x: SSAValue, **arguments: Argument) -> SSAValue:
        """`aten.<name>` of `x` and numbers, which leaves its type as it is."""
        return self.call(name, tensor_type(x), self=x, **arguments)

    def cast(self, x: SSAValue, element_type: Attribute) -> SSAValue:
        """`x` in another element type."""
        type = tensor_type(x)
        if type.element_type == element_type:
            return x
        result = TensorType(element_type, type.get_shape())
        dtype = DTYPE_NUMBERS[describe_element(element_type)]
        return self.call("_to_copy", result, self=x, dtype=dtype)

    def refined(self, x: SSAValue, type: AnyTensor) -> SSAValue:
        """`x` as `type`, which may have static sizes where that of `x` is dynamic."""
        return x if x.type == type else self.call("clone", type, self=x)


def sizes_in_type(shape: Sequence[Integer]) -> list[int]:
    """The sizes as a type has them: `DYNAMIC_INDEX` for those that are computed."""
    return [size if isinstance(size, int) else DYNAMIC_INDEX for size in shape]


def integer_of(amount: Amount) -> Integer | None:
    """The ATen integer that an amount is cast from; None if it is not such a cast."""
    match amount:
        case int():
            return amount
        case SSAValue(
            owner=IndexCastOp(
                input=SSAValue(owner=torch_dialect.ToI64Op(operand=value))
            )
        ):
            return value
        case _:
            return None
