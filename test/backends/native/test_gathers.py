# pyright: basic
"""Grid samples of few channels: elements are copied to scratch memory, in blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
import torch.nn.functional as F
from functions import Function
from torch import Tensor, nn

import padc

FEW = 3
"""Points in a row: fewer than are copied together."""
MANY = 131
"""Points in a row: more than a block."""


class Samples(nn.Module):
    """Grid samples of one input, and what is computed with them."""

    def __init__(self, mode: str, padding: str, align: bool):
        super().__init__()
        self.options = {"mode": mode, "padding_mode": padding, "align_corners": align}
        self.scale = torch.linspace(-1, 1, 4)

    def forward(self, x: Tensor, *grids: Tensor) -> list[Tensor]:
        found = [F.grid_sample(x, grid, **self.options) for grid in grids]
        shape = (-1,) + (1,) * (x.dim() - 2)
        by_channel = torch.exp(self.scale[: x.shape[1]].reshape(shape)) * 2 + 1
        return [*found[:-1], torch.sin(found[-1]) * by_channel]


def grids(counts: Sequence[int], rank: int) -> list[Tensor]:
    """Grids of points inside and outside of the input."""
    shapes = [(2, *[2] * (rank - 1), count, rank) for count in counts]
    return [torch.rand(shape) * 3 - 1.5 for shape in shapes]


def samples(
    mode: str, padding: str, align: bool, shape: Sequence[int], counts: Sequence[int]
) -> tuple[Samples, tuple[Tensor, ...]]:
    """The model, and inputs: an input of `shape` for two batches, and its grids."""
    torch.manual_seed(0)
    x = torch.randn(2, *shape)
    # Products with weights of 0 would be NaN.
    x.view(-1)[:: x.numel() // 3] = float("inf")
    return Samples(mode, padding, align), (x, *grids(counts, len(shape) - 1))


def assert_near(actual: Tensor, expected: Tensor):
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize(
    "mode, padding, align, shape",
    [
        ("bilinear", "border", True, (1, 1, 7)),
        ("bicubic", "reflection", False, (2, 4, 4)),
        ("nearest", "zeros", False, (3, 5, 4)),
        ("bilinear", "zeros", False, (3, 3, 4, 5)),
    ],
)
def test_grid_samples_of_few_channels(
    mode: str, padding: str, align: bool, shape: Sequence[int]
):
    model, inputs = samples(mode, padding, align, shape, [MANY])

    compiled = padc.compile(model, inputs)

    assert compiled.is_native
    for actual, expected in zip(compiled(*inputs), model(*inputs), strict=True):
        assert_near(actual, expected)


@pytest.mark.parametrize(
    "mode, padding, shape",
    [
        ("bilinear", "zeros", (3, 5, 6)),
        ("nearest", "reflection", (4, 3, 2, 3)),
    ],
)
def test_few_points_and_checked_code(
    mode: str, padding: str, shape: Sequence[int], monkeypatch: pytest.MonkeyPatch
):
    model, inputs = samples(mode, padding, False, shape, [FEW, MANY])

    compiled = padc.compile(model, inputs)
    monkeypatch.setenv("PADC_CHECK", "1")
    checked = padc.compile(model, inputs)

    assert compiled.is_native
    results = compiled(*inputs), checked(*inputs), model(*inputs)
    for actual, other, expected in zip(*results, strict=True):
        assert_near(actual, expected)
        torch.testing.assert_close(actual, other, rtol=0, atol=1e-6, equal_nan=True)


def by_channels(x: Tensor, grid: Tensor) -> Tensor:
    return F.grid_sample(x, grid, align_corners=False)


def by_points(x: Tensor, grid: Tensor) -> Tensor:
    """What is multiplied differs in each step, and in each channel."""
    number = torch.arange(x.shape[1] * grid.shape[2], dtype=torch.float32)
    number = number.reshape(1, x.shape[1], 1, grid.shape[2])
    moved = torch.sqrt(number * grid[..., 0].unsqueeze(1).abs() + 1)
    return F.grid_sample(x, grid, mode="nearest", align_corners=False) * moved


def twice(x: Tensor, grid: Tensor) -> Tensor:
    """The places of the second sample depend on the elements of the first."""
    first = F.grid_sample(x, grid, mode="nearest", align_corners=False)
    return F.grid_sample(x, first.permute(0, 2, 3, 1), align_corners=False)


@pytest.mark.parametrize("function", [by_channels, by_points, twice])
def test_other_values_of_the_body(
    function: Callable[[Tensor, Tensor], Tensor],
):
    class Module(nn.Module):
        def forward(self, x: Tensor, grid: Tensor) -> Tensor:
            return function(x, grid)

    torch.manual_seed(0)
    x = (torch.rand(1, 2, 6, 7) * 2 - 1).double()
    grid = (torch.rand(1, 3, 70, 2) * 2.4 - 1.2).double()

    actual = padc.compile(Module(), (x, grid))(x, grid)

    assert_near(actual, function(x, grid))


@pytest.mark.parametrize("dtype", [torch.float64, torch.int64, torch.uint8, torch.bool])
@pytest.mark.parametrize("columns", [2, 4])
def test_rows_of_a_table(columns: int, dtype: torch.dtype):
    torch.manual_seed(0)
    table = torch.randint(0, 100, (50, columns)).to(dtype)
    places = torch.randint(-50, 50, (2 * MANY + 1,))
    model = Function(lambda table, places: table[places])

    compiled = padc.compile(model, (table, places))

    assert compiled.is_native
    assert torch.equal(compiled(table, places), model(table, places))
