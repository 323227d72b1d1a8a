# pyright: basic, reportPrivateUsage=false
"""
Guards that PyTorch makes when it computes the values of a program again.

It does so to check a file, and to make a program functional. A guard that the program
does not have yet would be about the example only.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import sympy
from torch.export import ExportedProgram
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.value_ranges import ValueRanges

from padc.errors import Problem, UnsupportedError
from padc.frontends.torch_export.guarded_ranges import (
    INT32_MAX,
    MOST_SIZES,
    holds_in,
    symbols_of,
)
from padc.frontends.torch_export.guards import (
    Guard,
    guards_of,
    input_numbers,
    input_tensors,
    read_guard,
    shape_env_of,
)
from padc.frontends.torch_export.size_limits import python, sources_of_symbols
from padc.frontends.torch_export.small_sizes import LEAST
from padc.frontends.torch_export.unguarded_ops import UnguardedOps
from padc.ir.torch.calls import PLAIN_KERNELS

MADE = "padc.remade_guards"
"""The guards that imports of a program have made, in the `meta` of its graph."""


@contextmanager
def remade_guards(ep: ExportedProgram) -> Iterator[list[str]]:
    """
    The guards that PyTorch makes in this context, in Python; known at its end.

    Those that only decide how it computes a value are not made.
    """
    texts: list[str] = []
    env = shape_env_of(ep)
    if env is None:
        yield texts
        return
    # Before PyTorch finds that one is equal to another.
    sources = sources_of_symbols(ep, input_numbers(ep))
    known = len(env.guards)
    with UnguardedOps(), PLAIN_KERNELS:
        yield texts
    symbols = {symbol for size in sources for symbol in size.free_symbols}
    for guard in env.guards[known:]:
        # Other symbols are of strides. No size depends on one, nor on that it is
        # another number than a size.
        is_on_strides = not guard.expr.free_symbols <= symbols
        is_apart = is_on_strides and isinstance(guard.expr, sympy.Ne)
        if guard.expr.free_symbols & symbols and not is_apart:
            texts.append(python(guard.expr, sources))


@contextmanager
def no_further_guards(ep: ExportedProgram) -> Iterator[None]:
    """
    Raise UnsupportedError if PyTorch makes guards that the program lacks.

    What it concludes of its sizes stays, so that each later import is refused, too.
    """
    with remade_guards(ep) as texts:
        yield
    made: list[str] = ep.graph_module.meta.setdefault(MADE, [])
    made += texts
    problems: list[Problem] = []
    for text in dict.fromkeys(made):
        guard = read_guard(text, input_numbers(ep))
        if not is_implied(ep, guard):
            message = f"PyTorch makes the program functional only where {guard.text}"
            hint = "do not change slices in place, or give the dimension a static size"
            problems.append(Problem(message, hint=hint))
    if problems:
        raise UnsupportedError(problems)


def is_implied(ep: ExportedProgram, guard: Guard) -> bool:
    """Whether a guard holds where those of a program do, as far as sizes are tried."""
    tensors = input_tensors(ep)
    symbols = symbols_of(guard, tensors)
    most = int(MOST_SIZES ** (1 / max(1, len(symbols))))
    ranges: dict[sympy.Symbol, tuple[int, int]] = {}
    for symbol in symbols:
        bounds = ep.range_constraints.get(symbol, ValueRanges(0, int_oo))
        low = max(LEAST, int(bounds.lower))
        ranges[symbol] = low, int(min(bounds.upper, INT32_MAX, low + most - 1))
    holds = np.array(holds_in(guard, tensors, ranges))
    for other in guards_of(ep):
        if set(symbols_of(other, tensors)) <= set(symbols):
            holds |= ~holds_in(other, tensors, ranges)
    return bool(holds.all())
