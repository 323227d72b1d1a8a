"""
The `mil` dialect: the ops of Core ML's model intermediate language, on tensors.

No op is declared by hand. `mil_ops.txt`, which `tools/update_mil_ops.py` writes
from coremltools' registry, lists every op with its inputs. Each becomes a subclass of
`MilOp`; one parser, printer and verifier serve all:

```mlir
%y = mil.conv(x = %x, weight = %w, strides = [1, 1], pad_type = "custom",
              pad = [0, 0, 0, 0])
   : (tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x6x6xf32>
```

An input is an SSA value, a tuple of them (`values = [%a, %b]`) or a constant. A
constant has the element type that Core ML expects there, so plain integers stand for
every integer type, and plain floats for fp16 and fp32. i64 tensors are allowed where
int32 is: PyTorch's int64 becomes Core ML's int32.

A state, which a program keeps between predictions, is an argument of the function:

```mlir
func.func @main(%cache: !mil.state<tensor<1x8xf16>>) -> tensor<1x8xf16> {
  %old = mil.read_state(input = %cache) : (!mil.state<tensor<1x8xf16>>)
     -> tensor<1x8xf16>
```

`mil.cond` and `mil.while_loop` have blocks, which use values from around them:

```mlir
%y = mil.cond(pred = %p) : (tensor<i1>) -> tensor<2xf32> {
  mil.yield %x : tensor<2xf32>
} {
  %z = mil.relu(x = %x) : (tensor<2xf32>) -> tensor<2xf32>
  mil.yield %z : tensor<2xf32>
}
```

Some ops have a new definition in a later iOS version. An op is valid if any version
defines this form of it; `MilOp.check(target)` asks about one version.
"""

from __future__ import annotations

import abc
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, cast

import numpy as np
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ArrayAttr,
    DictionaryAttr,
    StringAttr,
    TensorType,
    i1,
)
from xdsl.ir import (
    Attribute,
    Dialect,
    Operation,
    OpTrait,
    Region,
    SSAValue,
)
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    prop_def,
    traits_def,
    var_operand_def,
    var_region_def,
    var_result_def,
)
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import IsTerminator, Pure, RecursiveMemoryEffect
from xdsl.utils.exceptions import VerifyException

from padc.errors import Obstacle
from padc.ir.mil_forms import (
    DECLARED,
    MAX_RANK,
    Form,
    Lines,
    forms_of,
    newest_form,
)
from padc.ir.mil_types import (
    Constant,
    StateType,
    constant_attr,
    constant_of,
    constant_types,
    element_types,
    print_constant,
)
from padc.ir.targets import TARGETS
from padc.ir.type_tests import is_tensor


class MilOp(IRDLOperation):
    """An op of Core ML. `arguments` are its SSA inputs, named by `argument_names`."""

    arguments = var_operand_def()
    argument_names = prop_def(ArrayAttr[StringAttr])
    """The input of each operand; the name of a tuple is repeated."""
    constants = prop_def(DictionaryAttr)
    """The constant inputs, by name."""
    outputs = var_result_def(TensorType)

    FORMS: ClassVar[Lines]
    """The op's forms as (target, text), oldest first."""
    HAS_BLOCKS: ClassVar[bool] = False

    def __init__(
        self,
        arguments: Sequence[SSAValue],
        argument_names: Sequence[str],
        constants: Mapping[str, Attribute],
        result_types: Sequence[Attribute],
        attributes: Mapping[str, Attribute] | None = None,
        *blocks: Region,
    ):
        super().__init__(
            operands=[arguments],
            result_types=[result_types],
            regions=[blocks] if self.HAS_BLOCKS else [],
            properties={
                "argument_names": ArrayAttr(map(StringAttr, argument_names)),
                "constants": DictionaryAttr(constants),
            },
            attributes=attributes or {},
        )

    @classmethod
    def form(cls, target: str) -> Form | None:
        """The op's definition in `target`, one of `TARGETS`; None if it has none."""
        return newest_form(cls.FORMS, target)

    def is_variadic(self, name: str) -> bool:
        """Whether some form of the op has an input `name` that is a tuple."""
        return any(
            name in form.inputs and form.inputs[name].variadic
            for form in forms_of(self.FORMS)
        )

    def ssa_inputs(self) -> dict[str, list[SSAValue]]:
        """The values of each input that is not a constant."""
        inputs: dict[str, list[SSAValue]] = {}
        for name, value in zip(self.argument_names, self.arguments, strict=True):
            inputs.setdefault(name.data, []).append(value)
        return inputs

    def input(self, name: str) -> SSAValue | tuple[SSAValue, ...] | Constant | None:
        """An input as value, tuple of values or Python constant; None if not given."""
        if (values := self.ssa_inputs().get(name)) is not None:
            return tuple(values) if self.is_variadic(name) else values[0]
        if (attribute := self.constants.data.get(name)) is not None:
            return constant_of(attribute)
        return None

    def verify_(self) -> None:
        if len(self.argument_names) != len(self.arguments):
            raise VerifyException(
                f"{self.name} has {len(self.arguments)} operands "
                f"and {len(self.argument_names)} names for them"
            )
        for value in (*self.arguments, *self.outputs):
            if isinstance(type_ := value.type, TensorType):
                if type_.get_num_dims() > MAX_RANK:
                    raise VerifyException(
                        f"{self.name} has a value of type {type_}; Core ML's "
                        f"tensors have rank {MAX_RANK} at most: join dimensions"
                    )
        self._check_some_form()
        self._check_dims()
        self._check_cast()

    def _check_some_form(self) -> None:
        *older, newest = forms_of(self.FORMS)
        try:
            self._check_form(newest)
        except VerifyException:
            for form in older:
                try:
                    return self._check_form(form)
                except VerifyException:
                    pass
            raise

    def _check_dims(self) -> None:
        """Check constants that name dimensions of a computed tensor."""
        given = self.ssa_inputs()
        name = next(
            (x for x in WITH_DIMS if x in given or x in self.constants.data), ""
        )
        if name not in given or not is_tensor(type_ := given[name][0].type):
            return
        rank = type_.get_num_dims() + NEW_DIMS.get(self.name, 0)
        for name in ("axis", "axes", "perm"):
            if (attribute := self.constants.data.get(name)) is None:
                continue
            dims = np.array(constant_of(attribute)).reshape(-1).tolist()
            if self.name == "mil.expand_dims":
                rank += len(dims)
            wrong = [dim for dim in dims if not -rank <= dim < rank]
            if wrong:
                raise VerifyException(
                    f"{self.name} has {wrong[0]} in '{name}', of {rank} dimensions"
                )
            if len({dim % rank for dim in dims}) < len(dims):
                raise VerifyException(f"{self.name} has a dimension twice in '{name}'")
            if name == "perm" and len(dims) != rank:
                raise VerifyException(
                    f"{self.name} has a 'perm' of {len(dims)} of {rank} dimensions"
                )

    def _check_cast(self) -> None:
        """Check that the result of a cast has the type that it names."""
        if self.name != "mil.cast" or "dtype" not in self.constants.data:
            return
        (result,) = self.outputs
        dtype = constant_of(self.constants.data["dtype"])
        if dtype not in element_types(result):
            raise VerifyException(
                f"{self.name} to {dtype} has a result of {result.type}"
            )

    def check(self, target: str) -> None:
        """Raise `VerifyException` if `target` does not have this form of the op."""
        if (form := self.form(target)) is None:
            since = forms_of(self.FORMS)[0].since
            raise VerifyException(f"{self.name} needs {since}, not {target}")
        self._check_form(form)

    def _check_form(self, form: Form) -> None:
        where = f"{self.name} of {form.since}"
        ssa_inputs = self.ssa_inputs()
        given = {name: None for name in (*ssa_inputs, *self.constants.data)}
        for name in given:
            if name not in form.inputs:
                raise VerifyException(
                    f"{where} has no input '{name}'; it has {_list(form.inputs)}"
                )
        variables: dict[str, tuple[str, frozenset[str]]] = {}
        for name, input in form.inputs.items():
            if name not in given:
                if not input.optional:
                    raise VerifyException(f"{where} needs an input '{name}'")
                continue
            values = ssa_inputs.get(name, [])
            if name in self.constants.data:
                if values:
                    raise VerifyException(f"{where} has two inputs '{name}'")
                types = constant_types(self.constants.data[name])
            else:
                if len(values) != 1 and not input.variadic:
                    raise VerifyException(
                        f"{where} takes one '{name}', not {len(values)}"
                    )
                if input.constant and not all(map(is_constant, values)):
                    raise VerifyException(
                        f"{where} needs a constant '{name}', not a computed one"
                    )
                types = frozenset[str]().union(*(element_types(v) for v in values))
            if not types & input.domain:
                given_types = ", ".join(str(value.type) for value in values)
                text = given_types or str(self.constants.data[name])
                raise VerifyException(
                    f"{where} takes {_list(input.domain)} as '{name}', not {text}"
                )
            if input.variable is not None:
                other, common = variables.get(input.variable, (name, input.domain))
                if not types & common:
                    raise VerifyException(
                        f"{where} needs one element type for '{other}' and '{name}', "
                        f"got {_list(common)} and {_list(types)}"
                    )
                variables[input.variable] = name, types & common

    @classmethod
    def parse(cls, parser: Parser) -> MilOp:
        position = parser.pos
        names: list[str] = []
        operands: list[UnresolvedOperand] = []
        constants: dict[str, Attribute] = {}

        def parse_item() -> UnresolvedOperand | Attribute:
            return parser.parse_optional_unresolved_operand() or (
                parser.parse_attribute()
            )

        def parse_input() -> None:
            name = parser.parse_identifier()
            parser.parse_punctuation("=")
            items = parser.parse_optional_comma_separated_list(
                parser.Delimiter.SQUARE, parse_item
            )
            item = parse_item() if items is None else None
            found = [item] if items is None else items
            values = [i for i in found if isinstance(i, UnresolvedOperand)]
            attributes = [i for i in found if isinstance(i, Attribute)]
            if values and attributes:
                parser.raise_error(f"'{name}' mixes values and constants")
            if name in names or name in constants:
                parser.raise_error(f"input '{name}' is given twice")
            names.extend([name] * len(values))
            operands.extend(values)
            if not values:
                constants[name] = (
                    item if isinstance(item, Attribute) else ArrayAttr(attributes)
                )

        parser.parse_comma_separated_list(parser.Delimiter.PAREN, parse_input)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        type_ = parser.parse_function_type()
        arguments = parser.resolve_operands(operands, type_.inputs.data, position)
        blocks: list[Region] = []
        while cls.HAS_BLOCKS and (block := parser.parse_optional_region()):
            blocks.append(block)
        return cls(arguments, names, constants, type_.outputs.data, attributes, *blocks)

    def print(self, printer: Printer) -> None:
        def print_ssa_input(item: tuple[str, list[SSAValue]]) -> None:
            name, values = item
            printer.print_string(f"{name} = ")
            if self.is_variadic(name):
                with printer.in_square_brackets():
                    printer.print_list(values, printer.print_operand)
            else:
                printer.print_list(values, printer.print_operand)

        def print_constant_input(item: tuple[str, Attribute]) -> None:
            name, attribute = item
            printer.print_string(f"{name} = ")
            print_constant(printer, attribute)

        ssa_inputs = self.ssa_inputs()
        with printer.in_parens():
            printer.print_list(ssa_inputs.items(), print_ssa_input)
            if ssa_inputs and self.constants.data:
                printer.print_string(", ")
            printer.print_list(self.constants.data.items(), print_constant_input)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_function_type(
            self.arguments.types, [output.type for output in self.outputs]
        )


@irdl_op_definition
class YieldOp(IRDLOperation):
    """Ends a block of a `BlockOp`, and gives the block's results."""

    name = "mil.yield"

    values = var_operand_def(TensorType)

    traits = traits_def(IsTerminator(), Pure())

    assembly_format = "attr-dict ($values^ `:` type($values))?"

    def __init__(self, values: Sequence[SSAValue]):
        super().__init__(operands=[values])


class BlockOp(MilOp):
    """An op of Core ML with two blocks, which `mil.yield` ends."""

    HAS_BLOCKS: ClassVar[bool] = True

    blocks = var_region_def("single_block")

    traits = traits_def(RecursiveMemoryEffect())

    def results_of(self, block: Region) -> Sequence[SSAValue]:
        """The values that a block gives."""
        end = block.block.last_op
        if not isinstance(end, YieldOp):
            raise VerifyException(f"a block of {self.name} ends in '{YieldOp.name}'")
        return end.values

    def verify_(self) -> None:
        super().verify_()
        if len(self.blocks) != 2:
            raise VerifyException(f"{self.name} has {len(self.blocks)} blocks, not 2")
        self.verify_blocks(*self.blocks)

    @abc.abstractmethod
    def verify_blocks(self, first: Region, second: Region) -> None:
        """Check the arguments and results of the blocks."""

    def check_values(
        self, what: str, values: Sequence[SSAValue], expected: Sequence[Attribute]
    ) -> None:
        """Raise `VerifyException` unless values have the types expected."""
        if len(values) != len(expected) or not all(
            are_compatible(value.type, type_)
            for value, type_ in zip(values, expected, strict=True)
        ):
            given, wanted = (
                ", ".join(map(str, types))
                for types in ([value.type for value in values], expected)
            )
            raise VerifyException(
                f"{self.name} needs {what} of type ({wanted}), not ({given})"
            )

    def print(self, printer: Printer) -> None:
        super().print(printer)
        for block in self.blocks:
            printer.print_string(" ")
            printer.print_region(block)


@irdl_op_definition
class CondOp(BlockOp):
    """The results of the first block if `pred` is true, else of the second one."""

    name = "mil.cond"
    FORMS: ClassVar[Lines] = (("iOS15", "pred:bool"),)

    def verify_blocks(self, first: Region, second: Region) -> None:
        self.check_values("a 'pred'", self.operands, [SCALAR])
        for block in (first, second):
            self.check_values("blocks with arguments", block.block.args, [])
            results = self.results_of(block)
            self.check_values("results of a block", results, self.result_types)


@irdl_op_definition
class WhileLoopOp(BlockOp):
    """
    `loop_vars`, replaced by the results of the second block while the first gives true.
    """

    name = "mil.while_loop"
    FORMS: ClassVar[Lines] = (("iOS15", "loop_vars:any*"),)

    def verify_blocks(self, first: Region, second: Region) -> None:
        types = self.operand_types
        for block in (first, second):
            self.check_values("arguments of a block", block.block.args, types)
        self.check_values("a condition", self.results_of(first), [SCALAR])
        self.check_values("results of its body", self.results_of(second), types)
        self.check_values("results", self.results, types)


SCALAR = TensorType(i1, [])
"""The type of a condition."""


WITH_DIMS = ("x", "data", "values", "input", "indices")
"""The inputs whose dimensions are named: the first of these that an op has."""
NEW_DIMS: Mapping[str, int] = {"mil.stack": 1, "mil.one_hot": 1, "mil.flatten2d": 1}
"""How many dimensions more than their operands have may be named."""


def are_compatible(a: Attribute, b: Attribute) -> bool:
    """Whether tensors of both types may have the same shape."""
    if not is_tensor(a) or not is_tensor(b):
        return False
    if a.element_type != b.element_type or a.get_num_dims() != b.get_num_dims():
        return False
    return all(
        m == n or DYNAMIC_INDEX in (m, n)
        for m, n in zip(a.get_shape(), b.get_shape(), strict=True)
    )


def op(
    name: str,
    result_types: Sequence[Attribute],
    **inputs: SSAValue | Sequence[SSAValue] | Constant | Attribute | None,
) -> MilOp:
    """
    The op `mil.<name>`. Inputs are SSA values, tuples of them, Python or numpy
    constants, or attributes; an input of None is left out.
    """
    if (op_type := OPS.get(name)) is None:
        raise ValueError(f"Core ML has no op '{name}'")
    arguments: list[SSAValue] = []
    names: list[str] = []
    constants: dict[str, Attribute] = {}
    for key, value in inputs.items():
        match value:
            case None:
                continue
            case SSAValue():
                values = [value]
            case [SSAValue(), *_]:
                values = value
            case _:
                constants[key] = constant_attr(cast("Constant | Attribute", value))
                continue
        arguments.extend(values)
        names.extend([key] * len(values))
    return op_type(arguments, names, constants, result_types)


NARROW_INTEGERS = ("int8", "uint8", "int16", "uint16")
"""Integers that are int32 where a target does not have them."""


def has_element_type(name: str, target: str) -> bool:
    """Whether `target` has an element type, as its `cast` shows."""
    form = OPS["cast"].form(target)
    return form is not None and name in form.inputs["x"].domain


def is_widened(name: str, target: str) -> bool:
    """Whether integers of a type become int32 for `target`, at the end of lowering."""
    return name in NARROW_INTEGERS and not has_element_type(name, target)


def check_element_type(name: str, target: str) -> None:
    """Raise Obstacle if `target` does not have an element type."""
    if not has_element_type(name, target):
        having = [each for each in TARGETS if has_element_type(name, each)]
        newer = f", or choose {having[0]} or a newer target" if having else ""
        raise Obstacle(f"{target} has no {name}", f"use int32{newer}")


FOLDED = (
    "torch_c.to_builtin_tensor",
    *(f"mil.{name}" for name in ("cast", "expand_dims", "reshape", "transpose")),
)
"""Ops that emission folds if their operands are constants."""


def is_constant(value: SSAValue) -> bool:
    """Whether a value is known at compile time."""
    if not isinstance(owner := value.owner, Operation):
        return False
    if owner.name in FOLDED:
        return all(map(is_constant, owner.operands))
    return owner.name in ("arith.constant", "torch.vtensor.literal")


def _list(names: Iterable[str]) -> str:
    *rest, last = sorted(names) if isinstance(names, frozenset) else names
    return f"{', '.join(rest)} or {last}" if rest else last


def _declare_op(name: str, forms: Lines) -> type[MilOp]:
    # A random op gives another result each time, and a state has another value after
    # an update: no pass may merge two.
    is_pure = not name.startswith("random_") and not name.endswith("_state")
    traits: tuple[OpTrait, ...] = (Pure(),) if is_pure else ()
    return irdl_op_definition(
        type(
            "".join(part.capitalize() for part in name.split("_")) + "Op",
            (MilOp,),
            {
                "__doc__": f"Core ML's `{name}`.",
                "__module__": __name__,
                "__annotations__": {"FORMS": "ClassVar"},
                "name": f"mil.{name}",
                "FORMS": forms,
                "traits": traits_def(*traits),
            },
        )
    )


OPS = {name: _declare_op(name, lines) for name, lines in DECLARED.items()}
"""Every op of the dialect without blocks, by Core ML's name."""

Mil = Dialect("mil", [*OPS.values(), CondOp, WhileLoopOp, YieldOp], [StateType])
