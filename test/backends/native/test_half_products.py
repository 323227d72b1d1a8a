# pyright: basic
"""Convolutions and products of 16-bit floats, which are computed in float32."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from functions import Function
from torch import Tensor, nn

import padc

HALVES = torch.float16, torch.bfloat16
MODULES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "packed": (lambda: nn.Conv2d(32, 32, 3, padding=1), (2, 32, 9, 11)),
    "without bias": (lambda: nn.Conv2d(32, 16, 1, bias=False), (1, 32, 7, 5)),
    "few channels": (lambda: nn.Conv2d(3, 5, 3, stride=2, dilation=2), (2, 3, 12, 9)),
    "groups": (lambda: nn.Conv2d(8, 12, 3, groups=4, padding=1), (1, 8, 6, 7)),
    "depthwise": (lambda: nn.Conv2d(16, 16, 3, groups=16), (1, 16, 6, 7)),
    "1-D": (lambda: nn.Conv1d(16, 16, 5, padding=2), (2, 16, 33)),
    "3-D": (lambda: nn.Conv3d(4, 6, 3), (1, 4, 5, 6, 7)),
    "transposed": (lambda: nn.ConvTranspose2d(16, 16, 4, 2, 1), (1, 16, 5, 6)),
    "linear": (lambda: nn.Linear(64, 64), (40, 64)),
    "odd linear": (lambda: nn.Linear(33, 7), (2, 29, 33)),
    "few rows": (lambda: nn.Linear(64, 64), (3, 64)),
}


def check(module: nn.Module, inputs: tuple[Tensor, ...]):
    """Compare with PyTorch's float64, rounded once."""
    dtype = inputs[0].dtype
    double = module.double()
    expected = double(*(x.double() for x in inputs)).to(dtype)

    actual = padc.compile(module.to(dtype), inputs)(*inputs)

    eps = torch.finfo(dtype).eps
    torch.testing.assert_close(actual, expected, rtol=eps, atol=eps / 2, equal_nan=True)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name", MODULES)
def test_layers(name: str, dtype: torch.dtype):
    make, shape = MODULES[name]
    torch.manual_seed(0)
    module = make().to(dtype)

    check(module, (torch.randn(shape).to(dtype),))


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (torch.matmul, [(40, 32), (32, 48)]),
        (torch.matmul, [(2, 3, 30, 16), (3, 16, 30)]),
        (torch.matmul, [(25, 16), (16,)]),
        (lambda a, b: torch.addmm(b[0], a, b), [(40, 32), (32, 48)]),
        (lambda a: F.scaled_dot_product_attention(a, a, a), [(2, 2, 30, 16)]),
        (lambda a, k: F.conv2d(a, k, padding=1), [(1, 16, 8, 8), (16, 16, 3, 3)]),
    ],
)
def test_products_of_inputs(
    function: Callable[..., Tensor], shapes: list[tuple[int, ...]], dtype: torch.dtype
):
    torch.manual_seed(0)
    inputs = tuple((torch.randn(shape) / 4).to(dtype) for shape in shapes)

    check(Function(function), inputs)


@pytest.mark.parametrize("dtype", HALVES)
def test_sums_beyond_the_type_and_special_numbers(dtype: torch.dtype):
    torch.manual_seed(0)
    x = torch.randn(32, 64).to(dtype)
    x[0], x[1, 3], x[2, 5] = torch.finfo(dtype).max, torch.inf, torch.nan
    w = torch.ones(64, 64, dtype=dtype)

    check(Function(torch.matmul), (x, w))


@pytest.mark.parametrize("dtype", HALVES)
def test_weights_are_converted_from_the_cache_too(
    dtype: torch.dtype, tmp_path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PADC_CACHE_DIR", str(tmp_path))
    module, x = nn.Linear(64, 64).to(dtype), torch.randn(40, 64).to(dtype)

    first, second = (padc.compile(module, (x,))(x) for _ in range(2))

    assert any(tmp_path.iterdir())
    assert torch.equal(first, second)
    torch.testing.assert_close(first, module(x), rtol=0.02, atol=0.02)
