"""Disjoint strided ranges, proved by z3 for all offsets and sizes."""

import itertools
import random
from typing import Any

import pytest
import z3
from proofs import holds, ints, proves

from padc.passes.buffers.fill_border_only import borders
from padc.passes.buffers.strided_range import StridedRange, disjoint

STRIDES = 6
"""Each pair of strides up to this is proved: over all strides, z3 does not finish."""
PAIRS = [*itertools.product(range(1, STRIDES + 1), repeat=2)]


@pytest.fixture(autouse=True)
def floor_division(monkeypatch: pytest.MonkeyPatch) -> None:
    """Division of z3's integers by positive ones rounds down, as `//` does."""

    def floordiv(a: Any, b: Any) -> Any:
        return a / b

    monkeypatch.setattr(z3.ArithRef, "__floordiv__", floordiv, raising=False)


def has(x: StridedRange, index: Any, place: Any) -> Any:
    """That `place` is the place of `x` with number `index`."""
    ends: Any = True if x.size is None else index < x.size
    return z3.And(index >= 0, ends, place == x.offset + index * x.stride)


@proves("pad-into-producer")
@pytest.mark.parametrize("known", [(True, True), (True, False), (False, False)])
@pytest.mark.parametrize("strides", PAIRS)
def test_disjoint_ranges_share_no_place(
    strides: tuple[int, int], known: tuple[bool, bool]
):
    offset_a, offset_b, size_a, size_b, i, j, place = ints("a b n m i j place")
    a = StridedRange(offset_a, size_a if known[0] else None, strides[0])
    b = StridedRange(offset_b, size_b if known[1] else None, strides[1])

    shared = z3.And(has(a, i, place), has(b, j, place))

    # No ranges of unknown sizes are disjoint, for some strides.
    assert holds(z3.Implies(disjoint(a, b), z3.Not(shared)))


@pytest.mark.parametrize("strides", PAIRS)
def test_ranges_that_are_not_disjoint_share_a_place(strides: tuple[int, int]):
    offset_a, offset_b, size_a, size_b = ints("a b n m")
    a = StridedRange(offset_a, size_a, strides[0])
    b = StridedRange(offset_b, size_b, strides[1])

    one, other = a.first_common(b), b.first_common(a)
    place: Any = z3.If(one > other, one, other)
    i, j = ((place - x.offset) / x.stride for x in (a, b))

    assert holds(z3.And(has(a, i, place), has(b, j, place)), z3.Not(disjoint(a, b)))


def test_the_proof_refutes_ranges_compared_without_their_strides():
    offset_a, offset_b, size_a, size_b, i, j, place = ints("a b n m i j place")
    a = StridedRange(offset_a, size_a, 2)
    b = StridedRange(offset_b, size_b, 1)
    claimed = z3.Or(offset_a + size_a <= offset_b, offset_b + size_b <= offset_a)

    shared = z3.And(has(a, i, place), has(b, j, place))

    assert not holds(z3.Not(shared), claimed)


def test_ranges_of_longer_strides():
    draw = random.Random(0)
    results: list[bool] = []
    for _ in range(5000):
        a, b = (
            StridedRange(
                draw.randint(-50, 50), draw.randint(0, 12), draw.randint(1, 40)
            )
            for _ in range(2)
        )
        expected = set(places(a)).isdisjoint(places(b))
        assert disjoint(a, b) == expected, (a, b)
        results.append(expected)
    assert 500 < sum(results) < 4500


def test_a_part_of_a_range():
    draw = random.Random(0)
    for _ in range(500):
        whole = StridedRange(draw.randint(0, 9), 30, draw.randint(1, 5))
        part = StridedRange(draw.randint(0, 9), draw.randint(0, 5), draw.randint(1, 4))
        expected = [places(whole)[i] for i in places(part)]
        assert list(places(whole.part(part))) == expected


def places(x: StridedRange) -> range:
    assert x.size is not None
    return range(x.offset, x.offset + x.size * x.stride, x.stride)


class Formulas:
    """What `borders` builds its sizes with, on z3's integers."""

    def add(self, a: Any, b: Any) -> Any:
        return a + b

    def sub(self, a: Any, b: Any) -> Any:
        return a - b


@proves("fill-border-only")
@pytest.mark.parametrize("rank", range(1, 5))
def test_each_place_is_in_the_part_or_in_one_border(rank: int):
    low, inner, full, place = (
        [z3.Int(f"{name}{dim}") for dim in range(rank)]
        for name in ("low", "inner", "full", "place")
    )

    def covers(offsets: Any, sizes: Any) -> Any:
        sides = zip(offsets, sizes, place, strict=True)
        return z3.And([z3.And(at <= p, p < at + size) for at, size, p in sides])

    build: Any = Formulas()
    sizes: Any = low, inner, full
    parts = [covers(*part) for part in borders(build, *sizes)]
    inside = [
        z3.And(a >= 0, b >= 0, a + b <= c, 0 <= p, p < c)
        for a, b, c, p in zip(low, inner, full, place, strict=True)
    ]
    number = z3.Sum([z3.If(each, 1, 0) for each in (covers(low, inner), *parts)])

    assert holds(number == 1, *inside)
    # Without the last border there is a gap.
    without = z3.Sum([z3.If(each, 1, 0) for each in (covers(low, inner), *parts[:-1])])
    assert not holds(without == 1, *inside)


def test_borders_leave_their_parts_in_the_buffer():
    build: Any = Formulas()
    ((_, below), (offset, above)) = borders(build, [2], [3], [9])
    assert (below, offset, above) == ([2], [5], [4])
