# pyright: basic
"""The sizes for which all guards of a program hold, as ranges for Core ML."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, cast

import numpy as np
import sympy
import torch
from torch.export import ExportedProgram
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64

from padc.errors import Problem, SourceLocation, UnsupportedError
from padc.frontends.torch_export.archive import UnsafeError
from padc.frontends.torch_export.deciding_ops import (
    deciding_ops,
    example_sizes,
    first_ops_of_size,
)
from padc.frontends.torch_export.guards import (
    Guard,
    InputSize,
    guards_of,
    input_numbers,
    input_tensors,
    read_guard,
    shape_env_of,
)
from padc.frontends.torch_export.locations import (
    PADC_FOLDER,
    TORCH_FOLDER,
    node_location,
)
from padc.frontends.torch_export.size_limits import python, sources_of_symbols
from padc.frontends.torch_export.symbolic_sizes import as_affine
from padc.frontends.torch_export.types import expression_of
from padc.ir.torch import SymbolicIntOp

MOST_SIZES = 2**20
"""The sizes, or combinations of them, that are tried."""
INT32_MAX = 2**31 - 1
MOST_LEFT_OUT = 3
"""The smallest sizes of a range that a guard on several may cost."""

Ranges = Mapping[sympy.Symbol, tuple[int, int]]


def narrow_sizes(module: ModuleOp, ep: ExportedProgram) -> Sequence[str]:
    """
    Narrow the symbolic sizes that an import declared to those of the guards.

    A size of 0 goes, too: Core ML has no empty tensors. Returns messages:
    which sizes the guards exclude, and why no smaller ones are taken.

    Raises UnsupportedError where no ranges of sizes satisfy the guards.
    """
    declared = {
        op.symbol_name.data: op for op in module.walk() if isinstance(op, SymbolicIntOp)
    }
    ranges = {
        symbol: (
            max(1, declared[str(symbol)].min_val.value.data),
            declared[str(symbol)].max_val.value.data,
        )
        for symbol in ep.range_constraints
        if str(symbol) in declared
    }
    left = guarded_ranges(ep, ranges)
    for symbol, (low, high) in left.items():
        declared[str(symbol)].min_val = IntegerAttr(low, i64)
        declared[str(symbol)].max_val = IntegerAttr(high, i64)
    narrower = [symbol for symbol in ranges if left[symbol] != ranges[symbol]]
    guards, tensors = guards_of(ep, of_values=False), input_tensors(ep)
    guarded = [excluded(guards, tensors, x, ranges, left[x]) for x in narrower]
    reasons = [
        f"the package takes no smaller sizes: {op.reason.data}"
        for op in declared.values()
        if op.reason is not None and op.min_val.value.data > 1
    ]
    return [*guarded, *reasons]


def excluded(
    guards: Sequence[Guard],
    tensors: Sequence[torch.Tensor],
    symbol: sympy.Symbol,
    ranges: Ranges,
    left: tuple[int, int],
) -> str:
    """What is left of the sizes with a symbol, and the guards that exclude others."""
    reasons: list[Guard] = []
    for guard in guards:
        common = {each: ranges[each] for each in symbols_of(guard, tensors)}
        if symbol in common and not holds_in(guard, tensors, common).all():
            reasons.append(guard)
    places = {
        place: expression
        for guard in reasons
        for place in guard.sizes.values()
        if symbol in (expression := size_at(place, tensors)).free_symbols
    }
    place = min(places, key=lambda place: len(places[place].free_symbols))
    ends = [places[place].subs(symbol, end) for end in (*left, *ranges[symbol])]
    return (
        f"{place.what}: the package takes sizes of {ends[0]} to {ends[1]}, not of "
        f"{ends[2]} to {ends[3]}, since the model was exported where "
        + " and ".join(guard.text for guard in reasons)
    )


def guarded_ranges(ep: ExportedProgram, ranges: Ranges) -> Ranges:
    """
    The parts of `ranges` in which the program is the model.

    Args:
        ep: The program.
        ranges: The smallest and the largest value of each symbolic size.

    Returns:
        The same, or smaller ranges. A symbol without an upper bound is left out of
        guards of its own: Core ML refuses it anyway.

    Raises:
        UnsupportedError: The guards hold for other sizes than a range has.
    """
    tensors = input_tensors(ep)
    found: dict[sympy.Symbol, tuple[int, int]] = dict(ranges)
    # No package has a dimension whose size is a value.
    known = guards_of(ep, of_values=False)
    guards = [(guard, symbols_of(guard, tensors)) for guard in known]
    for symbol, (low, high) in ranges.items():
        own = [guard for guard, symbols in guards if symbols == [symbol]]
        if own and high - low < MOST_SIZES:
            found[symbol] = narrowed(ep, own, tensors, symbol, low, high)
        elif own and high < INT32_MAX:
            raise refused(ep, own, tensors, "its range is too large to try all sizes")
    for guard, symbols in guards:
        if len(symbols) != 1:
            common = {symbol: found[symbol] for symbol in symbols}
            found.update(narrowed_together(ep, guard, tensors, common))
    return found


def narrowed(
    ep: ExportedProgram,
    guards: Sequence[Guard],
    tensors: Sequence[torch.Tensor],
    symbol: sympy.Symbol,
    low: int,
    high: int,
) -> tuple[int, int]:
    """The range of one symbol in which guards on it alone hold."""
    sizes = np.arange(low, high + 1)
    right = np.ones(len(sizes), bool)
    for guard in guards:
        right &= holds_in(guard, tensors, {symbol: (low, high)})
    if not right.any():
        raise refused(ep, guards, tensors, "no size in its range fits")
    first, last = int(right.argmax()), len(sizes) - 1 - int(right[::-1].argmax())
    if not right[first : last + 1].all():
        gaps = [g for g in guards if not has_range(g, tensors, symbol, low, high)]
        listed = ", ".join(map(str, sizes[right][:4]))
        raise refused(ep, gaps, tensors, f"it holds for the sizes {listed} ... only")
    return int(sizes[first]), int(sizes[last])


def has_range(
    guard: Guard,
    tensors: Sequence[torch.Tensor],
    symbol: sympy.Symbol,
    low: int,
    high: int,
) -> bool:
    """Whether a guard on one symbol holds in a range."""
    right = holds_in(guard, tensors, {symbol: (low, high)}).astype(int)
    return int(np.count_nonzero(np.diff(right, prepend=0, append=0))) <= 2


def narrowed_together(
    ep: ExportedProgram, guard: Guard, tensors: Sequence[torch.Tensor], ranges: Ranges
) -> Ranges:
    """
    Ranges of several symbols in which a guard on all of them holds.

    PyTorch keeps apart what it computes for sizes of 1 and 2, or of windows of them:
    `8*h*w != 16*w`. So only sizes below those of the example are left out, as few as
    will do. Other relations between sizes are refused: no choice of ranges follows from
    them.
    """
    if prod(high - low + 1 for low, high in ranges.values()) > MOST_SIZES:
        raise refused(ep, [guard], tensors, "not all sizes can be tried")
    right = holds_in(guard, tensors, ranges)
    examples = example_sizes(tensors)
    most = [
        max(0, min(MOST_LEFT_OUT, examples.get(symbol, low) - low))
        for symbol, (low, _) in ranges.items()
    ]
    for left_out in fewest_first(most):
        kept = right[tuple(slice(n, None) for n in left_out)]
        if kept.all():
            each = zip(ranges.items(), left_out, strict=True)
            return {s: (low + n, high) for (s, (low, high)), n in each}
    raise refused(ep, [guard], tensors, "it does not hold for all of them")


def fewest_first(most: Sequence[int]) -> list[tuple[int, ...]]:
    """How many of the smallest sizes to leave out of each range: so many at most."""
    return sorted(itertools.product(*(range(each + 1) for each in most)), key=sum)


def holds_in(
    guard: Guard, tensors: Sequence[torch.Tensor], ranges: Ranges
) -> np.ndarray:
    """Whether a guard holds, for each combination of sizes; an axis for each symbol."""
    axes = [np.arange(low, high + 1) for low, high in ranges.values()]
    grids = np.meshgrid(*axes, indexing="ij", sparse=True)
    right = holds(guard, tensors, dict(zip(ranges, grids, strict=True)))
    return np.broadcast_to(right, [len(axis) for axis in axes])


def holds(
    guard: Guard, tensors: Sequence[torch.Tensor], values: Mapping[sympy.Symbol, Any]
) -> Any:
    """Whether a guard holds, for arrays of values of symbols."""
    symbols = list(values)

    def for_all(values: Sequence[Any]) -> Any:
        def size(each: InputSize) -> Any:
            expression = size_at(each, tensors)
            return as_affine(expression, symbols).eval([], list(values))

        with np.errstate(divide="raise", invalid="raise"):
            return guard.holds(size)

    def halved(rows: np.ndarray) -> np.ndarray:
        """The same for a row of values for each symbol."""
        count = rows.shape[1]
        try:
            return np.broadcast_to(for_all(list(rows)), count)
        except (FloatingPointError, ZeroDivisionError):
            if count == 1:
                return np.zeros(1, bool)  # As `Guard.holds_for`.
            halves = rows[:, : count // 2], rows[:, count // 2 :]
            return np.concatenate([*map(halved, halves)])

    try:
        return for_all(list(values.values()))
    except (FloatingPointError, ZeroDivisionError):  # It does so for some values.
        if not values:
            return False
        arrays = np.broadcast_arrays(*values.values())
        rows = np.stack([array.ravel() for array in arrays])
        return halved(rows).reshape(arrays[0].shape)


def size_at(place: InputSize, tensors: Sequence[torch.Tensor]) -> sympy.Expr:
    return expression_of(tensors[place.number].shape[place.dim])


def symbols_of(guard: Guard, tensors: Sequence[torch.Tensor]) -> list[sympy.Symbol]:
    """The symbols that a guard depends on, in order."""
    found: set[sympy.Symbol] = set()
    for size in guard.sizes.values():
        found |= cast(set[sympy.Symbol], size_at(size, tensors).free_symbols)
    return sorted(found, key=str)


def refused(
    ep: ExportedProgram,
    guards: Sequence[Guard],
    tensors: Sequence[torch.Tensor],
    why: str,
) -> UnsupportedError:
    """The message for guards that no range of sizes satisfies."""
    problems: list[Problem] = []
    for guard in guards:
        what = " and ".join(size.what for size in dict.fromkeys(guard.sizes.values()))
        problems.append(
            Problem(
                f"{what}: the model was exported where {guard.text}; {why}",
                guard_location(ep, guard, tensors),
                "raise the minimum of the dimension, give it a static size, or one "
                "such as 4*Dim('n', max=16), when exporting; or list its shapes: "
                "docs/app.md",
            )
        )
    return UnsupportedError(problems)


def guard_location(
    ep: ExportedProgram, guard: Guard, tensors: Sequence[torch.Tensor]
) -> SourceLocation | None:
    """The line that a guard is for; None if it cannot be told."""
    env, inputs = shape_env_of(ep), input_numbers(ep)
    if env is None:
        return None
    sources = sources_of_symbols(ep, inputs)
    found: set[SourceLocation] = set()
    conditions: list[sympy.Basic] = []
    for each in env.guards:
        with contextlib.suppress(UnsupportedError, UnsafeError):
            if read_guard(python(each.expr, sources), inputs).text == guard.text:
                found |= lines_of(ep, getattr(each.sloc, "framework_loc", None))
                conditions.append(each.expr)
    if not found:
        ops = deciding_ops(ep, guard) or first_ops_of_size(ep, conditions)
        found.update(filter(None, (SourceLocation.of(node_location(n)) for n in ops)))
    return found.pop() if len(found) == 1 else None


def lines_of(ep: ExportedProgram, frame: Any) -> set[SourceLocation]:
    """The user's lines for a line that decided, which may be in PyTorch."""
    if not hasattr(frame, "filename"):
        return set()
    if frame.filename.startswith(PADC_FOLDER):
        return set()  # It was saved: `restore_guards` does not know the line.
    if not frame.filename.startswith(TORCH_FOLDER):
        return {SourceLocation(frame.filename, frame.lineno)}
    # A function of PyTorch: the lines of the graph that call a function of its name.
    located = (SourceLocation.of(node_location(node)) for node in ep.graph.nodes)
    return {each for each in located if each and f"{frame.name}(" in each.text}
