# pyright: basic
"""Histograms, segments and positions in a Core ML package, against PyTorch's."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from functions import Functions
from mil_functions import check
from torch import Tensor


def ragged(x: Tensor, *args: Any, **options: Any) -> list[Tensor]:
    counts, edges = torch.histogramdd(x, *args, **options)
    return [counts, *edges]


EDGES = torch.tensor([-1.0, 0.25, 1, 1.5])

HISTOGRAMS: Functions = {
    "histc": lambda x, w: [torch.histc(x, 7), torch.histc(x, 3, -1, 1)],
    "histogram": lambda x, w: torch.histogram(x, 4),
    "with weights": lambda x, w: torch.histogram(x, 7, weight=w, density=True),
    "of a range": lambda x, w: torch.histogram(x, 3, range=(-1.0, 1.0)),
    "of an empty range": lambda x, w: torch.histogram(x, 4, range=(0.5, 0.5)),
    "of a number": lambda x, w: torch.histogram(x[0, 0], 2),
    "of equal numbers": lambda x, w: torch.histogram(x * 0 + 3, 5),
    "between edges": lambda x, w: torch.histogram(x, EDGES, weight=w),
    "between computed edges": lambda x, w: torch.histogram(x, w[0].cumsum(0) - 1),
    "joint": lambda x, w: ragged(x[:, :3], [2, 3, 4], weight=w[:, 0]),
    "joint, one number": lambda x, w: ragged(x[:, :2], 3, density=True),
    "joint of ranges": lambda x, w: ragged(
        x[:, :2], [2, 3], range=(-1.0, 1.0, -2.0, 0.0), density=True
    ),
    "joint between edges": lambda x, w: ragged(x[:, :2], [EDGES, EDGES[1:]]),
}

OUTSIDE: Functions = {
    "histogram": lambda x: torch.histogram(x, 3, range=(1.0, 3.0)),
    "between edges": lambda x: torch.histogram(x, torch.tensor([0.5, 1, 2, 3])),
    "joint": lambda x: ragged(torch.stack([x, x], 1), [2, 3], range=(0.0, 3.0) * 2),
}


def test_histograms() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(5, 6, generator=generator)

    check(HISTOGRAMS, x, torch.rand(5, 6, generator=generator), target="iOS15")


def test_what_is_outside_of_a_histogram() -> None:
    """Ends count, except infinities and NaN."""
    check(OUTSIDE, torch.tensor([1.0, 2, 2, 3, 0.5, math.nan, math.inf, -math.inf]))


LENGTHS = torch.tensor([2, 0, 3])
OFFSETS = torch.tensor([0, 2, 2, 5])


def segments(name: str) -> Functions:
    def reduced(x: Tensor, **given: Any) -> Tensor:
        return torch.segment_reduce(x, name, **given)

    return {
        "by lengths": lambda x, n, i: reduced(x, lengths=n),
        "by offsets": lambda x, n, i: reduced(x, offsets=i),
        "with an initial value": lambda x, n, i: reduced(x, lengths=n, initial=2),
        "of a vector": lambda x, n, i: reduced(x[:, 0], offsets=i, initial=-1.5),
        "of columns": lambda x, n, i: reduced(
            x.T.contiguous(), lengths=torch.stack([n, n.flip(0), n]), axis=1
        ),
        "of constant lengths": lambda x, n, i: reduced(x[..., None], lengths=LENGTHS),
    }


@pytest.mark.parametrize("name", ["max", "mean", "min", "prod", "sum"])
def test_segments(name: str) -> None:
    x = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    x[1, 1], x[3, 2], x[2, 0] = math.nan, math.inf, -math.inf

    check(segments(name), x, LENGTHS, OFFSETS)


POSITIONS: Functions = {
    "fewer": lambda x: torch.nonzero_static(x, size=2),
    "as many": lambda x: torch.nonzero_static(x, size=3),
    "more": lambda x: torch.nonzero_static(x, size=7, fill_value=9),
    "of a vector": lambda x: torch.nonzero_static(x[0], size=1),
    "of booleans": lambda x: torch.nonzero_static(x[:, :, None] != 0, size=4),
    "of nothing": lambda x: torch.nonzero_static(x > 9, size=2),
    "of integers": lambda x: torch.nonzero_static((x > 0).long() - 1, size=4),
}


def test_positions() -> None:
    check(POSITIONS, torch.tensor([[0, 1.0, 2], [0, 0, math.nan]]), target="iOS15")


DIVISORS: Functions = {
    "gcd": lambda x, y: torch.gcd(x, y),
    "lcm": lambda x, y: torch.lcm(x % 90, y),
}


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int64])
def test_divisors(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randint(-127, 128, (2, 60), generator=generator).to(dtype)
    x[:2] = y[1:3] = 0

    check(DIVISORS, x, y)


def test_divisors_that_take_most_steps() -> None:
    x = torch.tensor([1836311903, 1134903170, 2147483647, 0, -2147483647])
    y = torch.tensor([1134903170, 1836311903, 2147483646, 2147483647, 6])

    check({"gcd": torch.gcd}, x, y)


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32])
def test_divisors_of_the_least_integer(dtype: torch.dtype) -> None:
    """For others, such as 6, PyTorch returns a negative divisor."""
    least = torch.iinfo(dtype).min
    x = torch.tensor([1, 3, 4, 0, least], dtype=dtype)
    y = torch.tensor([least] * 5, dtype=dtype)

    check({"gcd": torch.gcd}, x, y)
