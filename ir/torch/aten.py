"""
ATen's ops. None is written by hand.

Each schema in `aten_schemas.txt` declares one op, with one operand per argument, in
order: an `AtenOp`. Ops that torch-mlir does not register are written
`torch.operator "torch.aten.<name>"`. Both have the same Python interface.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import ClassVar, Self

from xdsl.dialects.builtin import LocationAttr, StringAttr
from xdsl.ir import Attribute, Operation, OpTraits, SSAValue
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import EffectInstance, MemoryEffect, MemoryEffectKind
from xdsl.utils.exceptions import VerifyException

from padc.ir.torch.constants import ConstantIntOp, NotConstantError, constant_value
from padc.ir.torch.dtypes import LAST_NUMBERS
from padc.ir.torch.schemas import Argument, PythonValue, Schema, declarations, fits


class AtenEffects(MemoryEffect):
    """Ops without results are assertions; random ones advance a generator."""

    @classmethod
    def get_effects(cls, op: Operation) -> set[EffectInstance] | None:
        assert isinstance(op, AtenOp)
        return {EffectInstance(MemoryEffectKind.WRITE)} if op.has_effect else set()


class AtenOp(Operation):
    """
    An op of ATen: an operand for each argument of `schema`, a result for each return.

    ```mlir
    %y = torch.aten.relu %x : !torch.vtensor<[2],f32> -> !torch.vtensor<[2],f32>
    ```
    """

    declaration: ClassVar[str]
    """The op's line in `aten_schemas.txt`."""

    traits = OpTraits(lambda: (AtenEffects(),))

    @property
    def schema(self) -> Schema:
        """The schema of this op."""
        return Schema.parse(self.declaration)

    @property
    def has_effect(self) -> bool:
        """Whether the op draws random numbers, or only checks something."""
        return "~" in self.declaration[:2] or not self.results

    @property
    def inputs(self) -> Sequence[SSAValue]:
        """The operands, one for each argument of the schema."""
        return self.operands

    @property
    def outputs(self) -> Sequence[SSAValue]:
        """The results, one for each return of the schema."""
        return self.results

    def arg(self, name: str) -> SSAValue:
        """The operand for the argument `name`."""
        return self.operands[self.schema.positions[name]]

    def constant(self, name: str) -> PythonValue:
        """The argument `name` as a Python value; `NotConstantError` if computed."""
        return constant_value(self.arg(name))

    def is_constant(self, name: str) -> bool:
        """Whether the argument `name` is a constant."""
        try:
            self.constant(name)
        except NotConstantError:
            return False
        return True

    def verify_(self) -> None:
        schema = self.schema
        for values, declared, what in (
            (self.operands, schema.arguments, "operand"),
            (self.results, schema.returns, "result"),
        ):
            if len(values) != len(declared):
                names = ", ".join(
                    argument.name or argument.type for argument in declared
                )
                raise VerifyException(
                    f"{schema.name} expects {len(declared)} {what}s ({names}), "
                    f"got {len(values)}; write out arguments that have a default"
                )
            for index, (value, argument) in enumerate(zip(values, declared)):
                if not fits(value.type, argument.type):
                    raise VerifyException(
                        f"{schema.name} expects {what} {index} "
                        f"({argument.name or 'unnamed'}) to be {argument.type}, "
                        f"got {value.type}"
                    )
        for operand, argument in zip(self.operands, schema.arguments):
            if (kind := argument.type.rstrip("?")) not in LAST_NUMBERS:
                continue
            match operand.owner:
                case ConstantIntOp(value=attribute):
                    number = attribute.value.data
                    what, last = LAST_NUMBERS[kind]
                    # PyTorch takes others for places in a table, and may crash.
                    if not 0 <= number <= last:
                        raise VerifyException(
                            f"{schema.name} expects {argument.name} to be a {what}, "
                            f"0 to {last}, got {number}"
                        )
                case _:
                    pass

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        schema = Schema.parse(cls.declaration)
        operands: list[UnresolvedOperand] = []
        if schema.arguments:
            operands = parser.parse_comma_separated_list(
                parser.Delimiter.NONE, parser.parse_unresolved_operand
            )
        attributes = parser.parse_optional_attr_dict()
        types: list[Attribute] = []
        position = parser.pos
        if schema.arguments:
            parser.parse_punctuation(":")
            types = parser.parse_comma_separated_list(
                parser.Delimiter.NONE, parser.parse_type
            )
        result_types: list[Attribute] = []
        if schema.returns:
            parser.parse_punctuation("->")
            result_types = parser.parse_comma_separated_list(
                parser.Delimiter.NONE, parser.parse_type
            )
        return cls.create(
            operands=parser.resolve_operands(operands, types, position),
            result_types=result_types,
            attributes=attributes,
        )

    def print(self, printer: Printer) -> None:
        if self.operands:
            printer.print_string(" ")
            printer.print_list(self.operands, printer.print_ssa_value)
        printer.print_op_attributes(self.attributes)
        if self.operands:
            printer.print_string(" : ")
            printer.print_list(self.operand_types, printer.print_attribute)
        if self.results:
            printer.print_string(" -> ")
            printer.print_list(self.result_types, printer.print_attribute)


class OperatorOp(AtenOp):
    """
    An op that torch-mlir does not register, with its name written out.

    If `aten_schemas.txt` does not list the op either, its schema is inferred from its
    operands and results, with arguments named "0", "1" and so on.

    ```mlir
    %y = torch.operator "torch.aten.special_erfcx"(%x) : (!torch.vtensor<[2],f32>)
       -> !torch.vtensor<[2],f32>
    ```
    """

    name = "torch.operator"

    @property
    def operator_name(self) -> str:
        """`torch.aten.erfcx`."""
        name = self.properties["name"]
        assert isinstance(name, StringAttr)
        return name.data

    @property
    def is_known(self) -> bool:
        """Whether `aten_schemas.txt` has this op."""
        return self.operator_name.removeprefix("torch.") in declarations()

    @property
    def has_effect(self) -> bool:
        return not self.is_known or super().has_effect

    @property
    def declaration(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return declarations()[self.operator_name.removeprefix("torch.")]

    @property
    def schema(self) -> Schema:
        if self.is_known:
            return super().schema
        return Schema(
            self.operator_name.removeprefix("torch."),
            tuple(Argument(str(i), "Any") for i in range(len(self.operands))),
            tuple(Argument("", "Any") for _ in self.results),
        )

    def verify_(self) -> None:
        if not isinstance(self.properties.get("name"), StringAttr):
            raise VerifyException("torch.operator expects an op's name as a string")
        super().verify_()

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        name = parser.parse_str_literal()
        operands = parser.parse_op_args_list()
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        position = parser.pos
        type = parser.parse_function_type()
        return cls.create(
            operands=parser.resolve_operands(operands, type.inputs.data, position),
            result_types=type.outputs.data,
            properties={"name": StringAttr(name)},
            attributes=attributes,
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_string_literal(self.operator_name)
        printer.print_operands(self.operands)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_function_type(self.operand_types, self.result_types)


@functools.cache
def op_class(name: str) -> type[AtenOp]:
    """The op class for a schema name."""
    declaration = declarations().get(name, "!")
    if declaration.startswith("!"):
        return OperatorOp
    class_name = "".join(map(str.capitalize, re.split(r"[._]", name))) + "Op"
    namespace = {
        "name": f"torch.{name}",
        "declaration": declaration,
        "__module__": __name__,
    }
    return type(class_name, (AtenOp,), namespace)


def aten_op(
    name: str,
    operands: Sequence[SSAValue],
    result_types: Sequence[Attribute],
    location: LocationAttr | None = None,
) -> AtenOp:
    """An op by the name of its schema, "aten.conv2d.padding"."""
    cls = op_class(name)
    named = {"name": StringAttr(f"torch.{name}")} if cls is OperatorOp else {}
    return cls.create(
        operands=operands,
        result_types=result_types,
        properties=named,
        location=location,
    )


def op_classes() -> frozenset[type[AtenOp]]:
    """The classes of all registered ops."""
    return frozenset(map(op_class, declarations())) - {OperatorOp}
