# pyright: basic
"""Grid samples of many channels: rows of channels, transposed in registers."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.export import Dim

import padc
from padc.passes.buffers_to_llvm import channel_rows, linalg_kernels


class Sample(nn.Module):
    def __init__(self, mode: str, padding: str, align: bool):
        super().__init__()
        self.options = {"mode": mode, "padding_mode": padding, "align_corners": align}

    def forward(self, x: Tensor, grid: Tensor) -> Tensor:
        return F.grid_sample(x, grid, **self.options)


def inputs(
    shape: Sequence[int], points: Sequence[int], dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """An input with infinities, and points inside, outside and far away."""
    torch.manual_seed(0)
    x = torch.randn(shape)
    # Products with weights of 0 would be NaN.
    x.view(-1)[:: x.numel() // 7] = float("inf")
    grid = torch.rand(shape[0], *points, len(shape) - 2) * 3 - 1.5
    grid.view(-1)[:: grid.numel() // 5] = 1e6
    return x.to(dtype), grid.to(dtype)


def sampled(model: Sample, x: Tensor, grid: Tensor) -> Tensor:
    """What PyTorch computes; in float32 for halves, of which it rounds coordinates."""
    if x.dtype.itemsize == 2:
        return model(x.float(), grid.float()).to(x.dtype)
    return model(x, grid)


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The kernels of rows of channels that are made."""
    made: list[object] = []

    def spy(*args):
        found = channel_rows.channel_rows(*args)
        made.extend([] if found is None else [found])
        return found

    monkeypatch.setattr(linalg_kernels, "channel_rows", spy)
    monkeypatch.setenv("PADC_CACHE_DIR", "")
    return made


@pytest.mark.parametrize(
    "mode, padding, align, shape, points, dtype",
    [
        ("bilinear", "zeros", False, (2, 37, 5, 6), (7, 5), torch.float32),
        ("bilinear", "reflection", True, (1, 64, 8, 8), (1, 1031), torch.float32),
        ("bilinear", "border", False, (1, 5, 2, 3), (6, 1), torch.float64),
        # Copies of 16 channels, the last one of 4.
        ("bilinear", "zeros", True, (2, 68, 40, 41), (30, 31), torch.float32),
        ("bicubic", "zeros", False, (1, 20, 5, 4), (5, 5), torch.float32),
        ("bicubic", "border", True, (1, 9, 4, 4), (3, 6), torch.float16),
        ("nearest", "zeros", False, (1, 6, 100, 101), (90, 91), torch.float32),
        ("bilinear", "zeros", False, (2, 10, 3, 4, 5), (3, 4, 6), torch.bfloat16),
    ],
)
def test_grid_samples_of_many_channels(
    mode: str,
    padding: str,
    align: bool,
    shape: Sequence[int],
    points: Sequence[int],
    dtype: torch.dtype,
    kernels: list[object],
):
    model, (x, grid) = Sample(mode, padding, align), inputs(shape, points, dtype)

    compiled = padc.compile(model, (x, grid))

    assert compiled.is_native and kernels
    half, expected = dtype.itemsize == 2, sampled(model, x, grid)
    rtol, atol = (1e-2, 1e-2) if half else (1e-4, 1e-5)
    torch.testing.assert_close(
        compiled(x, grid), expected, rtol=rtol, atol=atol, equal_nan=True
    )


@pytest.mark.parametrize(
    "padding, shape, points, dtype",
    [
        # One, two and four channels are read together.
        ("zeros", (2, 7, 5, 6), (9, 5), torch.float32),
        ("border", (2, 6, 5, 6), (1, 37), torch.float64),
        ("reflection", (2, 8, 5, 6), (9, 15), torch.bfloat16),
        ("zeros", (1, 12, 2, 3, 2), (3, 4, 17), torch.float16),
        # Three copies, the last one of fewer channels.
        ("zeros", (1, 20, 80, 100), (90, 91), torch.float32),
    ],
)
def test_nearest_of_small_planes(
    padding: str, shape: Sequence[int], points: Sequence[int], dtype: torch.dtype
):
    model = Sample("nearest", padding, False)
    x, grid = inputs(shape, points, torch.float32)
    x, grid = x.to(dtype), grid.to(dtype)

    compiled = padc.compile(model, (x, grid))

    assert compiled.is_native
    assert torch.equal(compiled(x, grid), sampled(model, x, grid))


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
@pytest.mark.parametrize("channels, size", [(1, 3), (2, 4), (3, 2), (3, 9), (4, 5)])
def test_few_channels_of_a_dynamic_batch(mode: str, channels: int, size: int):
    model, batch = Sample(mode, "zeros", False), {0: Dim("batch", max=9)}
    x, grid = inputs((2, channels, size, 5), (6, 7), torch.float32)
    exported = torch.export.export(model, (x, grid), dynamic_shapes=(batch, batch))
    compiled = padc.compile(exported)

    assert compiled.is_native
    for count in (2, 5):
        x, grid = inputs((count, channels, size, 5), (6, 7), torch.float32)
        torch.testing.assert_close(
            compiled(x, grid), model(x, grid), rtol=1e-4, atol=1e-5, equal_nan=True
        )


def test_unknown_points_are_zero_or_nan():
    """As in PyTorch; nothing is read outside of the input."""
    x = torch.randn(1, 16, 6, 6)
    grid = torch.rand(1, 8, 8, 2) * 2 - 1
    grid[0, ::2, ::3, 0] = float("nan")
    grid[0, 1, 1, 1] = float("inf")
    for mode in ("bilinear", "nearest", "bicubic"):
        model = Sample(mode, "zeros", False)
        actual = padc.compile(model, (x, grid))(x, grid)
        torch.testing.assert_close(
            actual, model(x, grid), rtol=1e-4, atol=1e-5, equal_nan=True
        )


def test_threads_compute_the_same_bits():
    model = Sample("bilinear", "zeros", False)
    x, grid = inputs((2, 32, 30, 30), (50, 51), torch.float32)

    one, two = (padc.compile(model, (x, grid), threads=n)(x, grid) for n in (1, 2))

    assert torch.equal(one.nan_to_num(7), two.nan_to_num(7))
