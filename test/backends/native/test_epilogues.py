"""Elementwise ops after sums of products, in the kernels of these."""

from collections.abc import Callable
from typing import TypeAlias

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import padc

Epilogue: TypeAlias = Callable[[Tensor, Tensor, Tensor], Tensor]

EPILOGUES: dict[str, Epilogue] = {
    "relu": lambda y, other, scale: y.relu(),
    "silu": lambda y, other, scale: F.silu(y),
    "a chain": lambda y, other, scale: (y * scale + 1).clamp(-0.5, 2) - other,
    "other, then relu": lambda y, other, scale: (other + y).relu(),
    "a turned tensor": lambda y, other, scale: y - other.flip(0).mT.contiguous().mT,
    "read twice": lambda y, other, scale: (y * 2, y.exp())[0] - y,
}


class Model(torch.nn.Module):
    """A product for each epilogue."""

    def __init__(self, product: Callable[..., Tensor]):
        super().__init__()
        self.product = product

    def forward(self, x: Tensor, w: Tensor, b: Tensor, other: Tensor, scale: Tensor):
        return [end(self.product(x, w, b), other, scale) for end in EPILOGUES.values()]


def after_another(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    """Two convolutions, whose channels are packed."""
    y = F.conv2d(x, w, b, padding=1).tanh()
    return F.conv2d(y, w, b, padding=1)


PRODUCTS = {
    "linear": (F.linear, (37, 24), (20, 24)),
    "linear, many products": (F.linear, (40, 1100), (17, 1100)),
    "linear, few rows": (F.linear, (3, 70), (33, 70)),
    "products": (lambda x, w, b: x @ w.mT + b, (2, 30, 600), (2, 19, 600)),
    "conv1d": (F.conv1d, (2, 5, 45), (6, 5, 3)),
    "conv2d": (F.conv2d, (1, 3, 9, 21), (7, 3, 3, 2)),
    "conv2d, many products": (F.conv2d, (1, 120, 5, 9), (6, 120, 3, 3)),
    "packed": (after_another, (1, 32, 6, 9), (32, 32, 3, 3)),
    "packed, many products": (after_another, (1, 192, 5, 5), (192, 192, 3, 3)),
    "conv3d": (F.conv3d, (1, 32, 3, 4, 9), (32, 32, 2, 2, 2)),
}
SIMILAR = "linear, few rows", "conv2d, many products", "packed", "conv3d"


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] if name in SIMILAR else [])
        for name in PRODUCTS
    ],
)
def test_epilogues(name: str) -> None:
    torch.manual_seed(0)
    product, x_shape, w_shape = PRODUCTS[name]
    dtype = torch.float64 if name == "conv1d" else torch.float32
    x = torch.randn(x_shape, dtype=dtype)
    w = torch.randn(w_shape, dtype=dtype) / w_shape[1] ** 0.5
    is_convolution = "conv" in name or "packed" in name
    b = torch.randn(w_shape[0] if is_convolution else w_shape[-2], dtype=dtype)
    like = product(x, w, b)
    scale_shape = (len(b), *[1] * (like.dim() - 2)) if is_convolution else (len(b),)
    inputs = x, w, b, torch.randn_like(like), torch.randn(scale_shape, dtype=dtype)
    model = Model(product).eval()
    compiled = padc.compile(model, inputs)
    assert compiled.is_native
    bound = 1e-12 if dtype == torch.float64 else 1e-5
    expected = model(*(each.double() for each in inputs))
    for result, right in zip(compiled(*inputs), expected, strict=True):
        torch.testing.assert_close(result.double(), right, rtol=bound, atol=bound * 20)


def test_dynamic_sizes() -> None:
    rows = torch.export.Dim("rows", min=2, max=100)
    model = Model(F.linear)
    torch.manual_seed(0)
    shapes = (8, 30), (20, 30), (20,), (8, 20), (20,)
    inputs = tuple(torch.randn(shape) for shape in shapes)
    compiled = padc.compile(
        model, inputs, dynamic_shapes=({0: rows}, None, None, {0: rows}, None)
    )
    assert compiled.is_native
    for count in (2, 23, 24, 61):
        x, other = torch.randn(count, 30), torch.randn(count, 20)
        given = x, inputs[1], inputs[2], other, inputs[4]
        torch.testing.assert_close(
            compiled(*given), model(*given), rtol=1e-5, atol=1e-5
        )


class Layers(torch.nn.Module):
    """Linear layers of sizes that vectors divide, and of others."""

    def __init__(self, dtype: torch.dtype):
        super().__init__()
        self.up = torch.nn.Linear(70, 192, dtype=dtype)
        self.side = torch.nn.Linear(70, 16, bias=False, dtype=dtype)
        self.down = torch.nn.Linear(192, 37, dtype=dtype)
        self.wide = torch.nn.Linear(1040, 48, dtype=dtype)

    def forward(self, x: Tensor):
        hidden = F.gelu(self.up(x))
        wide = self.wide(torch.cat([hidden] * 5 + [x, x[..., :10]], -1))
        number = x[0, 0] @ self.side.weight[0]
        return self.down(hidden), self.side(x).relu() + 1, wide * wide.tanh(), number


@pytest.mark.parametrize(
    "dtype", [torch.float32, pytest.param(torch.float64, marks=pytest.mark.slow)]
)
def test_packed_weights(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    model = Layers(dtype).eval()
    x = torch.randn(3, 29, 70, dtype=dtype)
    bound = 1e-12 if dtype == torch.float64 else 1e-5

    def check(compiled: padc.CompiledModel, x: Tensor) -> None:
        for result, right in zip(compiled(x), model(x), strict=True):
            torch.testing.assert_close(result, right, rtol=bound, atol=bound)

    static = padc.compile(model, (x,))
    assert static.is_native
    check(static, x)
    rows = torch.export.Dim("rows", min=1, max=100)
    dynamic = padc.compile(model, (x,), dynamic_shapes={"x": {1: rows}})
    assert dynamic.is_native
    for count in (1, 7, 64):
        check(dynamic, torch.randn(3, count, 70, dtype=dtype))
