# pyright: reportPrivateUsage=false
"""
The text of tensors of floats, where xDSL loses bits.

Elements may be hexadecimal: the digits are the bits of a number. Infinities and NaNs
are printed so, and floats that are large integers. xDSL's parser takes the digits for
the value of an integer. And xDSL prints a tensor of zeros of both signs as if all
elements were the first one.
"""

from __future__ import annotations

import xdsl.parser
from xdsl.dialects.builtin import (
    AnyFloat,
    ComplexType,
    DenseIntOrFPElementsAttr,
    IndexType,
    IntegerType,
)
from xdsl.parser import AttrParser
from xdsl.utils.lexer import Span


class Hexadecimal(int):
    """An integer that is written in hexadecimal digits."""


class Parser(xdsl.parser.Parser):
    """xDSL's parser, but hexadecimal elements of float tensors are bits."""

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
