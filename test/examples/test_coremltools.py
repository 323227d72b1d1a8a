# pyright: basic, reportMissingTypeStubs=false
"""The example networks as coremltools converts them, run by the evaluator."""

import copy
import importlib
from pathlib import Path
from typing import Any

import coremltools
import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

import padc

ct: Any = coremltools
NETWORKS = (
    pytest.param("resnet50", marks=pytest.mark.slow),
    pytest.param("unet", marks=pytest.mark.slow),
    "style_transfer",
    "same_padding",
)

pytestmark = pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")


def as_coremltools_reads(model: nn.Module) -> nn.Module:
    """`model` with average pools that divide by the whole window, as Core ML's do, also
    where ceil mode lets it leave the padding; coremltools takes PyTorch's for them."""
    model = copy.deepcopy(model)
    for name, child in model.named_children():
        if isinstance(child, nn.AvgPool2d) and child.count_include_pad:
            assert (child.kernel_size, child.stride, child.padding) == (3, 2, 1)
            pool = nn.Sequential(nn.ZeroPad2d((1, 2, 1, 2)), nn.AvgPool2d(3, 2))
            setattr(model, name, pool)
    return model


class SumsInFloat32(TorchDispatchMode):
    """
    Convolutions of halves are summed in float32 and rounded once.

    PyTorch's own do that too, but on some CPUs in plain loops, which take minutes.
    """

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is not torch.ops.aten.convolution.default:
            return func(*args, **(kwargs or {}))
        x, weight, bias, *rest = args
        bias = None if bias is None else bias.float()
        return func(x.float(), weight.float(), bias, *rest).to(x.dtype)


@pytest.fixture(scope="module", params=NETWORKS)
def network(request: pytest.FixtureRequest) -> tuple[nn.Module, Tensor]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.syspath_prepend(Path(__file__).parents[2])
        module = importlib.import_module(f"examples.{request.param}")
    model, (image,) = getattr(module, request.param)()
    if request.param != "same_padding":  # It has a linear layer, so one size.
        image = image[..., ::2, ::2]  # It takes a quarter of the time.
    return model, image


def predict(converted: Any, path: Path, image: Tensor) -> Tensor:
    converted.save(str(path))
    model = padc.coreml.load(path)
    (feature,) = model.inputs
    data = {feature.name: image.numpy().astype(feature.dtype)}
    (output,) = model.predict(data).values()
    return torch.from_numpy(output).float()


def test_fp32(network: tuple[nn.Module, Tensor], tmp_path: Path):
    model, image = network
    exported = torch.export.export(model, (image,)).run_decompositions({})
    converted = ct.convert(
        exported,
        minimum_deployment_target=ct.target.iOS17,
        compute_precision=ct.precision.FLOAT32,
        skip_model_load=True,
    )

    actual = predict(converted, tmp_path / "m.mlpackage", image)

    with torch.no_grad():
        expected = as_coremltools_reads(model)(image)
    assert (actual - expected).abs().max() <= 1e-4 * np.ptp(expected.numpy())


@pytest.mark.slow
def test_fp16_is_as_close_as_half_precision_in_torch(
    network: tuple[nn.Module, Tensor], tmp_path: Path
):
    model, image = network
    converted = ct.convert(
        torch.jit.trace(model, image, check_trace=False),
        inputs=[ct.TensorType("image", image.shape)],
        minimum_deployment_target=ct.target.iOS17,
        skip_model_load=True,
    )

    actual = predict(converted, tmp_path / "m.mlpackage", image)

    model = as_coremltools_reads(model)
    with torch.no_grad(), SumsInFloat32():
        expected = model(image)
        half = model.half()(image.half()).float()
    assert (actual - expected).abs().max() <= 1.5 * (half - expected).abs().max()
