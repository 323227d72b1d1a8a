"""Branches and loops, whose regions use values from around them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self, TypeVar

from xdsl.dialects.builtin import DYNAMIC_INDEX, NoneAttr
from xdsl.ir import Attribute, Operation, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    lazy_traits_def,
    operand_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import HasParent, IsTerminator, Pure, RecursiveMemoryEffect
from xdsl.utils.exceptions import VerifyException

from padc.ir.torch.types import BoolType, IntType, VTensorType

Op = TypeVar("Op", bound=Operation)


@irdl_op_definition
class IfYieldOp(IRDLOperation):
    """Ends a branch of `torch.prim.If`, and gives the results of that op."""

    name = "torch.prim.If.yield"

    values = var_operand_def()

    traits = lazy_traits_def(lambda: (HasParent(IfOp), IsTerminator(), Pure()))

    assembly_format = "attr-dict ($values^ `:` type($values))?"

    def __init__(self, values: Sequence[SSAValue]):
        super().__init__(operands=[values])


@irdl_op_definition
class IfOp(IRDLOperation):
    """
    The results of one of two branches.

    ```mlir
    %y = torch.prim.If %c -> (!torch.vtensor<[2],f32>) {
      torch.prim.If.yield %x : !torch.vtensor<[2],f32>
    } else {
      %z = torch.aten.relu %x : !torch.vtensor<[2],f32> -> !torch.vtensor<[2],f32>
      torch.prim.If.yield %z : !torch.vtensor<[2],f32>
    }
    ```
    """

    name = "torch.prim.If"

    condition = operand_def(BoolType)
    outputs = var_result_def()
    on_true = region_def("single_block")
    on_false = region_def("single_block")

    traits = traits_def(RecursiveMemoryEffect())

    def __init__(
        self,
        condition: SSAValue,
        result_types: Sequence[Attribute],
        on_true: Region,
        on_false: Region,
    ):
        super().__init__(
            operands=[condition],
            result_types=[result_types],
            regions=[on_true, on_false],
        )

    def verify_(self) -> None:
        for region in (self.on_true, self.on_false):
            end = terminator(self, region, IfYieldOp)
            if region.block.args:
                raise VerifyException(f"a branch of {self.name} takes no arguments")
            check_types(self, "branch", end.operand_types, self.result_types)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        condition = parser.parse_unresolved_operand()
        parser.parse_punctuation("->")
        types = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, parser.parse_type
        )
        on_true = parser.parse_region()
        parser.parse_keyword("else")
        on_false = parser.parse_region()
        attributes = parser.parse_optional_attr_dict()
        op = cls(
            parser.resolve_operand(condition, BoolType()), types, on_true, on_false
        )
        op.attributes = attributes
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.condition)
        printer.print_string(" -> ")
        with printer.in_parens():
            printer.print_list(self.result_types, printer.print_attribute)
        printer.print_string(" ")
        printer.print_region(self.on_true)
        printer.print_string(" else ")
        printer.print_region(self.on_false)
        printer.print_op_attributes(self.attributes)


@irdl_op_definition
class LoopConditionOp(IRDLOperation):
    """Ends the body of `torch.prim.Loop`: whether to run it again, on which values."""

    name = "torch.prim.Loop.condition"

    condition = operand_def(BoolType)
    values = var_operand_def()

    traits = lazy_traits_def(lambda: (HasParent(LoopOp), IsTerminator(), Pure()))

    assembly_format = (
        "$condition `,` `iter` `(` ($values^ `:` type($values))? `)` attr-dict"
    )

    def __init__(self, condition: SSAValue, values: Sequence[SSAValue]):
        super().__init__(operands=[condition, values])


@irdl_op_definition
class LoopOp(IRDLOperation):
    """
    A body that runs while its condition holds, `most` times at most.

    The body takes the number of the iteration and the carried values. The results are
    the values that the last iteration carries on.

    ```mlir
    %y = torch.prim.Loop %int5, %true, init(%x) {
    ^bb0(%i: !torch.int, %v: !torch.vtensor<[2],f32>):
      %w = torch.aten.relu %v : !torch.vtensor<[2],f32> -> !torch.vtensor<[2],f32>
      torch.prim.Loop.condition %true, iter(%w : !torch.vtensor<[2],f32>)
    } : (!torch.int, !torch.bool, !torch.vtensor<[2],f32>) -> !torch.vtensor<[2],f32>
    ```
    """

    name = "torch.prim.Loop"

    most = operand_def(IntType)
    condition = operand_def(BoolType)
    initial = var_operand_def()
    outputs = var_result_def()
    body = region_def("single_block")

    traits = traits_def(RecursiveMemoryEffect())

    def __init__(
        self,
        most: SSAValue,
        condition: SSAValue,
        initial: Sequence[SSAValue],
        result_types: Sequence[Attribute],
        body: Region,
    ):
        super().__init__(
            operands=[most, condition, initial],
            result_types=[result_types],
            regions=[body],
        )

    @property
    def end(self) -> LoopConditionOp:
        """The terminator of the body."""
        return terminator(self, self.body, LoopConditionOp)

    def verify_(self) -> None:
        types = self.result_types
        check_types(self, "op", [value.type for value in self.initial], types)
        arguments = [argument.type for argument in self.body.block.args]
        check_types(self, "body", arguments, [IntType(), *types])
        carried = [value.type for value in self.end.values]
        check_types(self, "body", carried, types)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        most = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        condition = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        parser.parse_keyword("init")
        initial = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, parser.parse_unresolved_operand
        )
        body = parser.parse_region()
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        position = parser.pos
        type = parser.parse_function_type()
        operands = parser.resolve_operands(
            [most, condition, *initial], type.inputs.data, position
        )
        return cls.create(
            operands=operands,
            result_types=type.outputs.data,
            regions=[body],
            attributes=attributes,
            properties={},
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list((self.most, self.condition), printer.print_ssa_value)
        printer.print_string(", init")
        with printer.in_parens():
            printer.print_list(self.initial, printer.print_ssa_value)
        printer.print_string(" ")
        printer.print_region(self.body)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_function_type(self.operand_types, self.result_types)


def terminator(parent: Operation, region: Region, kind: type[Op]) -> Op:
    """The last op of a region; VerifyException if it is of another kind."""
    last = region.block.last_op
    if not isinstance(last, kind):
        raise VerifyException(f"a region of {parent.name} ends in '{kind.name}'")
    return last


def check_types(
    op: Operation, where: str, given: Sequence[Attribute], expected: Sequence[Attribute]
) -> None:
    """Raise VerifyException unless a region has values of the types expected."""
    if len(given) != len(expected) or not all(map(may_be, given, expected)):
        raise VerifyException(
            f"{op.name} expects its {where} to have ({types_text(expected)}), got "
            f"({types_text(given)})"
        )


def may_be(type: Attribute, other: Attribute) -> bool:
    """Whether a value of one type may be one of another, as far as sizes are known."""
    if not isinstance(type, VTensorType) or not isinstance(other, VTensorType):
        return type == other
    if NoneAttr() in (type.shape, other.shape, type.element_type, other.element_type):
        return True
    m, n = type.get_shape(), other.get_shape()
    return (
        type.element_type == other.element_type
        and len(m) == len(n)
        and all(i == j or DYNAMIC_INDEX in (i, j) for i, j in zip(m, n))
    )


def types_text(types: Sequence[Attribute]) -> str:
    return ", ".join(map(str, types))
