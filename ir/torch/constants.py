"""Constants, as Python values and as tensors."""

from __future__ import annotations

import struct
from typing import Self, cast

from xdsl.dialects.builtin import (
    BoolAttr,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    TensorType,
    f64,
    i64,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    irdl_to_attr_constraint,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from padc.ir.torch.containers import ListConstructOp
from padc.ir.torch.schemas import PythonValue
from padc.ir.torch.types import (
    BoolType,
    DeviceType,
    FloatType,
    IntType,
    NoneType,
    StringType,
    VTensorType,
)


class NotConstantError(Exception):
    """The value is only known at run time."""


@irdl_op_definition
class ConstantIntOp(IRDLOperation):
    """`%int1 = torch.constant.int 1`, a Python int of 64 bits."""

    name = "torch.constant.int"

    value = prop_def(IntegerAttr.constr(i64))
    result = result_def(IntType)

    traits = traits_def(Pure())

    def __init__(self, value: int):
        super().__init__(
            properties={"value": IntegerAttr(value, i64)}, result_types=[IntType()]
        )

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        position = parser.pos
        value = parser.parse_integer(allow_boolean=False)
        if not -(2**63) <= value < 2**63:
            parser.raise_error("expected an integer of 64 bits", position, parser.pos)
        op = cls(value)
        op.attributes = parser.parse_optional_attr_dict()
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.value.value.data}")
        printer.print_op_attributes(self.attributes)


@irdl_op_definition
class ConstantFloatOp(IRDLOperation):
    """
    `%float = torch.constant.float 1.000000e-05`, a Python float.

    Infinities and NaNs are written as their bits: `0x7FF0000000000000`.
    """

    name = "torch.constant.float"

    value = prop_def(FloatAttr.constr(f64))
    result = result_def(FloatType)

    traits = traits_def(Pure())

    def __init__(self, value: float):
        super().__init__(
            properties={"value": FloatAttr(value, f64)}, result_types=[FloatType()]
        )

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        position = parser.pos
        value = parser.parse_number()
        if isinstance(value, int):
            if not 0 <= value < 2**64:
                parser.raise_error(
                    "expected a number with a decimal point, or 64 bits as 0x...",
                    position,
                    parser.pos,
                )
            (value,) = struct.unpack("<d", struct.pack("<Q", value))
        op = cls(value)
        op.attributes = parser.parse_optional_attr_dict()
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_float(self.value.value.data, f64)
        printer.print_op_attributes(self.attributes)


@irdl_op_definition
class ConstantBoolOp(IRDLOperation):
    """`%true = torch.constant.bool true`."""

    name = "torch.constant.bool"

    value = prop_def(BoolAttr)
    result = result_def(BoolType)

    traits = traits_def(Pure())

    def __init__(self, value: bool):
        super().__init__(
            properties={"value": IntegerAttr.from_bool(value)},
            result_types=[BoolType()],
        )

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        op = cls(parser.parse_boolean())
        op.attributes = parser.parse_optional_attr_dict()
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" true" if self.value.value.data else " false")
        printer.print_op_attributes(self.attributes)


@irdl_op_definition
class ConstantNoneOp(IRDLOperation):
    """`%none = torch.constant.none`."""

    name = "torch.constant.none"

    result = result_def(NoneType)

    traits = traits_def(Pure())

    assembly_format = "attr-dict"

    def __init__(self):
        super().__init__(result_types=[NoneType()])


@irdl_op_definition
class ConstantStrOp(IRDLOperation):
    """`%str = torch.constant.str "same"`."""

    name = "torch.constant.str"

    value = prop_def(StringAttr)
    result = result_def(StringType)

    traits = traits_def(Pure())

    assembly_format = "$value attr-dict"

    def __init__(self, value: str):
        super().__init__(
            properties={"value": StringAttr(value)}, result_types=[StringType()]
        )


@irdl_op_definition
class ConstantDeviceOp(IRDLOperation):
    """`%cpu = torch.constant.device "cpu"`."""

    name = "torch.constant.device"

    value = prop_def(StringAttr)
    result = result_def(DeviceType)

    traits = traits_def(Pure())

    assembly_format = "$value attr-dict"

    def __init__(self, value: str):
        super().__init__(
            properties={"value": StringAttr(value)}, result_types=[DeviceType()]
        )


@irdl_op_definition
class LiteralOp(IRDLOperation):
    """
    A constant tensor: a weight stored apart (see `padc.ir.weights`), or a small one.

    The attribute's type has torch's element types, `si64` for int64.

    ```mlir
    %w = torch.vtensor.literal(dense_resource<fc.bias> : tensor<2xf32>)
       : !torch.vtensor<[2],f32>
    ```
    """

    name = "torch.vtensor.literal"

    value = prop_def(
        irdl_to_attr_constraint(DenseResourceAttr | DenseIntOrFPElementsAttr)
    )
    result = result_def(VTensorType)

    traits = traits_def(Pure())

    assembly_format = "`(` $value `)` attr-dict `:` type($result)"

    def __init__(self, value: DenseResourceAttr | DenseIntOrFPElementsAttr):
        super().__init__(
            properties={"value": value}, result_types=[LiteralOp.type_of(value)]
        )

    @staticmethod
    def type_of(value: DenseResourceAttr | DenseIntOrFPElementsAttr) -> VTensorType:
        """The result type of a literal with this value."""
        type: Attribute = value.get_type()
        if not isinstance(type, TensorType):
            raise VerifyException(f"expected a literal of a tensor type, got {type}")
        type = cast(TensorType[Attribute], type)
        return VTensorType.get(type.element_type, tuple(type.get_shape()))

    def verify_(self) -> None:
        expected = LiteralOp.type_of(self.value)
        if self.result.type != expected:
            raise VerifyException(f"expected {expected}, got {self.result.type}")


def constant_value(value: SSAValue) -> PythonValue:
    """
    The Python value of `torch.constant.*`, or of a list of these.

    Raises NotConstantError if the value is only known at run time.
    """
    match value.owner:
        case ConstantIntOp(value=attribute):
            return attribute.value.data
        case ConstantFloatOp(value=attribute):
            return attribute.value.data
        case ConstantBoolOp(value=attribute):
            return bool(attribute.value.data)
        case ConstantStrOp(value=attribute) | ConstantDeviceOp(value=attribute):
            return attribute.data
        case ConstantNoneOp():
            return None
        case ListConstructOp(elements=elements):
            return [constant_value(element) for element in elements]
        case _:
            raise NotConstantError(f"{value.type} is not a constant")
