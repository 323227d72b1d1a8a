"""Types, fills and checks that the ops of `tcp` share."""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias, cast

from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    DenseArrayBase,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    TensorType,
    i64,
)
from xdsl.interfaces import HasFolderInterface
from xdsl.ir import (
    Attribute,
    SSAValue,
)
from xdsl.irdl import (
    IRDLOperation,
    base,
    result_def,
    traits_def,
)
from xdsl.irdl.declarative_assembly_format import (
    AttributeVariable,
    CustomDirective,
    ParsingState,
    PrintingState,
    irdl_custom_directive,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa

from padc.ir import padding
from padc.ir.type_tests import is_integer

__all__ = [
    "Amount",
    "AnyTensor",
    "Check",
    "fill_constant",
    "fill_type",
    "tensor_type",
]

AnyTensor: TypeAlias = TensorType[Attribute]
Amount: TypeAlias = int | SSAValue
"""An amount of padding: a static integer, or an SSA value of type index."""
Check: TypeAlias = Callable[[int, int, int], None]
"""A rule of one dimension's size, lower and upper amount; ValueError if broken."""


def tensor_type(value: SSAValue) -> AnyTensor:
    """The type of a value that is declared to be a tensor."""
    # `isa` takes ten times as long, and every operand is asked.
    type = cast(AnyTensor, value.type)
    assert isinstance(type, TensorType)
    return type


def fill_type(element_type: Attribute) -> Attribute:
    """The type of a scalar that fills a tensor: the signless element type."""
    if is_integer(element_type):
        return IntegerType(element_type.width.data)
    return element_type


def fill_constant(value: float | int | bool, element_type: Attribute) -> ConstantOp:
    """
    A scalar constant that fills tensors of `element_type`.

    An integer is given by its bit pattern, and must be in the type's range.
    """
    signless = fill_type(element_type)
    if is_integer(signless):
        return ConstantOp(IntegerAttr(int(value), signless))
    if isinstance(signless, AnyFloat):
        return ConstantOp(FloatAttr(float(value), signless))
    raise VerifyException(
        f"cannot fill a tensor of {element_type}; expected floats or integers"
    )


@irdl_custom_directive
class IntegerList(CustomDirective):
    """A dense array of integers, written `[1, 2, 3]`."""

    values: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        values = parser.parse_comma_separated_list(
            parser.Delimiter.SQUARE, parser.parse_integer
        )
        self.values.set(state, DenseArrayBase.from_list(i64, values))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        state.print_whitespace(printer)
        values = self.values.get(op)
        assert isa(values, DenseArrayBase[IntegerType])
        with printer.in_square_brackets():
            printer.print_list(values.get_values(), printer.print_int)
        state.last_was_punctuation = False
        state.should_emit_space = True

    def set_empty(self, state: ParsingState) -> None:
        self.values.set_empty(state)

    def is_present(self, op: IRDLOperation) -> bool:
        return self.values.is_present(op)

    def is_anchorable(self) -> bool:
        return True


class TensorOp(IRDLOperation, HasFolderInterface, abc.ABC):
    """An op from one tensor to another of the same element type and rank."""

    if TYPE_CHECKING:
        # Each op defines these itself: xDSL puts operands of a base class last.
        input: SSAValue

    result = result_def(base(AnyTensor))

    traits = traits_def(Pure())

    @property
    def input_type(self) -> AnyTensor:
        return tensor_type(self.input)

    def fold(self) -> Sequence[SSAValue | Attribute] | None:
        return None


def verify_result(op: IRDLOperation, declared: AnyTensor, inferred: AnyTensor) -> None:
    """
    Raise VerifyException if a declared type contradicts the inferred one.

    A size that cannot be inferred may be declared as any size.
    """
    if not agrees(declared, inferred):
        raise VerifyException(f"'{op.name}' makes {inferred}, but {declared} is given")


def agrees(declared: AnyTensor, inferred: AnyTensor) -> bool:
    """Whether `declared` equals `inferred`, except for sizes that are dynamic there."""
    return (
        declared.element_type == inferred.element_type
        and declared.get_num_dims() == inferred.get_num_dims()
        and all(
            expected in (DYNAMIC_INDEX, size)
            for expected, size in zip(
                inferred.get_shape(), declared.get_shape(), strict=True
            )
        )
    )


def verify_positive(op: IRDLOperation, rank: int, **lists: Sequence[int]) -> None:
    """Raise VerifyException unless each list has `rank` positive integers."""
    for name, values in lists.items():
        if len(values) != rank or any(value < 1 for value in values):
            raise VerifyException(
                f"'{op.name}' has {name} {list(values)}; expected {rank} positive "
                "integers, one for each spatial dimension"
            )


def windows(
    op: IRDLOperation, size: int, kernel: int, stride: int, dilation: int
) -> int:
    """The number of VALID windows in a dimension; dynamic if a size is."""
    if kernel == 0:
        raise VerifyException(
            f"'{op.name}' has a kernel without elements; expected 1 or more"
        )
    if DYNAMIC_INDEX in (size, kernel):
        return DYNAMIC_INDEX
    count = padding.conv_output_size(size, kernel, stride, dilation)
    if count < 1:
        raise VerifyException(
            f"'{op.name}' has a window of {dilation * (kernel - 1) + 1} elements "
            f"(kernel {kernel}, dilation {dilation}), larger than its input's {size}; "
            "pad the input first"
        )
    return count


def verify_dims(op: IRDLOperation, type: AnyTensor, dims: Sequence[int]) -> None:
    """Raise VerifyException unless `dims` are distinct dimensions of `type`."""
    rank = type.get_num_dims()
    if len(set(dims)) != len(dims) or not all(0 <= dim < rank for dim in dims):
        raise VerifyException(
            f"'{op.name}' has dims {list(dims)}; expected different dimensions "
            f"of {type}, each from 0 to {rank - 1}"
        )
