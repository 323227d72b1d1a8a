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


def description_of(program: padc.Program, path: Path) -> Any:
    program.save(path / "model.mlpackage")
    loaded = ct.models.MLModel(str(path / "model.mlpackage"), skip_model_load=True)
    return loaded.get_spec().description


def of_coremltools(model: nn.Module, example: Tensor, **options: Any) -> Any:
    """What `ct.convert` makes of the same network."""
    with warnings.catch_warnings(action="ignore"):
        return ct.convert(
            torch.jit.trace(model, example),
            compute_precision=ct.precision.FLOAT32,
            skip_model_load=True,
            **options,
        )


def assert_same_fields(ours: Any, theirs: Any) -> None:
    """All fields but the user's metadata, which says who converted the model."""
    for each in (ours, theirs):
        each.metadata.userDefined.clear()
    assert str(ours) == str(theirs)


@pytest.mark.parametrize("story", ["photo_classifier", "segmenter"], indirect=True)
def test_a_story(story: ModuleType, capsys: pytest.CaptureFixture[str]):
    assert story.main() == 0
    assert len(capsys.readouterr().out.splitlines()) == 4


@pytest.mark.parametrize("story", ["photo_classifier"], indirect=True)
def test_the_classifier_is_described_as_by_coremltools(
    story: ModuleType, tmp_path: Path
):
    program, model = story.convert()

    ours = description_of(program, tmp_path)

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
    assert_same_fields(ours, theirs.get_spec().description)


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

    ours = description_of(program, tmp_path)

    preview = ours.metadata.userDefined["com.apple.coreml.model.preview.type"]
    assert preview == "imageSegmenter"
    # It resamples to no size but twice, three times ... the size: another network of
    # the same inputs and outputs takes this one's place.
    with pytest.raises(ValueError, match="Unable to map torch_upsample_bilinear"):
        of_coremltools(model, image, **options)
    theirs = of_coremltools(nn.Conv2d(3, 1, 3, padding=1).eval(), image, **options)
    assert_same_fields(ours, theirs.get_spec().description)
