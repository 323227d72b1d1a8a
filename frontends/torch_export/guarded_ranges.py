# pyright: basic
"""The sizes for which all guards of a program hold, as Core ML can have them."""

from __future__ import annotations

import contextlib
import itertools
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, cast

import numpy as np
import sympy
import torch
from torch.export import ExportedProgram
from torch.utils._sympy.value_ranges import ValueRanges, bound_sympy
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64

from padc.common.archive import UnsafeError
from padc.errors import Problem, SourceLocation, UnsupportedError
from padc.frontends.torch_export.asked_sizes import asked_sizes
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
from padc.frontends.torch_export.small_sizes import LEAST
from padc.frontends.torch_export.symbolic_sizes import as_affine
from padc.frontends.torch_export.types import expression_of
from padc.ir.torch import SymbolicIntOp

MOST_SIZES = 2**20
"""The sizes, or combinations of them, that are tried."""
INT32_MAX = 2**31 - 1
MOST_LEFT_OUT = 3
"""The smallest sizes of a range that a guard on several may cost."""

Values = Mapping[sympy.Symbol, Sequence[int]]
"""Values of symbolic sizes, in order."""


@dataclass(frozen=True)
class Kept:
    """What is left of the values of a symbolic size."""

    values: Sequence[int]
    """In order: a `range`, or a list of those with gaps."""
    guards: Sequence[Guard] = ()
    """The guards that exclude others."""
    guards_with_gaps: Sequence[Guard] = ()
    """Those that exclude values between others."""

    @property
    def has_gaps(self) -> bool:
        return not isinstance(self.values, range)

    def of(self, values: Sequence[int]) -> Kept:
        """The same with some of the values, as a `range` if they are one."""
        whole = range(values[0], values[-1] + 1)
        return replace(self, values=whole if len(values) == len(whole) else values)


@dataclass(frozen=True)
class Narrowed:
    """What is left of the sizes of a program."""

    messages: Sequence[str]
    """Which sizes are excluded, and why."""
    values_with_gaps: Mapping[str, Sequence[int]]
    """Those of the symbols, by name, of which not all in a range are left."""
    guards_with_gaps: Sequence[Guard]
    """The guards that exclude sizes between these."""


def narrow_sizes(module: ModuleOp, ep: ExportedProgram) -> Narrowed:
    """
    Narrow the symbolic sizes that an import declared to those of the guards.

    A size of 0 goes, too: Core ML has no empty tensors.

    Raises UnsupportedError where Core ML cannot have the sizes that satisfy the guards.
    """
    declared = {
        op.symbol_name.data: op for op in module.walk() if isinstance(op, SymbolicIntOp)
    }
    ranges = {
        symbol: range(
            max(1, declared[str(symbol)].min_val.value.data),
            declared[str(symbol)].max_val.value.data + 1,
        )
        for symbol in ep.range_constraints
        if str(symbol) in declared
    }
    left = guarded_values(ep, ranges)
    for symbol, kept in left.items():
        declared[str(symbol)].min_val = IntegerAttr(kept.values[0], i64)
        declared[str(symbol)].max_val = IntegerAttr(kept.values[-1], i64)
    tensors = input_tensors(ep)
    asked = asked_in_vain(ep, left)
    told = {size for size, _ in asked}
    guarded = [
        excluded(tensors, symbol, ranges[symbol], kept)
        for symbol, kept in left.items()
        if kept.guards and symbol not in told
    ]
    reasons = [
        f"the package takes no smaller sizes: {op.reason.data}"
        for op in declared.values()
        if op.reason is not None and op.min_val.value.data > 1
    ]
    with_gaps = {str(x): kept for x, kept in left.items() if kept.has_gaps}
    return Narrowed(
        [*(message for _, message in asked), *guarded, *reasons],
        {name: kept.values for name, kept in with_gaps.items()},
        [guard for kept in with_gaps.values() for guard in kept.guards_with_gaps],
    )


def excluded(
    tensors: Sequence[torch.Tensor], symbol: sympy.Symbol, given: range, kept: Kept
) -> str:
    """What is left of the sizes with a symbol, and the guards that exclude others."""
    places = {
        place: expression
        for guard in kept.guards
        for place in guard.sizes.values()
        if symbol in (expression := size_at(place, tensors)).free_symbols
    }
    place = min(places, key=lambda place: len(places[place].free_symbols))

    def size(value: int) -> int:
        return int(places[place].subs(symbol, value))

    return too_few(place.what, kept, given, exported_where(kept.guards), size)


def asked_in_vain(
    ep: ExportedProgram, left: Mapping[sympy.Symbol, Kept]
) -> list[tuple[sympy.Expr, str]]:
    """
    The sizes that take less than the bounds that were asked for, with messages.

    torch.export narrows bounds by itself: by guards, and to 2 or more.
    """
    tensors, names = input_tensors(ep), dict(input_numbers(ep).values())
    lost: list[tuple[Any, InputSize, Kept, range]] = []
    for (number, dim), (low, high) in asked_sizes(ep).items():
        place = InputSize.of(number, dim, names[number])
        size: Any = size_at(place, tensors)
        kept = left.get(size) or kept_of(size, left)
        least, most = kept.values[0], kept.values[-1]
        given = range(max(1, LEAST if low is None else low), (high or most) + 1)
        is_asked = given and (high is not None or not size.is_number)
        if is_asked and (least > given[0] or most < given[-1]):
            lost.append((size, place, kept, given))
    known = guards_of(ep, of_values=False) if lost else []
    return [
        (size, too_few(place.what, kept, given, why_less(known, place, kept, given)))
        for size, place, kept, given in lost
    ]


def why_less(known: Sequence[Guard], place: InputSize, kept: Kept, given: range) -> str:
    """Why torch.export left less of a size than was asked for."""
    least, most = kept.values[0], kept.values[-1]
    is_small = least == LEAST and most >= given[-1]
    guards = [*kept.guards]
    guards += (
        guard
        for guard in known
        if excludes_an_end(guard, place, given)
        or (not is_small and is_shared(guard, place))
    )
    if guards:
        return exported_where(guards)
    if most < LEAST:
        return (
            "torch.export takes a size of 0 or 1 in the example for a constant; give "
            "an example of another size"
        )
    if is_small:
        return (
            "torch.export takes sizes of 0 and 1 for constants there; "
            f"Dim('n', min={given[0]}, max={given[-1]}) may take them"
        )
    # PyTorch 2.8 keeps no guards.
    return "torch.export left no others; give bounds that the model takes"


def kept_of(size: sympy.Expr, left: Mapping[sympy.Symbol, Kept]) -> Kept:
    """The least and the largest of a computed size, and all between."""
    ranges = {
        x: ValueRanges(each.values[0], each.values[-1]) for x, each in left.items()
    }
    bounds = bound_sympy(size, cast(Any, ranges))
    return Kept(range(int(bounds.lower), int(bounds.upper) + 1))


def excludes_an_end(guard: Guard, place: InputSize, given: range) -> bool:
    """Whether a guard on a size alone does not hold for both ends of a range."""
    return {*guard.sizes.values()} == {place} and not all(
        guard.holds_for(lambda _: end) for end in (given[0], given[-1])
    )


def is_shared(guard: Guard, place: InputSize) -> bool:
    """Whether a guard is on a size and others."""
    places = {*guard.sizes.values()}
    return place in places and len(places) > 1


def exported_where(guards: Iterable[Guard]) -> str:
    texts = dict.fromkeys(guard.text for guard in guards)
    return f"the model was exported where {' and '.join(texts)}"


def too_few(
    what: str,
    kept: Kept,
    given: range,
    why: str,
    size: Callable[[int], int] = lambda value: value,
) -> str:
    """Which of the given sizes are left, for values of a symbol."""
    low, high = size(given[0]), size(given[-1])
    if kept.has_gaps:
        sizes = [str(size(value)) for value in kept.values]
        shown = sizes if len(sizes) < 5 else [*sizes[:3], "...", sizes[-1]]
        taken = f"{len(sizes)} of the sizes of {low} to {high} ({', '.join(shown)})"
    elif len(kept.values) > 1:
        first, last = size(kept.values[0]), size(kept.values[-1])
        taken = f"sizes of {first} to {last}, not of {low} to {high}"
    else:
        taken = f"the size {size(kept.values[0])}, not those of {low} to {high}"
    return f"{what}: the package takes {taken}, since {why}"


def guarded_values(
    ep: ExportedProgram, ranges: Mapping[sympy.Symbol, range]
) -> Mapping[sympy.Symbol, Kept]:
    """
    The values in `ranges` for which the program is the model.

    Args:
        ep: The program.
        ranges: The values of each symbolic size.

    Returns:
        The values that are left. A symbol without an upper bound is left out of guards
        of its own: Core ML refuses it anyway.

    Raises:
        UnsupportedError: The guards hold for no value, not for all combinations of
            values, or for too many to try.
    """
    tensors = input_tensors(ep)
    found = {symbol: Kept(values) for symbol, values in ranges.items()}
    # No package has a dimension whose size is a value.
    known = guards_of(ep, of_values=False)
    guards = [(guard, symbols_of(guard, tensors)) for guard in known]
    for symbol, values in ranges.items():
        own = [guard for guard, symbols in guards if symbols == [symbol]]
        if own and len(values) <= MOST_SIZES:
            found[symbol] = narrowed(ep, own, tensors, symbol, values)
        elif own and values[-1] < INT32_MAX:
            raise refused(ep, own, "its range is too large to try all sizes")
    for guard, symbols in guards:
        if len(symbols) != 1:
            common = {symbol: found[symbol].values for symbol in symbols}
            left = narrowed_together(ep, guard, tensors, common)
            for symbol, values in left.items():
                if len(values) < len(common[symbol]):
                    reasons = *found[symbol].guards, guard
                    found[symbol] = replace(found[symbol], guards=reasons).of(values)
    return found


def narrowed(
    ep: ExportedProgram,
    guards: Sequence[Guard],
    tensors: Sequence[torch.Tensor],
    symbol: sympy.Symbol,
    values: range,
) -> Kept:
    """The values of one symbol for which guards on it alone hold."""
    right = [holds_in(guard, tensors, {symbol: values}) for guard in guards]
    places = np.flatnonzero(np.all(right, 0)).tolist()
    if not places:
        raise refused(ep, guards, "no size in its range fits")
    each = [*zip(guards, right, strict=True)]
    return Kept(
        values,
        [guard for guard, holds in each if not holds.all()],
        [guard for guard, holds in each if not is_range(np.flatnonzero(holds))],
    ).of([values[place] for place in places])


def is_range(places: np.ndarray) -> bool:
    """Whether rising numbers follow one another."""
    return len(places) == places[-1] - places[0] + 1


def narrowed_together(
    ep: ExportedProgram, guard: Guard, tensors: Sequence[torch.Tensor], values: Values
) -> Values:
    """
    Values of several symbols for which a guard on all of them holds.

    PyTorch keeps apart what it computes for sizes of 1 and 2, or of windows of them:
    `8*h*w != 16*w`. So only sizes below those of the example are left out, as few as
    will do. Other relations between sizes are refused: no choice of ranges follows from
    them.
    """
    if prod(map(len, values.values())) > MOST_SIZES:
        raise refused(ep, [guard], "not all sizes can be tried")
    right = holds_in(guard, tensors, values)
    examples = example_sizes(tensors)
    most = [
        min(MOST_LEFT_OUT, bisect_left(own, examples.get(symbol, own[0])))
        for symbol, own in values.items()
    ]
    for left_out in fewest_first(most):
        kept = right[tuple(slice(n, None) for n in left_out)]
        if kept.all():
            each = zip(values.items(), left_out, strict=True)
            return {symbol: own[n:] for (symbol, own), n in each}
    raise refused(ep, [guard], "it does not hold for all of them")


def fewest_first(most: Sequence[int]) -> list[tuple[int, ...]]:
    """How many of the smallest sizes to leave out of each range: so many at most."""
    return sorted(itertools.product(*(range(each + 1) for each in most)), key=sum)


def holds_in(
    guard: Guard, tensors: Sequence[torch.Tensor], values: Values
) -> np.ndarray:
    """Whether a guard holds, for all combinations of values; a symbol has an axis."""
    axes = [np.array(each, dtype=np.int64) for each in values.values()]
    grids = np.meshgrid(*axes, indexing="ij", sparse=True)
    right = holds(guard, tensors, dict(zip(values, grids, strict=True)))
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


def refused(ep: ExportedProgram, guards: Sequence[Guard], why: str) -> UnsupportedError:
    """The message for guards by which Core ML cannot choose its sizes."""
    problems: list[Problem] = []
    for guard in guards:
        what = " and ".join(size.what for size in dict.fromkeys(guard.sizes.values()))
        problems.append(
            Problem(
                f"{what}: the model was exported where {guard.text}; {why}",
                guard_location(ep, guard),
                "give the dimension a smaller range, a static size, or one such as "
                "4*Dim('n', max=16), when exporting; or list the shapes of all inputs: "
                "docs/app.md",
            )
        )
    return UnsupportedError(problems)


def guard_location(ep: ExportedProgram, guard: Guard) -> SourceLocation | None:
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
