"""An ATen op with complex operands or results, and the table of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, cast

import numpy as np
from xdsl.dialects.builtin import (
    ComplexType,
    DenseResourceAttr,
    TensorType,
    f16,
    f32,
    f64,
)
from xdsl.ir import Attribute, Operation, SSAValue

from padc.errors import Obstacle
from padc.ir.torch import (
    Argument,
    AtenOp,
    ConstantFloatOp,
    ConstantIntOp,
    ConstantNoneOp,
    FromBuiltinTensorOp,
    ListConstructOp,
    ListType,
    LiteralOp,
    NoneType,
    ToBuiltinTensorOp,
    VTensorType,
    aten_op,
    builtin_type,
    constant_value,
)
from padc.ir.torch.dtypes import DTYPE_NUMBERS
from padc.ir.weights import Array, Weights, numpy_dtype
from padc.passes.aten.aten_call import AtenCall
from padc.passes.aten.builder import AtenBuilder
from padc.passes.common.lowering import LoweringTable
from padc.passes.complex.numbers import Complex, RealTensor

Lists: TypeAlias = "tuple[SSAValue, SSAValue | None]"
"""A list of real parts, and one of imaginary parts; None if these are 0."""


@dataclass
class Split:
    """The parts of the complex tensors of a module, while they are being split."""

    weights: Weights
    parts: dict[SSAValue, Complex] = field(default_factory=dict[SSAValue, Complex])
    """The parts of each complex value."""
    lists: dict[SSAValue, Lists] = field(default_factory=dict[SSAValue, Lists])
    """The lists of parts of each result that is a list of complex tensors."""
    constants: dict[Any, SSAValue] = field(default_factory=dict[Any, SSAValue])
    """Constants that rows have made, by key."""


@dataclass(frozen=True)
class ComplexCall(AtenCall):
    """An ATen op with complex operands or results."""

    build: AtenBuilder
    split: Split

    def insert(self, op: Operation) -> SSAValue:
        return self.build.insert(op)

    # --- tensors ----------------------------------------------------------------

    def complex(self, name: str) -> Complex:
        """A tensor argument, in the precision of the result."""
        z = self.as_complex(self.op.arg(name))
        type = self.real_type()
        return Complex(z.real.cast(type), None if z.imag is None else z.imag.cast(type))

    def real(self, name: str) -> RealTensor:
        """A tensor argument that is real, in the precision of the result."""
        return self.as_real(self.op.arg(name)).cast(self.real_type())

    def as_complex(self, x: SSAValue) -> Complex:
        """A value of the torch dialect, real or complex."""
        if not is_complex(x.type):
            return Complex(self.as_real(x))
        z = self.split.parts[x]
        # New ops go before this op, not before the one that made the parts.
        real = replace(z.real, build=self.build)
        imag = None if z.imag is None else replace(z.imag, build=self.build)
        return Complex(real, imag)

    def as_real(self, x: SSAValue) -> RealTensor:
        """A real value of the torch dialect."""
        return RealTensor(self.builtin(x), self.build)

    def complex_number(self, name: str) -> complex | None:
        """A known number, which may be complex; None if the argument is a tensor."""
        x = self.op.arg(name)
        if not isinstance(x.type, VTensorType):
            return complex(self.number(name))
        if self.op.schema.arguments[self.op.schema.positions[name]].type == "Tensor":
            return None
        data = self.data_of(x)
        return None if data is None else complex(data.item())

    def complex_operand(self, name: str) -> Complex:
        """A tensor argument, or a number as a tensor."""
        if isinstance(self.op.arg(name).type, VTensorType):
            return self.complex(name)
        number = self.number(name)
        type = numpy_dtype(self.real_type())
        key = ("number", repr(number), self.real_type())
        return Complex(self.literal(key, np.asarray(number, type)))

    def values(self, name: str) -> list[SSAValue]:
        """The tensors of an argument: a tensor, or a list of them."""
        x = self.op.arg(name)
        return [*x.owner.elements] if isinstance(x.owner, ListConstructOp) else [x]

    def is_complex(self, name: str) -> bool:
        return is_complex(self.op.arg(name).type)

    def real_type(self, index: int = 0) -> Attribute:
        """The element type of a result's parts."""
        return part_type(self.result_type(index).element_type)

    def integers(self, name: str) -> list[int]:
        """A list of known integers, or a single one."""
        value = self.constant(name)
        values = value if isinstance(value, list) else [value]
        return [each for each in values if isinstance(each, int)]

    # --- the same op on other tensors -------------------------------------------

    def clone(
        self,
        part: Callable[[str, SSAValue], RealTensor | None],
        *,
        is_imag: bool = False,
    ) -> RealTensor:
        """
        This op on `part(name, x)` for each tensor `x`, an element of argument `name`.

        The argument is left out if that is None. With `is_imag`, numbers among the
        elements of the result become their imaginary parts.
        """
        made = self.insert(self.cloned(part, is_imag))
        return RealTensor(self.insert(ToBuiltinTensorOp(made)), self.build)

    def clone_list(self, part: Callable[[str, SSAValue], RealTensor]) -> SSAValue:
        """The same for an op whose result is no tensor: a list, or a size."""
        return self.insert(self.cloned(part, False))

    def cloned(
        self, part: Callable[[str, SSAValue], RealTensor | None], is_imag: bool
    ) -> AtenOp:
        operands = [
            self.argument(argument, self.op.arg(argument.name), part, is_imag)
            for argument in self.op.schema.arguments
        ]
        types = [real_tensor(type) for type in self.op.result_types]
        return aten_op(self.op.schema.name, operands, types)

    def argument(
        self,
        argument: Argument,
        x: SSAValue,
        part: Callable[[str, SSAValue], RealTensor | None],
        is_imag: bool,
    ) -> SSAValue:
        """An argument of the same op on other tensors."""
        is_number = argument.type == "Scalar" or argument.name == "value"
        if is_number and argument.type != "Tensor":
            return self.number_part(argument, x, is_imag)
        if isinstance(x.type, VTensorType):
            made = part(argument.name, x)
            return self.insert(
                ConstantNoneOp() if made is None else FromBuiltinTensorOp(made.value)
            )
        if isinstance(list_ := x.owner, ListConstructOp) and any(
            isinstance(each.type, VTensorType) for each in list_.elements
        ):
            elements = [
                self.argument(argument, each, part, is_imag) for each in list_.elements
            ]
            assert isinstance(list_.result.type, ListType)
            return self.insert(
                ListConstructOp(elements, list_.result.type.element_type)
            )
        if argument.type.rstrip("?") == "ScalarType":
            return self.real_dtype(x)
        return x

    def number_part(self, argument: Argument, x: SSAValue, is_imag: bool) -> SSAValue:
        """A part of a number among the elements of the result; factors are whole."""
        if argument.name in FACTORS:
            if is_complex(x.type):
                raise Obstacle(f"{argument.name} is complex", "multiply by it before")
            return x
        if is_complex(x.type):
            data = self.data_of(x)
            assert data is not None
            number = complex(data.item())
            return self.insert(ConstantFloatOp(number.imag if is_imag else number.real))
        if is_imag and not isinstance(x.type, NoneType):
            return self.insert(ConstantFloatOp(0.0))
        return x

    def real_dtype(self, x: SSAValue) -> SSAValue:
        """The number of a dtype; of a complex one, that of its parts."""
        number = constant_value(x)
        real = REAL_DTYPES.get(number) if isinstance(number, int) else None
        return x if real is None else self.insert(ConstantIntOp(real))

    def replace(self, old: SSAValue, new: RealTensor) -> None:
        """Use a real tensor in place of a value of the torch dialect."""
        assert isinstance(old.type, VTensorType)
        type = builtin_type(old.type)
        value = new.cast(type.element_type).spread(type.get_shape()).value
        cast = self.insert(FromBuiltinTensorOp(value))
        cast.name_hint = old.name_hint
        old.replace_all_uses_with(cast)

    # --- constants --------------------------------------------------------------

    def literal(self, key: Any, array: Array) -> RealTensor:
        """A constant that the weights hold; one for all uses of the same `key`."""
        constants = self.split.constants
        if key not in constants:
            name = self.split.weights.add(str(key[0]), np.ascontiguousarray(array))
            element = FLOATS[array.dtype]
            value = DenseResourceAttr.from_params(
                name, TensorType(element, array.shape)
            )
            literal = self.insert(LiteralOp(value))
            constants[key] = self.insert(ToBuiltinTensorOp(literal))
        return RealTensor(constants[key], self.build)

    def matrix(self, key: Any, array: Callable[[], Array]) -> RealTensor:
        """A constant in the precision of the result, computed at first use."""
        type = self.real_type()
        key = (*key, type)
        if key in self.split.constants:
            return RealTensor(self.split.constants[key], self.build)
        return self.literal(key, array().astype(numpy_dtype(type)))

    def data(self, name: str) -> Array | None:
        """The data of a tensor argument, if that is a constant."""
        return self.data_of(self.op.arg(name))

    def data_of(self, x: SSAValue) -> Array | None:
        """The data of a constant, also after ops that keep it; else None."""
        match x.owner:
            case LiteralOp(value=value):
                return self.split.weights.array(value)
            case FromBuiltinTensorOp(operand=y) | ToBuiltinTensorOp(operand=y):
                return self.data_of(y)
            case AtenOp(schema=schema) as op if schema.name in UNCHANGED:
                return self.data_of(op.operands[0])
            case AtenOp(schema=schema) as op if schema.name == "aten.ones":
                assert isinstance(x.type, VTensorType)
                return np.ones(x.type.get_shape())
            case _:
                return None


FACTORS = ("alpha", "beta")
"""Numbers that multiply both parts of a tensor."""

UNCHANGED = {
    f"aten.{name}"
    for name in (
        *("_to_copy", "to.dtype", "to.device", "to.dtype_layout", "clone", "alias"),
        *("contiguous", "detach", "lift_fresh_copy", "lift_fresh"),
    )
}
"""Ops on windows that leave their numbers as they are."""

FLOATS = {numpy_dtype(type): type for type in (f16, f32, f64)}


REAL_DTYPES = {
    DTYPE_NUMBERS[f"complex{2 * bits}"]: DTYPE_NUMBERS[f"float{bits}"]
    for bits in (16, 32, 64)
}
"""PyTorch's number of the real dtype, by the number of the complex dtype."""


def is_complex(type: Attribute) -> bool:
    """Whether a type is that of a complex tensor."""
    return isinstance(type, VTensorType) and isinstance(type.element_type, ComplexType)


def real_tensor(type: Attribute) -> Attribute:
    """The type of the parts of a complex tensor; other types unchanged."""
    if not isinstance(type, VTensorType):
        return type
    return VTensorType.get(part_type(type.element_type), type.get_shape())


def part_type(type: Attribute) -> Attribute:
    """The type of the parts of a complex type; a real type unchanged."""
    if isinstance(type, ComplexType):
        return cast(Attribute, type.element_type)  # pyright: ignore[reportUnknownMemberType]
    return type


Made: TypeAlias = Complex | RealTensor
"""The result of a row."""

Row: TypeAlias = Callable[[ComplexCall], Made | Sequence[Made] | None]
"""Builds what replaces an op's results; None if it has replaced them itself."""

ROWS = LoweringTable[str, Row]()
"""By the names of ATen schemas."""

row = ROWS.lowers
