"""
The sizes that an input may have.

At the torch level they stand in the program (`torch.symbolic_int`, and
`torch.bind_symbolic_shape`). Below it each `?` of an argument's type has an entry in
the attribute `padc.sizes`: `["height in 4..64", "2*width in 8..32"]`. Sizes with equal
names are equal.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument
from xdsl.ir.affine import AffineConstantExpr
from xdsl.utils.hints import isa

from padc.errors import Obstacle
from padc.ir.torch import BindSymbolicShapeOp, SymbolicIntOp

ATTRIBUTE = "padc.sizes"
MOST_SHAPES = 128
"""The most shapes that an input of Core ML can list, by coremltools' guide."""


@dataclass(frozen=True)
class SizeRange:
    """A dynamic size, from its smallest value to its largest one, both included."""

    name: str
    lower: int
    upper: int

    @staticmethod
    def parse(text: str) -> SizeRange:
        """Parse `str(range)`. Raises Obstacle for another text."""
        match = re.fullmatch(r"(.+) in (\d+)\.\.(\d+)", text)
        if match is None or int(match[2]) > int(match[3]):
            raise Obstacle(
                f"'{text}' in {ATTRIBUTE} is not a range", 'write "name in 1..8"'
            )
        return SizeRange(match[1], int(match[2]), int(match[3]))

    def __str__(self) -> str:
        return f"{self.name} in {self.lower}..{self.upper}"


def size_ranges(argument: BlockArgument) -> list[SizeRange]:
    """
    The range of each dynamic size of `argument`; empty if the program gives no ranges.

    Raises Obstacle if the attribute is not a list of ranges.
    """
    return bound_ranges(argument) or declared_ranges(argument)


def bound_ranges(argument: BlockArgument) -> list[SizeRange]:
    """The ranges that `torch.bind_symbolic_shape` gives; empty without that op."""
    for use in argument.uses:
        if isinstance(binding := use.operation, BindSymbolicShapeOp):
            return ranges_of(binding)
    return []


def ranges_of(op: BindSymbolicShapeOp) -> list[SizeRange]:
    """The range of each size that is not a number."""
    owners = [symbol.owner for symbol in op.shape_symbols]
    symbols = [owner for owner in owners if isinstance(owner, SymbolicIntOp)]
    lowest = [symbol.min_val.value.data for symbol in symbols]
    highest = [symbol.max_val.value.data for symbol in symbols]
    found: list[SizeRange] = []
    for size in op.shape_expressions.data.results:
        if isinstance(size, AffineConstantExpr):
            continue
        lower, upper = sorted((size.eval([], lowest), size.eval([], highest)))
        name = re.sub(
            r"s(\d+)", lambda s: symbols[int(s[1])].symbol_name.data, str(size)
        )
        found.append(SizeRange(name, lower, upper))
    return found


def declared_ranges(argument: BlockArgument) -> list[SizeRange]:
    """The entries of the argument's `padc.sizes`."""
    function = argument.block.parent_op()
    if not isinstance(function, FuncOp) or function.arg_attrs is None:
        return []
    entry = function.arg_attrs.data[argument.index].data.get(ATTRIBUTE)
    if entry is None:
        return []
    if not isa(entry, ArrayAttr[StringAttr]):
        message = f"{ATTRIBUTE} is not a list of strings"
        raise Obstacle(message, 'write ["name in 1..8"]')
    return [SizeRange.parse(each.data) for each in entry]
