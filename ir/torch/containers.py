"""Lists and tuples of values."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, NoneAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from padc.ir.torch.types import (
    AnyType,
    BoolType,
    FloatType,
    IntType,
    ListType,
    NoneType,
    NumberType,
    OptionalType,
    TupleType,
    VTensorType,
)


def is_subtype(type: Attribute, other: Attribute) -> bool:
    """Whether each value of `type` is one of `other`."""
    if type == other:
        return True
    match other:
        case AnyType():
            return True
        case OptionalType():
            if isinstance(type, OptionalType):
                type = type.element_type
            return isinstance(type, NoneType) or is_subtype(type, other.element_type)
        case NumberType():
            return isinstance(type, IntType | FloatType | BoolType)
        case ListType():
            return isinstance(type, ListType) and is_subtype(
                type.element_type, other.element_type
            )
        case VTensorType():
            return isinstance(type, VTensorType) and all(
                isinstance(b, NoneAttr) or a == b
                for a, b in zip(type.parameters, other.parameters, strict=True)
            )
        case _:
            return False


@irdl_op_definition
class ListConstructOp(IRDLOperation):
    """
    A list of the operands.

    ```mlir
    %l = torch.prim.ListConstruct %a, %b : (!torch.int, !torch.int) -> !torch.list<int>
    ```
    """

    name = "torch.prim.ListConstruct"

    elements = var_operand_def()
    result = result_def(ListType)

    traits = traits_def(Pure())

    assembly_format = "$elements attr-dict `:` functional-type(operands, results)"

    def __init__(self, elements: Sequence[SSAValue], element_type: Attribute):
        super().__init__(operands=[elements], result_types=[ListType(element_type)])

    def verify_(self) -> None:
        expected = self.result.type.element_type
        for type in self.elements.types:
            if not is_subtype(type, expected):
                raise VerifyException(f"a list of {expected} has an element of {type}")


@irdl_op_definition
class ListUnpackOp(IRDLOperation):
    """
    The elements of a list, whose length is the number of results.

    ```mlir
    %a, %b = torch.prim.ListUnpack %l : !torch.list<int> -> !torch.int, !torch.int
    ```
    """

    name = "torch.prim.ListUnpack"

    operand = operand_def(ListType)
    elements = var_result_def()

    traits = traits_def(Pure())

    assembly_format = "$operand attr-dict `:` type($operand) `->` type($elements)"

    def __init__(self, operand: SSAValue, types: Sequence[Attribute]):
        super().__init__(operands=[operand], result_types=[types])

    def verify_(self) -> None:
        if isinstance(made := self.operand.owner, ListConstructOp) and (
            len(made.elements) != len(self.elements)
        ):
            raise VerifyException(
                f"a list of {len(made.elements)} elements is unpacked to "
                f"{len(self.elements)}"
            )


@irdl_op_definition
class TupleConstructOp(IRDLOperation):
    """
    A tuple of the operands.

    ```mlir
    %t = torch.prim.TupleConstruct %a, %b : !torch.int, !torch.str
       -> !torch.tuple<int, str>
    ```
    """

    name = "torch.prim.TupleConstruct"

    elements = var_operand_def()
    result = result_def(TupleType)

    traits = traits_def(Pure())

    assembly_format = "$elements attr-dict `:` type($elements) `->` type($result)"

    def __init__(self, elements: Sequence[SSAValue]):
        types = ArrayAttr(element.type for element in elements)
        super().__init__(operands=[elements], result_types=[TupleType(types)])
