# pyright: basic, reportMissingTypeStubs=false
"""The stories of packages: a GPT with a cache, and a diffusion network of 4 bits."""

import importlib
from pathlib import Path
from types import ModuleType
from typing import Any

import coremltools
import numpy as np
import pytest
import torch
from torch import nn

import padc
from padc.verification import run_package

ct: Any = coremltools


def example(name: str) -> ModuleType:
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.syspath_prepend(Path(__file__).parents[2])
        return importlib.import_module(f"examples.{name}")


def description(path: Path) -> Any:
    """What coremltools reads in a package, without metadata."""
    spec = ct.models.MLModel(str(path), skip_model_load=True).get_spec()
    spec.description.ClearField("metadata")
    return spec.description


def test_a_gpt_with_a_cache(tmp_path: Path):
    gpt = example("gpt")
    model, inputs = gpt.gpt()
    program = padc.convert(model, inputs, target="iOS18", verify=True)
    path = tmp_path / "gpt.mlpackage"
    program.save(path)

    generated = gpt.generate(gpt.step_of_package(path), 50)

    assert generated == gpt.generate(gpt.step_of_pytorch(model), 50)
    assert len(set(generated)) > 20
    read = description(path)
    assert [
        (each.name, list(each.type.multiArrayType.shape))
        for each in (*read.input, *read.output)
    ] == [("token", [1, 1]), ("position", [1]), ("select", [1, gpt.VOCABULARY])]
    states = {each.name: each.type.stateType.arrayType for each in read.state}
    assert [*states] == [
        f"blocks_{layer}_attention_{name}"
        for layer in range(gpt.LAYERS)
        for name in ("keys", "values")
    ]
    for state in states.values():
        assert list(state.shape) == [1, gpt.HEADS, gpt.CONTEXT, gpt.WIDTH // gpt.HEADS]
        assert state.dataType == state.FLOAT16


@pytest.mark.slow
def test_a_diffusion_network_of_4_bits(tmp_path: Path):
    diffusion = example("diffusion")
    program = diffusion.convert()
    path = tmp_path / "diffusion.mlpackage"
    program.save(path)

    (comparison,) = program.verify([program.exported.example_inputs[0]])

    assert comparison.relative_error < 0.1
    weights = path / "Data/com.apple.CoreML/weights/weight.bin"
    count = sum(each.numel() for each in program.model.parameters())
    assert weights.stat().st_size < 0.7 * count
    image, time = program.exported.example_inputs[0]
    # Nothing in a panorama tells where it begins.
    (here,), (there,) = (
        run_package(path, [image.roll(by, 3), time]) for by in (0, 2 * 5)
    )
    torch.testing.assert_close(there, here.roll(2 * 5, 3), rtol=0, atol=0.02)


@pytest.mark.slow
def test_its_description_is_that_of_coremltools(tmp_path: Path):
    """With zero padding, as circular padding does not convert there."""
    model, inputs = example("diffusion").diffusion()
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            module.padding_mode = "zeros"
    program = padc.convert(model, inputs, target="iOS18", precision="float16")
    program.save(tmp_path / "padc.mlpackage")
    ours = description(tmp_path / "padc.mlpackage")
    (output,) = (each.name for each in ours.output)
    converted = ct.convert(
        torch.export.export(model, inputs).run_decompositions({}),
        outputs=[ct.TensorType(output, dtype=np.float32)],
        minimum_deployment_target=ct.target.iOS18,
        compute_precision=ct.precision.FLOAT16,
        skip_model_load=True,
    )

    converted.save(str(tmp_path / "coremltools.mlpackage"))

    assert ours == description(tmp_path / "coremltools.mlpackage")
