"""xDSL's `linalg` dialect, where ops are parsed as they are printed, and verified."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Self, TypeVar, cast

from xdsl.dialects import linalg
from xdsl.dialects.linalg.ops import GenericOp, IndexOp
from xdsl.ir import Dialect, Operation
from xdsl.parser import Parser
from xdsl.utils.exceptions import VerifyException

T = TypeVar("T")


class CheckedGenericOp(GenericOp):
    """`linalg.generic` with any number of results: `-> (tensor<2xf32>, ...)`."""

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        return super().parse(cast(Parser, ParserOfResults(parser)))


class CheckedIndexOp(IndexOp):
    """`linalg.index` of a dimension that the loops around it have."""

    def verify_(self) -> None:
        generic = self.parent_op()
        dim = self.dim.value.data
        if isinstance(generic, GenericOp):
            rank = len(generic.iterator_types)
            if not 0 <= dim < rank:
                raise VerifyException(f"there is no dimension {dim} of {rank} loops")


class ParserOfResults:
    """
    A parser that takes result types in parentheses.

    xDSL's linalg.generic prints several types so, and parses them without.
    """

    def __init__(self, parser: Parser):
        self._parser = parser

    def __getattr__(self, name: str) -> Any:
        return getattr(self._parser, name)

    def parse_comma_separated_list(
        self, delimiter: Parser.Delimiter, parse: Callable[[], T], *context: str
    ) -> list[T]:
        parser = self._parser
        is_results = parse == parser.parse_attribute
        if is_results and parser.parse_optional_punctuation("("):
            types = parser.parse_comma_separated_list(Parser.Delimiter.NONE, parse)
            parser.parse_punctuation(")")
            return types
        return parser.parse_comma_separated_list(delimiter, parse, *context)


REPLACED_OPS: Mapping[type[Operation], type[Operation]] = {
    GenericOp: CheckedGenericOp,
    IndexOp: CheckedIndexOp,
}

Linalg = Dialect(
    "linalg",
    [REPLACED_OPS.get(op, op) for op in linalg.Linalg.operations],
    list(linalg.Linalg.attributes),
)
