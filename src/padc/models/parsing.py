"""Parsing text that may hold anything: each fault is an error with a message."""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, NoneAttr, ShapedType
from xdsl.ir import Attribute
from xdsl.utils.exceptions import DiagnosticException, ParseError

from padc.errors import InvalidProgramError, PadcError, first_line
from padc.ir.text import Parser
from padc.ir.torch.types import VTensorType

REPORTED = (PadcError, ParseError, DiagnosticException)
"""Errors whose message says what is wrong with the input."""
WIDE_INTEGER = re.compile(
    r"(?:(?<![%@#!\"\w$.-])x?|(?:\b\d+|[?*\]])x)([su]?i(\d{8,}))\b"
)
STRINGS = re.compile(
    r'//[^\n]*|"(?:[^"\\\n\v\f]++|\\(?:["nt\\]|[0-9A-Fa-f]{2}))*+"|(?P<open>")'
)
"""Comments and string literals; `open` is a quote that starts no literal."""
LARGEST_SIZE = 2**63 - 1
MOST_BITS = 2**24 - 1
"""The widest integer type of MLIR."""


def parse_module(ctx: Context, text: str, name: str = "<unknown>") -> ModuleOp:
    """
    The module in a text, which is not verified yet.

    Raises ParseError, DiagnosticException or InvalidProgramError.
    """
    with parsing(text):
        module = Parser(ctx, text, name).parse_module()
    check_sizes(module)
    return module


@contextmanager
def parsing(text: str) -> Generator[None]:
    """
    Turn what xDSL's parser raises by accident into InvalidProgramError.

    The parser raises what its types raise: for integers out of range, say.
    """
    try:
        check_widths(text)
        check_strings(text)
        yield
    except REPORTED:
        raise
    except RecursionError as error:
        raise InvalidProgramError("the text is nested too deeply") from error
    except Exception as error:
        reason = f"{type(error).__name__}: {first_line(error)}"
        raise InvalidProgramError(f"the text cannot be parsed: {reason}") from error


def check_widths(text: str) -> None:
    """Raise InvalidProgramError for integer types whose bounds need much memory."""
    for match in WIDE_INTEGER.finditer(text):
        if len(match[2]) > 8 or int(match[2]) > MOST_BITS:
            raise InvalidProgramError(
                f"the integer type {match[1][:40]} is wider than {MOST_BITS} bits, "
                "which MLIR has at most"
            )


def check_strings(text: str) -> None:
    """
    Raise InvalidProgramError for a string that does not end, or has an unknown escape.

    xDSL's lexer would take time that grows exponentially with the string's length.
    """
    for match in STRINGS.finditer(text):
        if match["open"]:
            line = text.count("\n", 0, match.start()) + 1
            raise InvalidProgramError(
                f"line {line}: a string literal has no end, or an unknown escape"
            )


def check_sizes(module: ModuleOp) -> None:
    """Raise InvalidProgramError for tensors with sizes that MLIR's integers exceed."""
    for op in module.walk():
        blocks = [block for region in op.regions for block in region.blocks]
        for value in (*op.results, *(arg for block in blocks for arg in block.args)):
            if (largest := max(sizes_of(value.type), default=0)) > LARGEST_SIZE:
                raise InvalidProgramError(
                    f"'{op.name}' has a tensor of the size {largest}; MLIR's sizes are "
                    f"{LARGEST_SIZE} at most"
                )


def sizes_of(type: Attribute) -> Sequence[int]:
    """The sizes of a type of known rank; none for other types."""
    if isinstance(type, VTensorType) and isinstance(type.shape, NoneAttr):
        return ()
    return type.get_shape() if isinstance(type, ShapedType | VTensorType) else ()
