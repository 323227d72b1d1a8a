"""Batch normalization as a part of the convolution before it."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from xdsl.dialects.builtin import ModuleOp

from padc.backends.reference import run
from padc.frontends.torch_export import import_exported_program
from padc.ir import make_context
from padc.ir.torch import AtenOp
from padc.ir.weights import weights_of
from padc.passes.torch_to_tcp.convert_torch_to_tcp import ConvertTorchToTcpPass
from padc.passes.torch_to_tcp.fold_batch_norm import FoldBatchNormPass


def folded(model: nn.Module, x: Tensor) -> tuple[ModuleOp, Tensor]:
    """The program after the pass, and what it computes."""
    ctx = make_context()
    weights = weights_of(ctx)
    module = import_exported_program(torch.export.export(model, (x,)), weights)
    ConvertTorchToTcpPass().apply(ctx, module)
    FoldBatchNormPass().apply(ctx, module)
    module.verify()
    return module, run(module, x, weights=weights)[0]


def norms(module: ModuleOp) -> int:
    return sum(isinstance(op, AtenOp) for op in module.walk())


def normal(layer: nn.Module) -> nn.Module:
    """The layer in inference, with statistics as after training."""
    generator = torch.Generator().manual_seed(0)
    for tensor in layer.state_dict().values():
        if tensor.is_floating_point():
            tensor.copy_(torch.rand(tensor.shape, generator=generator) + 0.1)
    return layer.eval()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "layer, norm, shape",
    [
        (nn.Conv1d(3, 6, 3, padding=1), nn.BatchNorm1d(6), (2, 3, 9)),
        (nn.Conv2d(4, 6, 3, groups=2, bias=False), nn.BatchNorm2d(6), (2, 4, 8, 9)),
        (nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6, affine=False, eps=0.1), (1, 3, 8, 9)),
        (nn.Conv3d(2, 3, 2, stride=2), nn.BatchNorm3d(3), (1, 2, 4, 5, 6)),
        (
            nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, groups=2),
            nn.BatchNorm2d(6),
            (1, 4, 5, 6),
        ),
    ],
)
def test_one_convolution_is_left(
    layer: nn.Module, norm: nn.Module, shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    model = normal(nn.Sequential(layer, norm)).to(dtype)
    x = torch.randn(shape, dtype=dtype)

    module, y = folded(model, x)

    assert norms(module) == 0
    torch.testing.assert_close(y, model(x))


class Twice(nn.Module):
    """The result of a convolution is needed as it was, too."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv(x)
        return torch.cat([y, self.norm(y)])


@pytest.mark.parametrize(
    "model, dtype",
    [
        (Twice(), torch.float32),
        (nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)), torch.float16),
        (nn.Sequential(nn.ReLU(), nn.BatchNorm2d(3)), torch.float32),
    ],
    ids=["two users", "half", "no convolution"],
)
def test_normalization_stays(model: nn.Module, dtype: torch.dtype) -> None:
    model = normal(model).to(dtype)
    x = torch.randn(1, 3, 8, 8, dtype=dtype)

    module, y = folded(model, x)

    assert norms(module) > 0
    torch.testing.assert_close(y, model(x))
