# pyright: basic
"""Rows whose lengths are no multiples of a vector's, and ops that share their loops."""

import pytest
import torch
import torch.nn.functional as F
from functions import Function
from torch import Tensor

import padc

LENGTHS = (5, 17, 31, 33, 100, 197)
"""Shorter than a vector, just longer than one or two, and some."""


def row_ops(*rows: Tensor) -> list[Tensor]:
    results: list[Tensor] = []
    for x in rows:
        results += [x.softmax(-1), x.log_softmax(-1), x.sum(-1), x.amax(-1), x.exp()]
        results += [x.amin(-1), F.layer_norm(x, (x.shape[-1],))]
    return results


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_rows_of_any_length(dtype: torch.dtype, threads: int):
    draw = torch.Generator().manual_seed(0)
    rows = [torch.randn(50, n, generator=draw).to(dtype) for n in LENGTHS]
    for x in rows:
        # The first and the last elements are computed twice, or alone.
        x[1, 0], x[2, -1], x[3, 4], x[4] = torch.inf, torch.nan, -torch.inf, -torch.inf

    actual = padc.compile(Function(row_ops), tuple(rows), threads=threads)(*rows)

    for found, expected in zip(actual, row_ops(*rows), strict=True):
        torch.testing.assert_close(found, expected, equal_nan=True)


def test_sums_count_each_element_once():
    rows = [torch.full((20, n), 1.0) for n in range(16, 64)]

    actual = padc.compile(Function(lambda *x: [y.sum(-1) for y in x]), tuple(rows))(
        *rows
    )

    assert [int(x[7]) for x in actual] == list(range(16, 64))


def test_elements_are_changed_once_in_place():
    """`write-in-place` lets the inverse overwrite the sums."""
    x = torch.rand(40, 33, 3) + 1

    def function(x: Tensor) -> Tensor:
        return 1 / x.sum(-1)

    actual = padc.compile(Function(function), (x,))(x)

    torch.testing.assert_close(actual, function(x))


@pytest.mark.parametrize("threads", [1, 2])
def test_pools_of_padded_images(threads: int):
    x = torch.randn(2, 16, 30, 37)

    def function(x: Tensor) -> list[Tensor]:
        return [
            F.max_pool2d(x, 3, 2, 1),
            F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
            F.max_pool2d(x, (2, 5), (1, 3), (1, 2)),
            F.avg_pool2d(F.pad(x, (1, 2, 3, 1), mode="circular"), 5, 1).relu(),
        ]

    actual = padc.compile(Function(function), (x,), threads=threads)(x)

    for found, expected in zip(actual, function(x), strict=True):
        torch.testing.assert_close(found, expected)
