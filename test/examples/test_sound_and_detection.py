# pyright: basic, reportMissingTypeStubs=false
"""The examples that save a package for an app: their specifications."""

import importlib
from pathlib import Path
from typing import Any

import coremltools
import pytest
import torch
from torch import Tensor, nn

from padc.backends.coreml import quiet

ct: Any = coremltools


def saved(
    name: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Any, nn.Module, tuple[Tensor, ...]]:
    """Run an example; its package as coremltools loads it, the model and its inputs."""
    monkeypatch.syspath_prepend(Path(__file__).parents[2])
    module = importlib.import_module(f"examples.{name}")
    module.main(path)
    model, inputs = getattr(module, name)()
    with quiet():
        return ct.models.MLModel(str(path), skip_model_load=True), model, inputs


def fields(spec: Any) -> dict[str, Any]:
    """What an app sees of a package."""
    described = spec.description

    def types(features: Any) -> list[Any]:
        return [
            (
                list(feature.type.multiArrayType.shape),
                feature.type.multiArrayType.dataType,
                feature.type.isOptional,
            )
            for feature in features
        ]

    return {
        "version": spec.specificationVersion,
        "kind": spec.WhichOneof("Type"),
        "functions": list(spec.mlProgram.functions),
        "input names": [feature.name for feature in described.input],
        "input types": types(described.input),
        "output types": types(described.output),
        "states": len(described.state),
        "classes": described.predictedFeatureName,
    }


def test_the_detector_is_described_as_by_coremltools(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    package, model, inputs = saved("detector", tmp_path / "d.mlpackage", monkeypatch)
    exported = torch.export.export(model, inputs).run_decompositions({})
    with quiet():
        converted = ct.convert(
            exported,
            minimum_deployment_target=ct.target.iOS17,
            compute_precision=ct.precision.FLOAT32,
            skip_model_load=True,
        )

    spec = package.get_spec()

    expected = fields(converted.get_spec())
    # coremltools declares no shapes of outputs.
    shapes = [list(output.shape) for output in model(*inputs).values()]
    expected["output types"] = [
        (shape, *rest)
        for shape, (_, *rest) in zip(shapes, expected["output types"], strict=True)
    ]
    assert fields(spec) == expected
    assert [output.name for output in spec.description.output] == ["scores", "boxes"]
    assert "the best box is [" in capsys.readouterr().out


def test_the_vocoder_makes_sound(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    package, model, inputs = saved("vocoder", tmp_path / "v.mlpackage", monkeypatch)

    spec = package.get_spec()

    (mel,) = spec.description.input
    (sound,) = spec.description.output
    assert (mel.name, list(mel.type.multiArrayType.shape)) == ("mel", [1, 20, 24])
    assert list(sound.type.multiArrayType.shape) == list(model(*inputs).shape)
    assert "24 frames become 1536 samples" in capsys.readouterr().out
