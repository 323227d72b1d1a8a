# pyright: basic
"""
What `split-conv-transpose` pads and crops for a phase, proved by z3.

The arithmetic is that of the pass, on integers; sizes of inputs, positions and elements
are all that there are.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
import z3
from proofs import holds, ints, largest, proves, smallest

from padc.ir.padding import Amounts
from padc.passes.torch_to_tcp.split_conv_transpose import Padded, Phase, phase_of

q, t, size, i = ints("q t size i")
AMOUNTS = [*itertools.product((-3, -1, 0, 2), repeat=2)]


def cases(stride: int) -> Iterator[tuple[int, int, Amounts, list[Phase | None]]]:
    """Dilations, kernels and amounts, with the phases of each."""
    for dilation, kernel in itertools.product(range(1, 4), range(1, 5)):
        for amounts in itertools.starmap(Amounts, AMOUNTS):
            given = kernel, stride, dilation, amounts
            yield (
                dilation,
                kernel,
                amounts,
                [phase_of(*given, each) for each in range(stride)],
            )


@proves("split-conv-transpose: the pad of a phase")
@pytest.mark.parametrize("stride", range(1, 5))
def test_a_phase_of_the_padded_input_has_the_products_of_its_positions(stride: int):
    """Tap k adds element t to position `stride * t + dilation * k + lower`."""
    for dilation, kernel, amounts, phases in cases(stride):
        claims: list[Any] = []
        for number, phase in enumerate(phases):
            place = stride * q + number
            for tap in range(kernel):
                adds = stride * t + dilation * tap + amounts.lower == place
                taps = phase and phase.taps
                read = (
                    [
                        t == q + j * taps.dilation - phase.pad.lower
                        for j in range(taps.number)
                        if tap == taps.first + taps.step * (taps.number - 1 - j)
                    ]
                    if phase and taps
                    else []
                )
                claims.append(adds == z3.Or(*read))
        assert holds(z3.And(*claims)), (dilation, kernel, amounts)


@proves("split-conv-transpose: the pad of a phase")
@pytest.mark.parametrize("stride", range(1, 5))
def test_a_phase_has_the_positions_of_the_result(stride: int):
    for dilation, kernel, amounts, phases in cases(stride):
        whole = stride * (size - 1) + dilation * (kernel - 1) + 1
        result = whole + amounts.lower + amounts.upper
        for number, phase in enumerate(phases):
            if phase is None:
                continue
            window = (phase.taps.number - 1) * phase.taps.dilation
            count = size + phase.pad.lower + phase.pad.upper - window
            inside = z3.And(q >= 0, stride * q + number < result)

            assert holds(count == size + phase.count)
            assert holds(inside == z3.And(q >= 0, q < count), count >= 1)
            assert not holds(inside == z3.And(q >= 0, q < count + 1), count >= 1)


@dataclass(frozen=True)
class Row:
    """A tensor of one dimension, as a size and a function from places to elements."""

    size: Any
    at: Callable[[Any], Any]


class Rows:
    """Pads and slices of rows, as `AtenBuilder` makes them; elements are places."""

    def pad(self, x: Row, amounts: Sequence[Amounts], fill: int) -> Row:
        ((lower, upper),) = ((each.lower, each.upper) for each in amounts)
        return Row(x.size + lower + upper, lambda i: x.at(i - lower))

    def slice(self, x: Row, dim: int, start: int, stop: int | None) -> Row:
        def bound(value: int) -> Any:
            return largest(x.size + value, 0) if value < 0 else smallest(value, x.size)

        first, last = bound(start), x.size if stop is None else bound(stop)
        return Row(largest(last - first, 0), lambda i: x.at(first + i))


@proves("split-conv-transpose: parts of the padded input")
@pytest.mark.parametrize("stride", range(1, 5))
def test_a_part_of_the_padded_input_is_the_input_padded_for_its_phase(stride: int):
    for dilation, kernel, amounts, phases in cases(stride):
        some = [phase for phase in phases if phase is not None]
        if len(some) < stride:
            continue
        build: Any = Rows()
        op: Any = SimpleNamespace(
            input=Row(size, lambda i: i), dims=SimpleNamespace(input=(0,))
        )
        padded = Padded.of(build, op, [some])
        for phase in some:
            part: Any = padded.part(build, [phase])
            expected = size + phase.pad.lower + phase.pad.upper
            given = size >= 1, size + phase.count >= 1

            assert holds(part.size == expected, *given), (dilation, kernel, amounts)
            inside = z3.And(0 <= i, i < expected)
            assert holds(part.at(i) == i - phase.pad.lower, inside, *given)
