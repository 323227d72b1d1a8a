# pyright: basic
"""
Sizes of 0 and 1, for which an export may not hold.

torch.export traces as if dynamic sizes were 2 and more, whatever their bounds are:
`x[:2]` has 2 rows then, and `squeeze` removes nothing. PyTorch's own modules compute
what the ops do for each size, while padc's backends compute what they are said to do.
So the types of an import are checked for the sizes of 0 and 1 that it declares.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

import torch
from torch.export import ExportedProgram
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, StringAttr, i64

from padc.errors import SourceLocation
from padc.frontends.torch_export.deciding_ops import example_sizes
from padc.frontends.torch_export.guards import (
    Guard,
    InputSize,
    guards_code,
    input_tensors,
    limits_of,
    readable,
)
from padc.frontends.torch_export.types import expression_of
from padc.ir.main_function import main
from padc.ir.torch import AtenOp, SymbolicIntOp
from padc.ir.torch.sample_shapes import wrong_ops

LEAST = 2
"""The smallest size that torch.export traces for."""


def narrow_small_sizes(module: ModuleOp, ep: ExportedProgram) -> None:
    """
    Raise the smallest sizes that an import declares to those that its types hold for.

    Each such size says why. One or two symbols are tried at a time, and all together;
    the others are as they are in the example, and as small as they are traced for.
    Without an example, as in some files, nothing is known, and the import stays as it
    is.
    """
    Trials(module, ep).run()


class Trials:
    """The sizes of one import, and what is known of them."""

    def __init__(self, module: ModuleOp, ep: ExportedProgram):
        self.ep = ep
        self.function = main(module)
        self.declared = {
            op.symbol_name.data: op
            for op in module.walk()
            if isinstance(op, SymbolicIntOp)
        }
        self.tensors = input_tensors(ep)
        self.guards: list[Guard] = []

    def run(self) -> None:
        if not self.small():
            return  # To save time.
        own = readable(self.ep, guards_code(self.ep))
        self.guards += [*limits_of(self.ep), *own]
        example = {str(x): size for x, size in example_sizes(self.tensors).items()}
        least = {name: max(LEAST, self.lowest(name)) for name in self.declared}
        for others in example, least:
            if self.declared.keys() <= others.keys():
                known = {op for op, _ in wrong_ops(self.function, others)}
                for small in combinations(self.small()):
                    self.try_out(small, others, known)
                while self.try_out(self.smallest(), others, known):
                    pass

    def small(self) -> list[str]:
        """The symbols that may be smaller than torch.export traces them."""
        return [name for name in self.declared if self.lowest(name) < LEAST]

    def smallest(self) -> Mapping[str, int]:
        return {name: self.lowest(name) for name in self.small()}

    def try_out(
        self, small: Mapping[str, int], others: Mapping[str, int], known: set[AtenOp]
    ) -> bool:
        """Exclude small sizes if an op is wrong for them that is not `known` to be."""
        sizes = {**others, **small}
        if any(size < self.lowest(name) for name, size in small.items()):
            return False
        if not small or not self.are_taken(sizes):
            return False
        for op, reason in wrong_ops(self.function, sizes):
            if op not in known:
                name = min(small, key=lambda name: small[name])
                self.exclude(name, small[name], op, reason)
                return True
        return False

    def exclude(self, name: str, size: int, op: AtenOp, reason: str) -> None:
        """Let a symbol be larger than a size, for which an op is wrong."""
        symbol, where = self.declared[name], SourceLocation.of(op.location)
        symbol.min_val = IntegerAttr(size + 1, i64)
        symbol.reason = StringAttr(
            f"torch.export traces as if dynamic sizes were {LEAST} or more, and where "
            f"{name} is {size} {op.schema.name} differs: {reason}"
            + (f", at {where}" if where else "")
        )

    def lowest(self, name: str) -> int:
        return self.declared[name].min_val.value.data

    def are_taken(self, sizes: Mapping[str, int]) -> bool:
        """Whether the guards hold."""

        def size(of: InputSize) -> int:
            return value_of(self.tensors[of.number].shape[of.dim], sizes)

        return all(guard.holds_for(size) for guard in self.guards)


def value_of(size: int | torch.SymInt, symbols: Mapping[str, int]) -> int:
    """A size, for values of its symbols."""
    expression = expression_of(size)
    return int(expression.subs({x: symbols[str(x)] for x in expression.free_symbols}))


def combinations(names: Sequence[str]) -> Iterator[Mapping[str, int]]:
    """All small sizes of one symbol, and of two."""
    for count in (1, 2):
        for some in itertools.combinations(names, count):
            for sizes in itertools.product(reversed(range(LEAST)), repeat=count):
                yield dict(zip(some, sizes, strict=True))
