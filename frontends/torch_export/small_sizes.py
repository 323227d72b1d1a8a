# pyright: basic, reportPrivateUsage=false
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
from contextlib import suppress

import torch
from torch.export import ExportedProgram
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, StringAttr, i64

from padc.errors import SourceLocation, UnsupportedError
from padc.frontends.torch_export.deciding_ops import example_sizes
from padc.frontends.torch_export.guards import (
    Guard,
    InputSize,
    input_numbers,
    input_tensors,
    limits_of,
    read_guard,
)
from padc.frontends.torch_export.size_limits import CONVOLUTIONS
from padc.frontends.torch_export.types import expression_of
from padc.ir.main_function import main
from padc.ir.torch import AtenOp, SymbolicIntOp
from padc.ir.torch.sample_shapes import wrong_ops

LEAST = 2
"""The smallest size that torch.export traces for."""
MOST_TOGETHER = 4
"""The most symbols of which all combinations are tried."""


def narrow_small_sizes(module: ModuleOp, ep: ExportedProgram) -> None:
    """
    Raise the smallest sizes that an import declares to those that its types hold for.

    Each such op says why. The other sizes are tried as they are in the example, and as
    small as they may be. Without an example, as in some files, nothing is known, and
    the import stays as it is.
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
        small = [name for name in self.declared if self.lowest(name) < LEAST]
        if not small:
            return  # To save time.
        self.guards += limits_of(self.ep)
        for text in self.ep._guards_code or ():
            with suppress(UnsupportedError):
                self.guards.append(read_guard(text, input_numbers(self.ep)))
        example = {str(x): size for x, size in example_sizes(self.tensors).items()}
        least = {name: max(LEAST, self.lowest(name)) for name in self.declared}
        for others in example, least:
            if self.declared.keys() <= others.keys() and self.are_taken(others):
                known = {op for op, _ in wrong_ops(self.function, others)}
                for names in together(small):
                    self.narrow(names, others, known)

    def narrow(
        self, names: Sequence[str], others: Mapping[str, int], known: set[AtenOp]
    ) -> None:
        """Try symbols that are all 1 or all 0; `known` ops are not judged."""
        for size in reversed(range(LEAST)):
            sizes = {**others, **dict.fromkeys(names, size)}
            if max(map(self.lowest, names)) > size or not self.are_taken(sizes):
                continue
            for op, reason in wrong_ops(self.function, sizes):
                # PyTorch takes empty images in empty batches only: see `size_limits`.
                is_empty = size == 0 and op.schema.name in CONVOLUTIONS
                if op not in known and not is_empty:
                    self.exclude(names[0], size, op, reason)
                    return

    def exclude(self, name: str, size: int, op: AtenOp, reason: str) -> None:
        """Let a symbol be larger than a size, for which an op is wrong."""
        symbol, where = self.declared[name], SourceLocation.of(op.location)
        symbol.min_val = IntegerAttr(size + 1, i64)
        symbol.reason = StringAttr(
            f"torch.export traces as if {name} were {LEAST} or more, and at {size} "
            f"{op.schema.name} differs: {reason}" + (f", at {where}" if where else "")
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


def together(names: Sequence[str]) -> Iterator[Sequence[str]]:
    """The symbols that are small at once: each alone first."""
    counts = range(1, len(names) + 1)
    if len(names) > MOST_TOGETHER:
        counts = [1, len(names)]
    for count in counts:
        yield from itertools.combinations(names, count)
