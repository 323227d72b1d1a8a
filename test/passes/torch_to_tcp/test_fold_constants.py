# pyright: basic
"""Constants are folded as PyTorch computes them, before Core ML's converter does."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import padc

X = torch.randn(5, 5, generator=torch.Generator().manual_seed(0))


class Model(nn.Module):
    """A function of an input, and of constants that the model holds."""

    def __init__(self, function: Callable[["Model", Tensor], Tensor]):
        super().__init__()
        generator = torch.Generator().manual_seed(1)
        self.function = function
        self.position = nn.Parameter(torch.randn(1, 17, 8, generator=generator))
        self.image = nn.Buffer(torch.randn(1, 4, 6, 6, generator=generator))
        self.matrix = nn.Buffer(torch.randn(3, 5, generator=generator))

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self, x)


def resized_position(model: Model, x: Tensor) -> Tensor:
    """As DINOv2 does: the first token stays, the others are a 4x4 grid."""
    grid = model.position[:, 1:].reshape(1, 4, 4, 8).permute(0, 3, 1, 2)
    grid = F.interpolate(grid.float(), scale_factor=(1.26, 1.26), mode="bicubic")
    tokens = grid.permute(0, 2, 3, 1).view(1, -1, 8)
    return torch.cat([model.position[:, :1], tokens], 1) + x[0, 0]


MINUS = -torch.inf
CASES: dict[str, tuple[Callable[[Model, Tensor], Tensor], int]] = {
    "triu": (lambda m, x: x + torch.triu(torch.full((5, 5), MINUS), 1), 1),
    "tril": (lambda m, x: x + torch.tril(torch.full((5, 5), MINUS), -1), 1),
    "all": (lambda m, x: x * torch.all(m.matrix) + torch.any(m.matrix > 9) * 2.0, 2),
    "position": (resized_position, 3),
    "adaptive pool": (lambda m, x: x[0, 0] + F.adaptive_avg_pool2d(m.image, 4), 3),
    "padded pool": (
        lambda m, x: x[0, 0] + F.max_pool2d(F.pad(m.image, (2, 1, 1, 2), "reflect"), 3),
        3,
    ),
    "convolution": (
        lambda m, x: x[0, 0] + F.conv2d(m.image, m.image, padding=2)[..., 0],
        3,
    ),
    "float64": (
        lambda m, x: x + torch.linspace(0, 1, 5, dtype=torch.float64).exp().float(),
        1,
    ),
    "0 / 0": (lambda m, x: x + torch.zeros(5) / torch.zeros(5), 1),
    "a list": (lambda m, x: x + torch.cat(m.matrix.split(2)[::-1]).sum(), 1),
}


@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_pytorch(name: str):
    function, count = CASES[name]
    model = Model(function).eval()
    with torch.no_grad():
        expected = model(X)

    program = padc.convert(model, (X,))

    (actual,) = program.run(X)
    torch.testing.assert_close(actual, expected, equal_nan=True)
    assert program.operation_count <= count


def test_large_repetitions_stay_ops():
    model = Model(lambda m, x: x[0, 0] + torch.zeros(1, 64, 64, 64))

    text = padc.convert(model, (X,)).mlir("tcp")

    assert "torch.aten.zeros" in text


def test_the_model_keeps_its_weights():
    def function(model: Model, x: Tensor) -> Tensor:
        return x + model.matrix.t() @ model.matrix

    model = Model(function).eval()
    before = model.matrix.clone()

    padc.convert(model, (X,))

    assert torch.equal(model.matrix, before)
