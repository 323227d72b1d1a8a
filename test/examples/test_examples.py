"""The example networks: what `padc convert examples.<name>:<name>` loads."""

import importlib
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

Factory = Callable[[], tuple[nn.Module, tuple[Tensor, ...]]]

OUTPUT_SHAPES = {
    "resnet50": (1, 1000),
    "mobilenet_v2": (1, 1000),
    "unet": (1, 2, 256, 256),
    "style_transfer": (1, 3, 256, 256),
    "same_padding": (1, 100),
    "spatial_transformer": (1, 10),
    "flow_warp": (1, 3, 128, 160),
    "voxel_morph": (1, 1, 24, 32, 28),
}

pytestmark = pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")


def factory(name: str, monkeypatch: pytest.MonkeyPatch) -> Factory:
    monkeypatch.syspath_prepend(Path(__file__).parents[2])
    return getattr(importlib.import_module(f"examples.{name}"), name)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] if name == "unet" else [])
        for name in OUTPUT_SHAPES
    ],
)
def test_example_is_reproducible_and_keeps_its_numbers_in_range(
    name: str, monkeypatch: pytest.MonkeyPatch
):
    build = factory(name, monkeypatch)
    random_state = torch.get_rng_state()

    model, inputs = build()
    again, same_inputs = build()

    assert torch.equal(torch.get_rng_state(), random_state)
    assert not model.training
    with torch.no_grad():
        output, same_output = model(*inputs), again(*same_inputs)
    assert output.shape == OUTPUT_SHAPES[name]
    assert torch.equal(output, same_output)
    assert 0.1 < output.std() < 10


@pytest.mark.slow
@pytest.mark.parametrize("name", OUTPUT_SHAPES)
def test_example_exports(name: str, monkeypatch: pytest.MonkeyPatch):
    model, inputs = factory(name, monkeypatch)()

    program = torch.export.export(model, inputs, strict=False)

    with torch.no_grad():
        torch.testing.assert_close(program.module()(*inputs), model(*inputs))


def test_ceil_mode_adds_to_each_pool_of_same_padding(monkeypatch: pytest.MonkeyPatch):
    model, (x,) = factory("same_padding", monkeypatch)()
    pools = 0

    for layer in model.children():
        with torch.no_grad():
            y = layer(x)
            if isinstance(layer, nn.MaxPool2d | nn.AvgPool2d):
                pools += 1
                layer.ceil_mode = False
                assert layer(x).shape != y.shape
        x = y

    assert pools == 4
