# pyright: basic, reportMissingTypeStubs=false
"""The examples that save a package for an app: their specifications."""

import importlib
import warnings
from pathlib import Path
from typing import Any

import coremltools
import pytest
import torch
from spec_fields import differences, interface_of
from torch import Tensor, nn

from padc.backends.coreml import quiet

ct: Any = coremltools

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.trace:DeprecationWarning")


def saved(
    name: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """Run an example, which saves its package; the model and its inputs."""
    monkeypatch.syspath_prepend(Path(__file__).parents[2])
    module = importlib.import_module(f"examples.{name}")
    module.main(path)
    return getattr(module, name)()


def test_the_detector_is_described_as_by_coremltools(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    path = tmp_path / "d.mlpackage"
    model, inputs = saved("detector", path, monkeypatch)
    with quiet():
        theirs = ct.convert(
            torch.export.export(model, inputs).run_decompositions({}),
            outputs=[ct.TensorType("scores"), ct.TensorType("boxes")],
            minimum_deployment_target=ct.target.iOS17,
            compute_precision=ct.precision.FLOAT32,
            skip_model_load=True,
        )

    assert [*differences(interface_of(path), interface_of(theirs))] == []
    assert "the best box is [" in capsys.readouterr().out


def test_the_vocoder_makes_sound(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    path = tmp_path / "v.mlpackage"
    model, inputs = saved("vocoder", path, monkeypatch)

    described: Any = interface_of(path)
    (mel,) = described.description.input
    (sound,) = described.description.output
    assert (mel.name, list(mel.type.multiArrayType.shape)) == ("mel", [1, 20, 24])
    assert list(sound.type.multiArrayType.shape) == list(model(*inputs).shape)
    assert "24 frames become 1536 samples" in capsys.readouterr().out


def test_coremltools_alone_does_not_convert_the_vocoder(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.syspath_prepend(Path(__file__).parents[2])
    model, inputs = importlib.import_module("examples.vocoder").vocoder()

    with quiet(), torch.no_grad(), warnings.catch_warnings(action="ignore"):
        traced = torch.jit.trace(model, inputs, check_trace=False)
        types = [ct.TensorType("mel", each.shape) for each in inputs]
        with pytest.raises(NotImplementedError, match="polar"):
            ct.convert(traced, inputs=types, skip_model_load=True)
