# pyright: basic, reportMissingTypeStubs=false
"""The stories of packages: a GPT with a cache, and a diffusion network of 4 bits."""

import importlib
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import coremltools
import numpy as np
import pytest
import torch
from spec_fields import differences, interface_of
from torch import nn

import padc
from padc.backends.coreml import quiet
from padc.verification import run_package

ct: Any = coremltools

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.trace:DeprecationWarning")

Printed = pytest.CaptureFixture[str]


def example(name: str) -> ModuleType:
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.syspath_prepend(Path(__file__).parents[2])
        return importlib.import_module(f"examples.{name}")


def traced_by_coremltools(model: nn.Module, example: Any, **options: Any) -> Any:
    """What `ct.convert` makes of the traced model."""
    with quiet(), torch.no_grad(), warnings.catch_warnings(action="ignore"):
        traced = torch.jit.trace(model, example, check_trace=False)
        return ct.convert(
            traced,
            minimum_deployment_target=ct.target.iOS18,
            skip_model_load=True,
            **options,
        )


def test_a_gpt_with_a_cache(tmp_path: Path, capsys: Printed):
    gpt = example("gpt")
    path = tmp_path / "gpt.mlpackage"

    assert gpt.main(path) == 0

    package, pytorch = (
        line.split(":")[1].split() for line in capsys.readouterr().out.splitlines()
    )
    assert package == pytorch and len(package) == 50
    assert len(set(package)) > 20
    read: Any = interface_of(path)
    described = read.description
    assert [
        (each.name, list(each.type.multiArrayType.shape))
        for each in (*described.input, *described.output)
    ] == [("token", [1, 1]), ("position", [1]), ("select", [1, gpt.VOCABULARY])]
    states = {each.name: each.type.stateType.arrayType for each in described.state}
    assert [*states] == [
        f"blocks_{layer}_attention_{name}"
        for layer in range(gpt.LAYERS)
        for name in ("keys", "values")
    ]
    for state in states.values():
        assert list(state.shape) == [1, gpt.HEADS, gpt.CONTEXT, gpt.WIDTH // gpt.HEADS]
        assert state.dataType == state.FLOAT16


def test_coremltools_alone_does_not_convert_the_gpt():
    model, (token, position) = example("gpt").gpt()
    types = [ct.TensorType(shape=x.shape, dtype=np.int32) for x in (token, position)]
    states = [
        ct.StateType(ct.TensorType(shape=buffer.shape, dtype=np.float16), name)
        for name, buffer in model.named_buffers()
    ]

    with pytest.raises(ValueError, match="must have the same data type"):
        traced_by_coremltools(model, (token, position), inputs=types, states=states)


WIDTHS = [16, pytest.param(32, marks=pytest.mark.slow)]


@pytest.mark.parametrize("width", WIDTHS)
def test_a_diffusion_network_of_4_bits(width: int, tmp_path: Path, capsys: Printed):
    diffusion = example("diffusion")
    path = tmp_path / "diffusion.mlpackage"

    assert diffusion.main(path, width, with_report=width == diffusion.WIDTH) == 0

    first, *_, last = capsys.readouterr().out.splitlines()
    assert float(first.split()[3]) < 0.15
    assert last.startswith("image: mean ")
    model, (image, time) = diffusion.diffusion(width)
    weights = path / "Data/com.apple.CoreML/weights/weight.bin"
    count = sum(each.numel() for each in model.parameters())
    assert weights.stat().st_size < {16: 0.9, 32: 0.7}[width] * count
    # Nothing in a panorama tells where it begins.
    (here,), (there,) = (
        run_package(path, [image.roll(by, 3), time]) for by in (0, 2 * 5)
    )
    torch.testing.assert_close(there, here.roll(2 * 5, 3), rtol=0, atol=0.02)


def test_the_diffusion_network_is_described_as_by_coremltools(tmp_path: Path):
    """With zero padding, as circular padding does not convert there."""
    model, inputs = example("diffusion").diffusion(16)
    with pytest.raises(ValueError, match="Pad mode should be one of"):
        types = [ct.TensorType(shape=each.shape) for each in inputs]
        traced_by_coremltools(model, inputs, inputs=types)
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            module.padding_mode = "zeros"
    program = padc.convert(model, inputs, target="iOS18", precision="float16")
    program.save(tmp_path / "padc.mlpackage")
    ours: Any = interface_of(tmp_path / "padc.mlpackage")
    (output,) = (each.name for each in ours.description.output)

    with quiet(), warnings.catch_warnings(action="ignore"):
        theirs = ct.convert(
            torch.export.export(model, inputs).run_decompositions({}),
            outputs=[ct.TensorType(output, dtype=np.float32)],
            minimum_deployment_target=ct.target.iOS18,
            compute_precision=ct.precision.FLOAT16,
            skip_model_load=True,
        )

    assert [*differences(ours, interface_of(theirs))] == []
