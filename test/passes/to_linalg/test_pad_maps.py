# pyright: basic
"""What `convert-tcp-to-linalg` writes for pads shows their elements, proved by z3."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import z3
from pad_modes import MODES, legal_constant, size_after, within
from proofs import holds, ints, proves, symbolic
from symbolic_run import Array, SymbolicRun, argument, lowered, same
from xdsl.dialects.builtin import DYNAMIC_INDEX, IndexType, TensorType, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from padc.ir import tcp
from padc.ir.padding import Amounts

CLASSES = {
    "replicate": tcp.ReplicationPadOp,
    "reflect": tcp.ReflectionPadOp,
    "circular": tcp.CircularPadOp,
    "symmetric": tcp.SymmetricPadOp,
}
AMOUNTS = [*itertools.product((-2, -1, 0, 1, 3), repeat=2)]
j, FILL = ints("j fill")
X = argument("x", 1)
(SIZE,) = X.sizes


@pytest.fixture(autouse=True)
def formulas_of_integers() -> Iterator[None]:
    with symbolic():
        yield


def vector(size: int = DYNAMIC_INDEX) -> TensorType[Any]:
    return TensorType(i64, [size])


def claim(result: Array, size: Any, expected: Any) -> Any:
    return same(Array([size], lambda _: expected), result, [j])


def constant_pad_element(amounts: Any) -> Any:
    at, step = j - amounts.lower, amounts.interior + 1
    shown = z3.And(at % step == 0, within(at / step, SIZE))
    return z3.If(shown, X.at([at / step]), FILL)


def check(
    function: FuncOp, inputs: Sequence[Any], amounts: Any, element: Any, given: Any
):
    """The result has the size and elements of the pad, and all ops are legal."""
    run, (result,) = SymbolicRun.of(function, *inputs)
    size = size_after(SIZE, amounts)
    shows = claim(result, size, element)

    assert holds(shows, given)
    # Those of the loop's body arise from its element at j.
    inside = z3.Implies(within(j, size), z3.And(*run.obligations))
    assert holds(inside, given)
    assert not holds(claim(result, size + 1, element), given)


@proves("convert-tcp-to-linalg: pads")
@pytest.mark.parametrize("between", range(3))
def test_constant_pads(between: int):
    for pair in AMOUNTS:
        amounts: Any = Amounts(*pair, interior=between)

        def make(x: SSAValue, fill: SSAValue) -> Operation:
            lists: Any = [[each] for each in (*pair, between)]
            return tcp.PadOp(x, fill, *lists)

        function = lowered([vector(), i64], make)
        given = legal_constant(SIZE, amounts)
        check(function, [X, FILL], amounts, constant_pad_element(amounts), given)


@proves("convert-tcp-to-linalg: pads")
@pytest.mark.parametrize("size", range(4))
def test_constant_pads_of_static_sizes(size: int):
    for low, high, between in itertools.product(range(-3, 3), range(-3, 3), range(2)):
        pair = low, high
        amounts: Any = Amounts(*pair, interior=between)
        given = legal_constant(z3.IntVal(size), amounts)
        if not z3.is_true(z3.simplify(given)):
            continue

        def make(x: SSAValue, fill: SSAValue) -> Operation:
            lists: Any = [[each] for each in (*pair, between)]
            return tcp.PadOp(x, fill, *lists)

        function = lowered([vector(size), i64], make)
        element = constant_pad_element(amounts)
        check(function, [X, FILL], amounts, element, SIZE == size)


@proves("convert-tcp-to-linalg: pads")
def test_each_dimension_is_padded_by_its_own_amounts():
    x, (i, k) = argument("x", 3), ints("i k")
    type = TensorType(i64, [DYNAMIC_INDEX] * 3)
    lower, upper, between = [2, -1, 0], [-1, 3, 0], [0, 1, 0]
    amounts: Any = [*map(Amounts, lower, upper, between)]
    wrapping: Any = [*map(Amounts, lower, upper)]
    inside = z3.And(*map(within, (i, j, k), [*map(size_after, x.sizes, amounts)]))
    given = z3.And(inside, *map(legal_constant, x.sizes, amounts))
    function = lowered(
        [type, i64], lambda x, fill: tcp.PadOp(x, fill, lower, upper, between)
    )
    run, (result,) = SymbolicRun.of(function, x, FILL)
    shown = z3.And(within(i - 2, x.sizes[0]), (j + 1) % 2 == 0)
    shown = z3.And(shown, within((j + 1) / 2, x.sizes[1]))
    element = z3.If(shown, x.at([i - 2, (j + 1) / 2, k]), FILL)

    assert holds(result.at([i, j, k]) == element, given)
    assert all(holds(each, given) for each in run.obligations)

    for mode, (legal, source, _) in MODES.items():
        function = lowered([type], lambda x: CLASSES[mode](x, lower, upper))
        run, (result,) = SymbolicRun.of(function, x)
        sizes = [*map(size_after, x.sizes, wrapping)]
        inside = z3.And(*map(within, (i, j, k), sizes))
        given = z3.And(inside, *map(legal, x.sizes, wrapping))
        places = [*map(source, (i, j, k), x.sizes, wrapping)]

        assert holds(result.at([i, j, k]) == x.at(places), given)
        assert all(holds(each, given) for each in run.obligations)
        assert not holds(result.at([i, j, k]) == x.at([i, j, k]), given)


@proves("convert-tcp-to-linalg: pads")
@pytest.mark.parametrize("between", range(3))
def test_constant_pads_of_computed_amounts(between: int):
    lower, upper = ints("lower upper")
    amounts: Any = Amounts(lower, upper, between)

    def make(x: SSAValue, fill: SSAValue, a: SSAValue, b: SSAValue) -> Operation:
        return tcp.PadOp(x, fill, [a], [b], [between])

    function = lowered([vector(), i64, IndexType(), IndexType()], make)
    inputs = [X, FILL, lower, upper]
    given = legal_constant(SIZE, amounts)
    check(function, inputs, amounts, constant_pad_element(amounts), given)


@proves("convert-tcp-to-linalg: pads")
@pytest.mark.parametrize("mode", CLASSES)
def test_border_pads(mode: str):
    legal, source, _ = MODES[mode]
    for pair in AMOUNTS:
        amounts: Any = Amounts(*pair)
        function = lowered(
            [vector()], lambda x: CLASSES[mode](x, *([each] for each in pair))
        )
        given = z3.And(legal(SIZE, amounts), SIZE > 0)
        element = X.at([source(j, SIZE, amounts)])
        check(function, [X], amounts, element, given)


@proves("convert-tcp-to-linalg: pads")
@pytest.mark.parametrize("mode", CLASSES)
def test_border_pads_of_computed_amounts(mode: str):
    legal, source, _ = MODES[mode]
    lower, upper = ints("lower upper")
    amounts: Any = Amounts(lower, upper)
    function = lowered(
        [vector(), IndexType(), IndexType()],
        lambda x, a, b: CLASSES[mode](x, [a], [b]),
    )
    given = z3.And(legal(SIZE, amounts), SIZE > 0)
    element = X.at([source(j, SIZE, amounts)])
    check(function, [X, lower, upper], amounts, element, given)


@proves("convert-tcp-to-linalg: interleave")
@pytest.mark.parametrize("stride", range(1, 5))
def test_interleaved_parts(stride: int):
    """Element `stride * q + p` is element q of part p; later parts may be smaller."""
    parts = [argument(f"part{p}", 1) for p in range(stride)]
    function = lowered(
        [vector()] * stride,
        lambda *xs: tcp.InterleaveOp(xs, [stride], [0], vector()),
    )
    total = ints("total")[0]
    given = z3.And(
        total >= 0,
        *[
            part.sizes[0] == (total - p + stride - 1) / stride
            for p, part in enumerate(parts)
        ],
    )
    run, (result,) = SymbolicRun.of(function, *parts)
    element = parts[0].at([j])
    for p, part in enumerate(parts):
        element = z3.If(j % stride == p, part.at([j / stride]), element)
    (size,) = result.sizes
    shows = z3.Implies(within(j, total), result.at([j]) == element)

    assert holds(z3.And(size == total, shows), given)
    assert all(holds(each, given) for each in run.obligations)
    assert not holds(size == total + 1, given)
