# pyright: basic
"""
Machine code of dynamic sizes, run for all sizes of several blocks and what is left.

Loops split their steps into blocks of fixed sizes. So sizes up to a few blocks have all
cases: no block, several ones, and each number of steps that are left. Sizes 0 and 1 are
not among them: torch.export makes programs of their own for these. Elements are whole
numbers, whose sums are exact.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence

import pytest
import torch
import torch.nn.functional as F
from functions import Function
from torch import Tensor
from torch.export import Dim

import padc

MOST = 4096
NEAR_BLOCKS = [
    size for n in (256, 512, 1024, 2048) for size in (*range(n - 2, n + 3), n + 17)
]
"""Sizes around those of blocks of sums, and of items that threads share."""


def numbers(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Whole numbers, of which no two close by are equal."""
    count = torch.Size(shape).numel()
    return (torch.arange(count) * 37 % 113 - 56).to(dtype).view(shape)


def for_all(
    function: Callable[..., Tensor],
    shapes: Sequence[Sequence[int]],
    dtype: torch.dtype = torch.float32,
    inputs: int = 1,
    threads: int = 1,
):
    """Compile `function` once, and compare its results for all shapes."""
    least = [min(sizes) for sizes in zip(*shapes, strict=True)]
    dims = {i: Dim(f"size{i}", min=n, max=MOST) for i, n in enumerate(least)}
    model = Function(function)
    example = (numbers(*(n + 17 for n in least), dtype=dtype),) * inputs
    compiled = padc.compile(
        model, example, dynamic_shapes=((dims,) * inputs,), threads=threads
    )
    assert compiled.is_native
    for shape in shapes:
        x = tuple(numbers(*shape, dtype=dtype) + i for i in range(inputs))
        assert torch.equal(compiled(*x), model(*x)), shape


def rectangles(rows: Iterable[int], columns: Iterable[int]) -> list[tuple[int, int]]:
    return list(itertools.product(rows, columns))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
def test_transpositions(dtype: torch.dtype, threads: int):
    shapes = rectangles(range(2, 51), range(2, 51))
    for_all(lambda x: x.mT.contiguous(), shapes, dtype, threads=threads)


MOVES: dict[str, Callable[..., Tensor]] = {
    "padded": lambda x: F.pad(x, (1, 2, 2, 1), value=7.0),
    "replicated": lambda x: F.pad(x[None], (3, 1, 1, 2), mode="replicate")[0],
    "reflected": lambda x: F.pad(x[None], (1, 1, 1, 1), mode="reflect")[0],
    "circular": lambda x: F.pad(x[None], (2, 1, 1, 2), mode="circular")[0],
    "joined to parts of itself": lambda x: torch.cat([x[:, 1:], x.relu(), x[:, :1]], 1),
    "every other": lambda x: x[::2, 1::2].clone(),
    "turned": lambda x: x.flip(1) - x,
    "repeated": lambda x: x.repeat(2, 3),
}


@pytest.mark.parametrize("name", MOVES)
def test_rows_that_are_moved(name: str):
    for_all(MOVES[name], rectangles((4, 5, 7), [*range(4, 150), *NEAR_BLOCKS]))


REDUCTIONS: dict[str, Callable[..., Tensor]] = {
    "sums of rows": lambda x: x.sum(1),
    "sums of columns": lambda x: x.sum(0),
    "sum": lambda x: x.sum(),
    "largest of rows": lambda x: x.amax(1),
    "largest of columns": lambda x: x.amax(0),
    "places of rows": lambda x: x.argmax(1),
    "running sums": lambda x: x.cumsum(1),
    "sums of pairs": lambda x: (x[:, 1:] - x[:, :-1]).abs().sum(1),
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name: str, threads: int):
    shapes = rectangles((3, 7), [*range(3, 150), *NEAR_BLOCKS])
    tall = [(columns, 3) for _, columns in shapes]
    for_all(REDUCTIONS[name], [*shapes, *tall], threads=threads)


@pytest.mark.parametrize("threads", [1, 2])
def test_products(threads: int):
    sizes = (2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 33, 64, 65)
    shapes = rectangles(sizes, sizes)
    for_all(lambda x, y: (x @ y.mT).relu(), shapes, inputs=2, threads=threads)
    shapes = rectangles((2, 5), [*range(3, 80), *NEAR_BLOCKS])
    for_all(lambda x, y: x @ y.mT - 3, shapes, inputs=2, threads=threads)


JOINED: dict[str, Callable[..., Tensor]] = {
    "rows and their sums": lambda x, y: (x - x.amax(1, True)) * (y.sum(1, True) > 0),
    "sums and rows of sums": lambda x, y: (x + y).sum(1, True).clamp(max=9) + y,
    "columns and their sums": lambda x, y: (x * 2 - x.amin(0, True)) + y,
    "padded and reduced": lambda x, y: F.pad(x + y, (1, 1), value=3.0).amax(1),
    "windows": lambda x, y: F.max_pool1d(F.pad(x - y, (1, 1)), 3, 1),
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", JOINED)
def test_loops_that_are_joined(name: str, threads: int):
    shapes = rectangles((2, 3, 9), [*range(3, 100), *NEAR_BLOCKS])
    for_all(JOINED[name], shapes, inputs=2, threads=threads)
