# pyright: basic, reportMissingTypeStubs=false
"""Packages for apps: a classifier of photos, and a segmentation of any size."""

import importlib
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import coremltools
import pytest
import torch
from spec_fields import differences, interface_of
from torch import Tensor, nn

import padc

ct: Any = coremltools

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.trace:DeprecationWarning")


@pytest.fixture
def story(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> ModuleType:
    monkeypatch.syspath_prepend(Path(__file__).parents[2])
    return importlib.import_module(f"examples.{request.param}")


def saved(program: padc.Program, folder: Path) -> Path:
    program.save(folder / "model.mlpackage")
    return folder / "model.mlpackage"


def of_coremltools(model: nn.Module, example: Tensor, **options: Any) -> Any:
    """What `ct.convert` makes of the same network."""
    with warnings.catch_warnings(action="ignore"):
        return ct.convert(
            torch.jit.trace(model, example),
            compute_precision=ct.precision.FLOAT32,
            skip_model_load=True,
            **options,
        )


@pytest.mark.parametrize("story", ["photo_classifier", "segmenter"], indirect=True)
def test_a_story(story: ModuleType, capsys: pytest.CaptureFixture[str]):
    assert story.main() == 0
    assert len(capsys.readouterr().out.splitlines()) == 4


@pytest.mark.parametrize("story", ["photo_classifier"], indirect=True)
def test_the_classifier_is_described_as_by_coremltools(
    story: ModuleType, tmp_path: Path
):
    program, model = story.convert()

    path = saved(program, tmp_path)

    # ct.convert knows no scale for each channel.
    _, (images,) = story.photo_classifier()
    photo = ct.ImageType("photo", (1, 3, story.SIZE, story.SIZE), scale=1 / 255)
    theirs = of_coremltools(
        model,
        images[:1],
        inputs=[photo],
        classifier_config=ct.ClassifierConfig(story.LABELS),
        minimum_deployment_target=ct.target.iOS16,
    )
    theirs.author, theirs.license, theirs.version = "padc", "Apache-2.0", "1.0"
    theirs.short_description = "Tells what is in a photo."
    theirs.input_description["photo"] = "a photo of 64 by 64 pixels"
    theirs.output_description["classLabel"] = "what is most likely in the photo"
    theirs.output_description["classLabel_probs"] = "the probability of each label"
    assert [*differences(interface_of(path), interface_of(theirs))] == []


@pytest.mark.parametrize("story", ["segmenter"], indirect=True)
def test_the_segmentation_is_described_as_by_coremltools(
    story: ModuleType, tmp_path: Path
):
    program, model = story.convert()
    _, (image,) = story.segmenter()
    options = {
        "inputs": [ct.ImageType("photo", (1, 3, *story.sizes()), scale=1 / 255)],
        "outputs": [ct.ImageType("mask", color_layout="G")],
        "minimum_deployment_target": ct.target.iOS17,
    }

    path = saved(program, tmp_path)

    user = ct.models.MLModel(str(path), skip_model_load=True).user_defined_metadata
    assert user["com.apple.coreml.model.preview.type"] == "imageSegmenter"
    # It resamples to no size but twice, three times ... the size: another network of
    # the same inputs and outputs takes this one's place.
    with pytest.raises(ValueError, match="Unable to map torch_upsample_bilinear"):
        of_coremltools(model, image, **options)
    theirs = of_coremltools(nn.Conv2d(3, 1, 3, padding=1).eval(), image, **options)
    assert [*differences(interface_of(path), interface_of(theirs))] == []


def test_differences_name_the_field():
    ours, theirs = ct.proto.Model_pb2.Model(), ct.proto.Model_pb2.Model()
    for spec, size in ((ours, 3), (theirs, 4)):
        feature = spec.description.input.add(name="x")
        feature.type.multiArrayType.shape.extend([1, size])
    theirs.description.output.add(name="y")
    theirs.mlProgram.functions["main"].opset = "CoreML7"

    assert [*differences(ours, ours)] == []
    assert [*differences(ours, theirs)] == [
        "description.input[0].type.multiArrayType.shape[1]: 3, theirs is 4",
        'description.output: [], theirs is [name: "y"\n]'.replace("\n", " "),
        "mlProgram.functions: {}, theirs is {'main': opset: \"CoreML7\" }",
    ]
