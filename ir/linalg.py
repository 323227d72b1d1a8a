"""xDSL's `linalg` dialect, where ops are parsed as they are printed, and verified."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Self, TypeVar, cast

from xdsl.dialects import linalg
from xdsl.dialects.linalg.ops import GenericOp, IndexOp, YieldOp
from xdsl.ir import Dialect, Operation
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
)
from xdsl.parser import Parser
from xdsl.utils.exceptions import VerifyException

T = TypeVar("T")


DIVISIONS = {
    AffineBinaryOpKind.CeilDiv,
    AffineBinaryOpKind.FloorDiv,
    AffineBinaryOpKind.Mod,
}


class CheckedGenericOp(GenericOp):
    """
    `linalg.generic` with any number of results: `-> (tensor<2xf32>, ...)`.

    It writes to an output at least, and yields an element for each.
    """

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        return super().parse(cast(Parser, ParserOfResults(parser)))

    def verify_(self) -> None:
        self.get_irdl_definition().verify(self)
        # xDSL's verifier of the maps divides, and takes more for granted.
        if not self.outputs:
            raise VerifyException("'linalg.generic' has no output")
        self.verify_divisors()
        super().verify_()
        self.verify_yield()

    def verify_divisors(self) -> None:
        """Raise VerifyException unless indices are divided by positive constants."""
        for attribute in self.indexing_maps:
            for part in (x for result in attribute.data.results for x in result.dfs()):
                if not isinstance(part, AffineBinaryOpExpr):
                    continue
                divisor = part.rhs
                is_positive = (
                    isinstance(divisor, AffineConstantExpr) and divisor.value > 0
                )
                if part.kind in DIVISIONS and not is_positive:
                    raise VerifyException(
                        f"'linalg.generic' has the map {attribute.data}, which divides "
                        f"by {divisor}; expected a positive constant"
                    )

    def verify_yield(self) -> None:
        """Raise VerifyException unless the body ends with an element per output."""
        last = self.body.block.last_op
        if not isinstance(last, YieldOp):
            raise VerifyException(
                "'linalg.generic' has no linalg.yield at the end of its body"
            )
        elements = self.body.block.arg_types[len(self.inputs) :]
        if last.operand_types != elements:
            yielded, expected = (
                f"({', '.join(map(str, types))})"
                for types in (last.operand_types, elements)
            )
            raise VerifyException(
                f"'linalg.generic' yields {yielded}; expected {expected}"
            )


class CheckedIndexOp(IndexOp):
    """`linalg.index` of a dimension that the loops around it have."""

    def verify_(self) -> None:
        super().verify_()
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
