"""Batch normalization as a part of the convolution before it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from padc.backends.reference import run
from padc.frontends.torch_export import import_exported_program
from padc.ir import make_context
from padc.ir.torch import AtenOp
from padc.ir.weights import weights_of
from padc.passes.aten.folded_norm import FoldedNorm
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
    return sum(
        isinstance(op, AtenOp) and "batch_norm" in op.schema.name
        for op in module.walk()
    )


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
        (nn.Sequential(nn.MaxPool2d(2), nn.BatchNorm2d(3)), torch.float32),
    ],
    ids=["two users", "half", "no convolution", "a pool"],
)
def test_normalization_stays(model: nn.Module, dtype: torch.dtype) -> None:
    model = normal(model).to(dtype)
    x = torch.randn(1, 3, 8, 8, dtype=dtype)

    module, y = folded(model, x)

    assert norms(module) > 0
    torch.testing.assert_close(y, model(x))


NORM = """
  %y = torch.aten.batch_norm %c, %v, %v, %v, %v, %false, %eps, %eps, %false : !torch.vtensor<[1,3,3],f32>, !torch.vtensor<[3],f32>, !torch.vtensor<[3],f32>, !torch.vtensor<[3],f32>, !torch.vtensor<[3],f32>, !torch.bool, !torch.float, !torch.float, !torch.bool -> !torch.vtensor<[1,3,3],f32>
"""
LEGIT = """
  %y, %s, %t = torch.operator "torch.aten._native_batch_norm_legit_no_training"(%c, %v, %v, %v, %v, %eps, %eps) : (!torch.vtensor<[1,3,3],f32>, !torch.vtensor<[3],f32>, !torch.vtensor<[3],f32>, !torch.vtensor<[3],f32>, !torch.vtensor<[3],f32>, !torch.float, !torch.float) -> (!torch.vtensor<[1,3,3],f32>, !torch.vtensor<[0],f32>, !torch.vtensor<[0],f32>)
"""
USED = '"test.op"(%s) : (!torch.vtensor<[0],f32>) -> ()'
FUNCTION = """
func.func @main(%x: tensor<1x2x3xf32>, %computed: !torch.vtensor<[3],f32>) -> !torch.vtensor<[1,3,3],f32> {{
  %w = torch.vtensor.literal(dense<2.0> : tensor<3x2x1xf32>) : !torch.vtensor<[3,2,1],f32>
  %v = torch.vtensor.literal(dense<0.5> : tensor<3xf32>) : !torch.vtensor<[3],f32>
  %k = torch_c.to_builtin_tensor %w : !torch.vtensor<[3,2,1],f32> -> tensor<3x2x1xf32>
  %conv = tcp.conv %x, %k strides [1] dilations [1] groups 1 dims <[b, f, 0] x [o, i, 0] -> [b, f, 0]> : tensor<1x2x3xf32>, tensor<3x2x1xf32> -> tensor<1x3x3xf32>
  %c = torch_c.from_builtin_tensor %conv : tensor<1x3x3xf32> -> !torch.vtensor<[1,3,3],f32>
  %false = torch.constant.bool false
  %true = torch.constant.bool true
  %none = torch.constant.none
  %eps = torch.constant.float 1.0
  {norm}
  func.return %y : !torch.vtensor<[1,3,3],f32>
}}
"""
NONE_OF = "!torch.vtensor<[3],f32>, !torch.vtensor<[3],f32>, !torch.bool"
VARIANTS = {
    "as it is": (NORM, 0),
    "of core ATen": (LEGIT, 0),
    "of core ATen, with its mean": (LEGIT + USED, 1),
    "training": (NORM.replace("%v, %false", "%v, %true"), 1),
    "computed weight": (NORM.replace("%c, %v", "%c, %computed"), 1),
    "computed mean": (NORM.replace("%v, %v, %false", "%computed, %v, %false"), 1),
    "no mean": (
        NORM.replace("%v, %v, %false", "%none, %v, %false").replace(
            NONE_OF, "!torch.none, !torch.vtensor<[3],f32>, !torch.bool"
        ),
        1,
    ),
    "no variance": (
        NORM.replace("%v, %v, %false", "%v, %none, %false").replace(
            NONE_OF, "!torch.vtensor<[3],f32>, !torch.none, !torch.bool"
        ),
        1,
    ),
    "convolution used twice": (
        NORM
        + "%z = tcp.max_pool %conv kernel [2] strides [1] dilations [1] dims [2] : tensor<1x3x3xf32> -> tensor<1x3x2xf32>",
        1,
    ),
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_only_constant_norms_of_one_use_fold(
    variant: str, parse: Callable[[str], ModuleOp], ctx: Context
):
    norm, left = VARIANTS[variant]
    text = FUNCTION.format(norm=norm)
    if variant == "convolution used twice":
        text = text.replace(
            "func.return %y",
            '%u = "test.op"(%z) : (tensor<1x3x2xf32>) -> i1\nfunc.return %y',
        )
    module = parse(text)

    FoldBatchNormPass().apply(ctx, module)

    module.verify()
    assert norms(module) == left


def test_features_in_another_dimension(parse: Callable[[str], ModuleOp], ctx: Context):
    """The norm is of dimension 1, which is not that of the convolution's features."""
    text = FUNCTION.format(norm=NORM).replace("-> [b, f, 0]>", "-> [b, 0, f]>")
    module = parse(text)

    FoldBatchNormPass().apply(ctx, module)

    assert norms(module) == 1


def test_folded_weights_are_computed_from_those_of_the_model():
    ctx = make_context()
    weights = weights_of(ctx)
    model = normal(nn.Sequential(nn.Conv1d(2, 3, 1), nn.BatchNorm1d(3)))
    exported = torch.export.export(model, (torch.zeros(1, 2, 4),))
    module = import_exported_program(exported, weights)
    before = set(weights)
    ConvertTorchToTcpPass().apply(ctx, module)

    FoldBatchNormPass().apply(ctx, module)

    (folded,) = weights.derivations
    assert isinstance(folded, FoldedNorm)
    assert {folded.conv_weight, folded.conv_bias, folded.mean} <= before
    assert set(weights) - before == {folded.weight, folded.bias}
