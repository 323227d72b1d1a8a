# pyright: reportPrivateUsage=false
"""
The text of constants, where xDSL loses bits of floats or takes too much memory.

Elements may be hexadecimal: the digits are the bits of a number. Infinities and NaNs
are printed so, and floats that are large integers. xDSL's parser takes the digits for
the value of an integer. And xDSL prints a tensor of zeros of both signs as if all
elements were the first one.

A constant of equal elements is short in text, but xDSL keeps each element.
"""

from __future__ import annotations

import math

import xdsl.parser
from xdsl.dialects.builtin import (
    AnyDenseElement,
    AnyFloat,
    ComplexType,
    DenseIntOrFPElementsAttr,
    IndexType,
    IntegerType,
    RankedStructure,
)
from xdsl.ir import Operation
from xdsl.parser import AttrParser
from xdsl.utils.exceptions import DiagnosticException, ParseError
from xdsl.utils.lexer import Span, Token
from xdsl.utils.mlir_lexer import MLIRTokenKind

from padc.errors import PadcError, first_line

MOST_REPEATED = 2**25
"""The elements of all constants of a text that the text does not list."""


class Hexadecimal(int):
    """An integer that is written in hexadecimal digits."""


class Parser(xdsl.parser.Parser):
    """
    xDSL's parser, with what it lacks.

    Hexadecimal floats are bits, memory has a bound, and each error has a place.
    """

    repeated = 0
    """The elements of constants so far that the text does not list."""
    literal: Token[MLIRTokenKind]
    """The first token of the elements of the last constant."""

    def parse_operation(self) -> Operation:
        try:
            return super().parse_operation()
        except (PadcError, ParseError, DiagnosticException, RecursionError):
            raise
        # What types raise by accident, as for large numbers.
        except Exception as error:
            reason = f"{type(error).__name__}: {first_line(error)}"
            self.raise_error(f"an operation cannot be parsed: {reason}")

    class _TensorLiteralElement(AttrParser._TensorLiteralElement):
        def to_type(
            self,
            parser: AttrParser,
            type: AnyFloat | IntegerType | IndexType | ComplexType,
        ):
            element = type.element_type if isinstance(type, ComplexType) else type
            if isinstance(element, AnyFloat):
                try:
                    if isinstance(self.value, tuple):
                        real, imaginary = self.value
                        self.value = (
                            float_of(real, element),
                            float_of(imaginary, element),
                        )
                    else:
                        self.value = float_of(self.value, element)
                except OverflowError:
                    parser.raise_error(f"{element} has fewer bits", self.span)
            return super().to_type(parser, type)

    def _parse_optional_bool_int_or_float(
        self,
    ) -> tuple[bool, Span] | tuple[int, Span] | tuple[float, Span] | None:
        is_hexadecimal = self._current_token.text[:2] in ("0x", "0X")
        parsed = super()._parse_optional_bool_int_or_float()
        if parsed is None or not is_hexadecimal:
            return parsed
        value, span = parsed
        return Hexadecimal(value), span

    def parse_dense_int_or_fp_elements_attr(
        self, type: RankedStructure[AnyDenseElement] | None
    ) -> DenseIntOrFPElementsAttr:
        start = self.pos
        self.parse_punctuation("<", " in dense attribute")
        self.literal = self._current_token
        self._resume_from(start)
        if type is not None:
            self.count_repeated(type)
        return super().parse_dense_int_or_fp_elements_attr(type)

    def _parse_dense_literal_type(
        self,
    ) -> RankedStructure[IntegerType | IndexType | AnyFloat | ComplexType]:
        # xDSL repeats the elements next.
        type = super()._parse_dense_literal_type()
        self.count_repeated(type)
        return type

    def count_repeated(self, type: RankedStructure[AnyDenseElement]) -> None:
        """ParseError if the constant of this type has too many elements to repeat."""
        if self.literal.kind is MLIRTokenKind.L_SQUARE:
            return
        elements = math.prod(type.get_shape())
        # A string may hold all elements.
        self.repeated += max(elements - len(self.literal.text), 0)
        if self.repeated > MOST_REPEATED:
            sizes = "x".join(map(str, type.get_shape()))
            self.raise_error(
                f"a constant has {sizes} equal elements; those of a text are "
                f"{MOST_REPEATED} at most. Compute it: torch.aten.full, linalg.fill",
                self.literal.span,
            )


def float_of(value: float, type: AnyFloat) -> float:
    """The float of an element; OverflowError if it has more bits than the type."""
    if not isinstance(value, Hexadecimal):
        return value
    (number,) = type.iter_unpack(value.to_bytes(type.compile_time_size, "little"))
    return number


def has_equal_bits(self: DenseIntOrFPElementsAttr) -> bool:
    """Whether all elements have the same bits; there is at least one."""
    data = self.data.data
    return data == data[: len(data) // len(self)] * len(self)


# The printer asks this method, which compares values.
DenseIntOrFPElementsAttr.is_splat = has_equal_bits
