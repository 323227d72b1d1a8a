# pyright: basic
"""
What `decompose-pads` builds shows the elements that the pad does, proved by z3.

Its functions run on a builder of index maps instead of ops: a tensor of one dimension
is a size and a function from a place to an element, both for all sizes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pytest
import z3
from pad_modes import MODES, legal_constant, size_after, within
from proofs import holds, ints, largest, proves, smallest, symbolic
from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType, i64

from padc.ir import tcp
from padc.ir.padding import Amounts
from padc.passes.tcp_to_mil import decompose_pads
from padc.passes.tcp_to_mil.decompose_pads import (
    gather_with_fill,
    insert_between,
    pad_by,
    pad_by_slices,
)

ELEMENT = z3.Function("element", z3.IntSort(), z3.IntSort())
FILL = -7
CLASSES = {
    "replicate": tcp.ReplicationPadOp,
    "reflect": tcp.ReflectionPadOp,
    "circular": tcp.CircularPadOp,
    "symmetric": tcp.SymmetricPadOp,
}
AMOUNTS = [*itertools.product(range(-2, 4), repeat=2)]


@dataclass(frozen=True)
class Sequence1:
    """A tensor of one dimension."""

    size: Any
    at: Callable[[Any], Any]


@dataclass(frozen=True)
class Integer:
    """What a builder's `wrap` returns."""

    value: Any

    def __add__(self, other: Any) -> Integer:
        return Integer(self.value + value_of(other))

    def __sub__(self, other: Any) -> Integer:
        return Integer(self.value - value_of(other))

    def __rsub__(self, other: Any) -> Integer:
        return Integer(value_of(other) - self.value)


def value_of(x: Any) -> Any:
    return x.value if isinstance(x, Integer) else x


@dataclass
class IndexMaps:
    """The methods of `AtenBuilder` that the pads use, on index maps."""

    obligations: list[Any] = field(default_factory=list)
    """What has to be true for the ops to be legal."""

    def size(self, x: Sequence1, dim: int) -> Any:
        return x.size

    def sizes(self, x: Any) -> list[Any]:
        return [x.size] if isinstance(x, Sequence1) else list(x.sizes)

    def wrap(self, value: Any) -> Integer:
        return Integer(value)

    def mul(self, a: Any, b: Any) -> Any:
        return a * b

    def product(self, sizes: Sequence[Any]) -> Any:
        return math.prod(sizes)

    def slice(self, x: Sequence1, dim: int, start: int, end: int | None) -> Sequence1:
        def bound(value: int) -> Any:
            return largest(x.size + value, 0) if value < 0 else smallest(value, x.size)

        first, last = bound(start), x.size if end is None else bound(end)
        return Sequence1(largest(last - first, 0), lambda i: x.at(first + i))

    def cat(self, parts: Sequence[Sequence1], dim: int) -> Sequence1:
        def at(i: Any) -> Any:
            result: Any = None
            ends = list(itertools.accumulate(part.size for part in parts))
            for part, end in [*zip(parts, ends, strict=True)][::-1]:
                here = part.at(i - (end - part.size))
                result = here if result is None else z3.If(i < end, here, result)
            return result

        return Sequence1(sum(part.size for part in parts), at)

    def flip(self, x: Sequence1, dims: Sequence[int]) -> Sequence1:
        return Sequence1(x.size, lambda i: x.at(x.size - 1 - i))

    def repeat(self, x: Sequence1, dim: int, times: int) -> Sequence1:
        self.obligations.append(x.size == 1)
        return Sequence1(times, lambda i: x.at(0))

    def full(self, sizes: Sequence[Any], fill: Any, like: Any) -> Any:
        if len(sizes) == 1:
            return Sequence1(sizes[0], lambda i: z3.IntVal(fill))
        return Spread(list(sizes), lambda i, between: z3.IntVal(fill))

    def arange(self, start: Any, end: Any) -> Sequence1:
        return Sequence1(largest(end - start, 0), lambda i: start + i)

    def elementwise(self, name: str, x: Sequence1, min: Any, max: Any) -> Sequence1:
        assert name == "clamp"
        return Sequence1(x.size, lambda i: smallest(largest(x.at(i), min), max))

    def index_select(self, x: Sequence1, dim: int, index: Sequence1) -> Sequence1:
        j = z3.Int("j")
        reads = within(index.at(j), x.size)
        self.obligations.append(z3.Implies(within(j, index.size), reads))
        return Sequence1(index.size, lambda i: x.at(index.at(i)))


INPUT = Sequence1(z3.Int("size"), ELEMENT)


@pytest.fixture(autouse=True)
def formulas_of_integers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Pads of integers are concatenations; those of floats are one op of Core ML."""
    type = TensorType(i64, [1])
    monkeypatch.setattr(decompose_pads, "tensor_type", lambda x: type)
    with symbolic():
        yield


def shows(result: Sequence1, size: Any, element: Callable[[Any], Any]) -> Any:
    j = z3.Int("j")
    same = result.at(j) == element(j)
    return z3.And(result.size == size, z3.Implies(within(j, size), same))


@proves("decompose-pads")
@pytest.mark.parametrize("mode", MODES)
def test_slices_of_a_border_pad_show_its_elements(mode: str):
    legal, source, _ = MODES[mode]
    kind: Any = CLASSES[mode]
    size = INPUT.size
    for lower, upper in AMOUNTS:
        build: Any = IndexMaps()
        amounts: Any = Amounts(lower, upper)
        result: Any = pad_by_slices(build, kind, INPUT, 0, amounts)  # type: ignore
        given = z3.And(legal(size, amounts), size > 0)
        claim = shows(
            result,
            size_after(size, amounts),
            lambda j: ELEMENT(source(j, size, amounts)),
        )

        assert holds(claim, given), amounts
        assert all(holds(each, given) for each in build.obligations)
    # By one too many.
    more: Any = Amounts(2, 1)
    build = IndexMaps()
    result = pad_by_slices(build, kind, INPUT, 0, Amounts(1, 1))  # type: ignore
    wrong = shows(result, size + 3, lambda j: ELEMENT(source(j, size, more)))
    assert not holds(wrong, legal(size, more), size > 0)


@dataclass(frozen=True)
class Spread:
    """A tensor of the sizes [1, size, count, 1]: what lies between elements."""

    sizes: list[Any]
    at: Callable[[Any, int], Any]


@dataclass
class SpreadingMaps(IndexMaps):
    """Index maps for `insert_between`, which reshapes."""

    COUNT: ClassVar[int]

    def reshape(self, x: Any, shape: Sequence[Any]) -> Any:
        if isinstance(x, Sequence1):
            assert [shape[0], shape[2], shape[3]] == [1, 1, 1]
            return Spread(list(shape), lambda i, between: x.at(i))
        (size,) = shape
        count = x.sizes[2]
        return Sequence1(size, lambda i: x.at(i / count, i % count))

    def cat(self, parts: Sequence[Any], dim: int) -> Any:
        if isinstance(parts[0], Sequence1):
            return super().cat(parts, dim)
        if len(parts) == 1:
            return parts[0]
        assert dim == 2 and parts[0].sizes[2] == 1
        first, second = parts
        sizes = [*first.sizes[:2], 1 + second.sizes[2], 1]

        def at(i: Any, between: Any) -> Any:
            return z3.If(between == 0, first.at(i, 0), second.at(i, between - 1))

        return Spread(sizes, at)


def padded(size: Any, amounts: Any) -> Callable[[Any], Any]:
    """The elements of a constant pad."""

    def element(j: Any) -> Any:
        at = j - amounts.lower
        step = amounts.interior + 1
        shown = z3.And(at % step == 0, within(at / step, size))
        return z3.If(shown, ELEMENT(at / step), FILL)

    return element


@proves("decompose-pads")
@pytest.mark.parametrize("static", [True, False], ids=["crop first", "crop last"])
def test_concatenations_of_a_constant_pad_show_its_elements(
    static: bool, monkeypatch: pytest.MonkeyPatch
):
    size = INPUT.size
    type = TensorType(i64, [1 if static else DYNAMIC_INDEX])
    monkeypatch.setattr(decompose_pads, "tensor_type", lambda x: type)
    for lower, upper in AMOUNTS:
        build: Any = IndexMaps()
        amounts = Amounts(lower, upper)
        result: Any = pad_by(build, INPUT, [amounts], FILL)  # type: ignore
        claim = shows(result, size_after(size, amounts), padded(size, amounts))

        assert holds(claim, legal_constant(size, amounts))


@proves("decompose-pads")
def test_fills_between_elements():
    size = INPUT.size
    for count in range(1, 5):
        build: Any = SpreadingMaps()
        amounts = Amounts(0, 0, count)
        result: Any = insert_between(build, INPUT, 0, count, FILL)  # type: ignore
        claim = shows(result, size_after(size, amounts), padded(size, amounts))

        assert holds(claim, size > 0)
        # The first fill of no elements cannot be cropped.
        assert holds(claim, size >= 0)


@proves("decompose-pads")
def test_a_gather_from_between_fills_is_a_pad():
    build: Any = IndexMaps()
    size, (lower, upper) = INPUT.size, ints("lower upper")
    none: Any = z3.IntVal(0)
    amounts: Any = Amounts(lower, upper, none)
    result: Any = gather_with_fill(build, INPUT, 0, (lower, upper), FILL)  # type: ignore
    claim = shows(result, size_after(size, amounts), padded(size, amounts))
    given = z3.And(legal_constant(size, amounts), size >= 0)

    assert holds(claim, given)
    assert all(holds(each, given) for each in build.obligations)
    moved: Any = Amounts(lower + 1, upper - 1, none)
    assert not holds(shows(result, size_after(size, moved), padded(size, moved)), given)
