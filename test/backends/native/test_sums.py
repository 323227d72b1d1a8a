# pyright: basic
"""Sums of many floats: rounding errors do not grow with their number."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from functions import Function
from torch import Tensor
from torch.export import Dim
from torch.nn import functional as F

import padc

ULPS = 4
"""How much greater than PyTorch's an error may be, in units of the last place."""


def near_100(*sizes: int) -> Tensor:
    draw = torch.Generator().manual_seed(0)
    return 100 + torch.rand(sizes, generator=draw)


def listed(outputs: Tensor | list[Tensor]) -> list[Tensor]:
    return [outputs] if isinstance(outputs, Tensor) else outputs


def check(
    function: Callable[..., Tensor | list[Tensor]],
    *inputs: Tensor,
    dynamic: bool = False,
    exact: Tensor | None = None,
) -> None:
    """Compare with float64, or `exact`: errors may be little greater than PyTorch's."""
    sizes = tuple(dict.fromkeys(range(x.ndim), Dim.AUTO) for x in inputs)
    model = Function(function)
    compiled = padc.compile(
        model, inputs, dynamic_shapes=(sizes,) if dynamic else None, threads=1
    )
    assert compiled.is_native, compiled.report()
    wide = function(*(x.double() for x in inputs)) if exact is None else exact

    actual, theirs = compiled(*inputs), function(*inputs)

    for ours, other, right in zip(
        listed(actual), listed(theirs), listed(wide), strict=True
    ):
        unit = right.abs() * torch.finfo(ours.dtype).eps
        error, allowed = (ours - right).abs(), (other - right).abs().max()
        assert (error <= allowed + ULPS * unit).all()


def statistics(x: Tensor) -> list[Tensor]:
    return [x.sum(), x.mean(), x.var(), x.std(), torch.linalg.vector_norm(x)]


def test_statistics_of_8_million_elements():
    check(statistics, near_100(8_000_000))


REDUCTIONS: list[Callable[[Tensor], Tensor]] = [
    lambda x: x.sum((1, 2, 3)),
    lambda x: x.sum((1, 3)),
    lambda x: x.var((0, 2)),
    lambda x: x[..., :5].mean(),
    lambda x: x.flatten()[::3].mean(),
]


@pytest.mark.parametrize("dynamic", [False, True])
def test_loops_of_any_order_are_summed_in_blocks(dynamic: bool):
    x = near_100(3, 1300, 9, 7)

    check(lambda x: [each(x) for each in REDUCTIONS], x, dynamic=dynamic)


@pytest.mark.parametrize("columns", [1, 15, 1024, 2061])
def test_rows_are_summed_in_tiles(columns: int):
    check(lambda x: x.sum(0), near_100(777, columns))


def test_float64_is_summed_with_errors():
    x = near_100(3000, 5).double()

    exact = torch.tensor([math.fsum(column) for column in x.T.tolist()])

    check(lambda x: x.sum(0), x, exact=exact.double())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_types_are_summed_in_float32(dtype: torch.dtype):
    x = (near_100(3000, 60) / 100_000).to(dtype)

    check(lambda x: [x.sum(), x.sum(0), x.mean(1)], x)


def test_exponentials_are_summed_in_blocks():
    x = near_100(100_000, 3)

    check(lambda x: [torch.logsumexp(x, 0), torch.softmax(x, 0)], x)


@pytest.mark.parametrize("rows", [1, 40])
def test_products_of_equal_numbers(rows: int):
    """Their rounding errors have one sign, so that they grow the most."""
    a, b = torch.full((rows, 300_000), 0.1), torch.full((12, 300_000), 0.1)
    exact = (a[:1].double() @ b.double().T).expand(rows, -1)

    actual = padc.compile(Function(F.linear), (a, b), threads=1)(a, b)

    torch.testing.assert_close(actual.double(), exact, rtol=1e-5, atol=0)


def test_kernels_as_large_as_images():
    """Blocks of products split the loops through taps, not only those of channels."""
    x, kernel = torch.full((1, 2, 400, 420), 0.1), torch.full((4, 2, 390, 400), 0.1)
    exact = float(x[0, 0, 0, 0].double()) ** 2 * kernel[0].numel()

    actual = padc.compile(Function(F.conv2d), (x, kernel), threads=1)(x, kernel)

    assert (actual / exact - 1).abs().max() < 3e-5


@pytest.mark.parametrize("dim", [0, 1])
def test_infinite_sums_and_nan(dim: int):
    cases = [
        [np.inf, 1.0],
        [-np.inf, 2.0],
        [np.inf, -np.inf],
        [np.nan, 1.0],
        [np.nan, np.inf],
        [3e38, 3e38],
        [-3e38, -3e38],
        [-0.0, -0.0],
    ]
    x = torch.zeros(len(cases), 9000)
    x[:, [100, 8000]] = torch.tensor(cases)
    x = x if dim else x.T.contiguous()

    actual = padc.compile(Function(lambda x: x.sum(dim)), (x,), threads=1)(x)

    torch.testing.assert_close(actual, x.sum(dim), rtol=0, atol=0, equal_nan=True)
