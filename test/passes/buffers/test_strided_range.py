"""Disjoint strided ranges, proved by z3 for all offsets and sizes."""

import itertools
import random
from typing import Any

import pytest
import z3

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


def ints(names: str) -> Any:
    return z3.Ints(names)


def holds(claim: Any, *given: Any) -> bool:
    solver = z3.Solver()
    solver.set("timeout", 60_000)
    solver.add(*given, z3.Not(claim))
    result = solver.check()
    assert result != z3.unknown
    return result == z3.unsat


def has(x: StridedRange, index: Any, place: Any) -> Any:
    """That `place` is the place of `x` with number `index`."""
    ends: Any = True if x.size is None else index < x.size
    return z3.And(index >= 0, ends, place == x.offset + index * x.stride)


@pytest.mark.parametrize("known", [(True, True), (True, False), (False, False)])
@pytest.mark.parametrize("strides", PAIRS)
def test_disjoint_ranges_share_no_place(
    strides: tuple[int, int], known: tuple[bool, bool]
):
    offset_a, offset_b, size_a, size_b, i, j, place = ints("a b n m i j place")
    a = StridedRange(offset_a, size_a if known[0] else None, strides[0])
    b = StridedRange(offset_b, size_b if known[1] else None, strides[1])

    shared = z3.And(has(a, i, place), has(b, j, place))

    assert holds(z3.Not(shared), disjoint(a, b))


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
