"""The options of `padc convert` for what an app wants, and its `--help`."""

import json
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from padc.backends.coreml import quiet
from padc.backends.coreml.evaluator import load
from padc.tools.padc import main

with quiet():
    import coremltools as ct

NETS = """
import torch
from torch import nn
from torch.nn import functional as F


class Segment(nn.Module):
    def forward(self, photo, gain):
        edges = F.pad(photo, (1, 1, 1, 1), "reflect")[..., 2:, 2:] - photo
        mask = (edges.mean(1, keepdim=True) * gain).sigmoid()
        return {"mask": mask, "odds": photo.mean((2, 3)).softmax(1)}


def segment():
    return Segment(), (torch.rand(1, 3, 16, 16), torch.ones(1))


class Spaced(nn.Module):
    def forward(self, x):
        return {"my out": x * 2}


def spaced():
    return Spaced(), (torch.rand(4),)


class At(nn.Module):
    def forward(self, x, index):
        return x[index]


class Gray(nn.Module):
    def forward(self, x):
        return {"y": x * 3}


def gray():
    return Gray(), (torch.rand(1, 1, 4, 6),)


def at():
    return At(), (torch.rand(4), torch.tensor([1]))
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "app_nets.py").write_text(NETS)
    (tmp_path / "labels.txt").write_text("cat\ndog\nowl\n")
    (tmp_path / "gap.txt").write_text("cat\n\nowl\n")
    (tmp_path / "blank.txt").write_text("\n \n")
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9\n")
    (tmp_path / "nan.json").write_text('{"a": NaN}')
    return tmp_path


def convert(net: str, *options: str) -> int:
    with pytest.raises(SystemExit) as exit:
        main(["convert", f"app_nets:{net}", "-o", "out.mlpackage", *options])
    code: Any = exit.value.code
    return code


def described() -> Any:
    with quiet():
        model = ct.models.MLModel("out.mlpackage", skip_model_load=True)
        return model.get_spec().description


def test_all_options_together(folder: Path):
    (folder / "preview.json").write_text(json.dumps({"labels": ["sky"]}))

    code = convert(
        "segment",
        "--verify",
        *("--image", "photo:BGR:mean=0.5,0.5,0.25:std=0.25"),
        *("--shapes", "photo:1x3x8..32x16..64"),
        *("--input-name", "photo:picture", "--default", "gain:2"),
        *("--input-dtype", "gain:float16"),
        *("--output-image", "mask:GRAYSCALE:scale=255", "--output-name", "mask:out"),
        *("--labels", "labels.txt", "--label-name", "animal"),
        *("--probabilities", "odds"),
        *("--author", "Ada", "--license", "MIT", "--model-version", "1.0"),
        *("--description", "finds edges", "--describe-input", "picture:a: photo"),
        *("--describe-output", "out:edges", "--preview", "imageSegmenter"),
        *("--preview-parameters", "preview.json", "--metadata", "run=a=b"),
    )

    assert code == 0
    spec = described()
    picture, gain = spec.input
    assert (picture.name, picture.shortDescription) == ("picture", "a: photo")
    assert picture.type.imageType.imageSizeRange.heightRange.upperBound == 32
    assert gain.type.isOptional and gain.type.multiArrayType.floatDefaultValue == 2
    assert gain.type.multiArrayType.dataType == 65552
    assert [each.name for each in spec.output] == ["animal", "animal_probs", "out"]
    metadata = spec.metadata
    assert (metadata.author, metadata.license) == ("Ada", "MIT")
    assert (metadata.versionString, metadata.shortDescription) == ("1.0", "finds edges")
    user = metadata.userDefined
    assert user["run"] == "a=b"
    assert user["com.apple.coreml.model.preview.type"] == "imageSegmenter"
    assert json.loads(user["com.apple.coreml.model.preview.parameters"]) == {
        "labels": ["sky"]
    }
    image = np.random.default_rng(0).integers(0, 256, (20, 30, 3)).astype(np.uint8)
    outputs = load("out.mlpackage").predict({"picture": image})
    photo = torch.from_numpy(image[..., ::-1].copy()).permute(2, 0, 1)[None] / 255
    photo = (photo - torch.tensor([0.5, 0.5, 0.25]).reshape(3, 1, 1)) / 0.25
    odds = photo.mean((2, 3)).softmax(1)[0]
    assert outputs["animal"] == ["cat", "dog", "owl"][int(odds.argmax())]
    assert outputs["out"].shape == (20, 30) and outputs["out"].dtype == np.uint8


def test_listed_shapes_scale_and_bias():
    code = convert(
        "segment",
        "--verify",
        *("--image", "photo:RGB:scale=0.5:bias=1,2,3"),
        *("--shapes", "photo:1x3x8x8,1x3x16x32"),
    )

    assert code == 0
    sizes = described().input[0].type.imageType.enumeratedSizes.sizes
    assert [(each.height, each.width) for each in sizes] == [(8, 8), (16, 32)]


def test_the_default_of_a_range():
    assert convert("segment", "--shapes", "photo:1x3x8..32=24x16..64") == 0

    shape = described().input[0].type.multiArrayType.shape
    assert list(shape) == [1, 3, 24, 16]


def test_gray_images_of_float16():
    code = convert(
        "gray",
        *("--target", "iOS16", "--precision", "float16", "--verify"),
        *("--image", "x:GRAYSCALE_FLOAT16:scale=2"),
        *("--output-image", "y:GRAYSCALE_FLOAT16:bias=1"),
    )

    assert code == 0
    image = np.full((4, 6), 0.5, np.float16)
    (actual,) = load("out.mlpackage").predict({"x": image}).values()
    np.testing.assert_array_equal(actual, np.full((4, 6), 4.0, np.float16))


def test_an_output_whose_name_core_ml_lacks(capsys: pytest.CaptureFixture[str]):
    with warnings.catch_warnings():
        # Python shows a warning once a line, and another test may have had it.
        warnings.simplefilter("always")
        assert convert("spaced") == 0

    name = "'my out' here: it is 'my_out' in the package"
    assert f"padc: warning: Core ML cannot have an output {name}\n" in (
        capsys.readouterr().err
    )


def test_an_integer_default():
    assert convert("at", "--default", "index:2", "--verify") == 0

    x = np.arange(4, dtype=np.float32)
    (actual,) = load("out.mlpackage").predict({"x": x}).values()
    np.testing.assert_array_equal(actual, [2])


@pytest.mark.parametrize(
    "options, message",
    [
        (("--image", "photo"), "--image photo is not NAME:..."),
        (("--image", "photo:CMYK"), "there is no color layout 'CMYK'"),
        (("--image", "photo:RGB:size=3"), "'size=3' is not understood"),
        (("--image", "photo:RGB:mean=a"), "'a' are not numbers"),
        (("--image", "photo:RGB:mean=1:scale=2"), "normalized by mean= and std=, or by"),
        (("--image", "photo:RGB:channels=middle"), "channels are first or last"),
        (("--image", "other:RGB"), "the model has no input 'other'"),
        (("--image", "photo:RGB", "--image", "photo:BGR"), "given twice for 'photo'"),
        (("--image", "photo:RGB", "--default", "photo:1"), "with --default is described as an image"),
        (("--output-image", "photo:RGB"), "the model has no output 'photo'"),
        (("--output-image", "mask:GRAYSCALE:std=0.5"), "output 'mask' has a mean and std"),
        (("--shapes", "photo:1x3xHxW"), "'1x3xHxW' are not shapes"),
        (("--shapes", "photo:1x3x9..8x8"), "a range's first size is its smallest"),
        (("--shapes", "photo:1x3x8..32=99x16"), "its default is in the range"),
        (("--shapes", "photo:1x3x0..32x16"), "a size from 0 to 32"),
        (("--shapes", "photo:" + "9" * 5000), "are not shapes"),
        (("--input-name", "photo:gain"), "named 'gain': the input 'photo' and the input 'gain'"),
        (("--output-name", "mask:odds"), "named 'odds': the output 'mask' and the output 'odds'"),
        (("--default", "gain:nan"), "the default nan, which float32 inputs cannot have"),
        (("--default", "gain:" + "9" * 400), "the default 9999"),
        (("--image", "photo:RGB:scale=1e300"), "an image with scale 1e+300"),
        (("--author", "\udcff"), "metadata 'author' is '\\udcff', which has no encoding in UTF-8"),
        (("--metadata", "a=\udcff"), "'a' is '\\udcff', which has no encoding"),
        (("--preview-parameters", "nan.json"), "not JSON compliant"),
        (("--preview-parameters", "."), "Is a directory"),
        (("--labels", "latin.txt"), "it is not text in UTF-8"),
        (("--input-dtype", "photo:float64"), "there is no dtype 'float64'"),
        (("--default", "gain:one"), "'one' is not a number"),
        (("--probabilities", "odds"), "--probabilities is given without --labels"),
        (("--label-name", "animal"), "--label-name is given without --labels"),
        (("--labels", "absent.txt"), "cannot read the class labels in absent.txt"),
        (("--labels", "labels.txt"), "the model has 2 outputs"),
        (("--labels", "gap.txt"), "line 2 of the class labels in gap.txt is blank"),
        (("--labels", "blank.txt"), "there are no class labels"),
        (("--metadata", "run"), "--metadata run is not NAME=TEXT"),
        (("--metadata", "a=1", "--metadata", "a=2"), "--metadata is given twice for 'a'"),
        (("--describe-input", "photo"), "--describe-input photo is not NAME:TEXT"),
        (("--preview-parameters", "absent.json"), "--preview-parameters absent.json"),
    ],
)  # fmt: skip
def test_options_that_do_not_fit(
    options: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
):
    assert convert("segment", *options) == 2
    assert message in capsys.readouterr().err
    assert not Path("out.mlpackage").exists()


def test_a_default_that_the_dtype_lacks(capsys: pytest.CaptureFixture[str]):
    assert convert("at", "--default", "index:2.5") == 2
    assert "the default 2.5, which int32 inputs cannot have" in capsys.readouterr().err


def test_help_has_an_example_for_each_group(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        main(["convert", "--help"])

    text = capsys.readouterr().out.partition("\npackage:\n")[2]
    groups = re.split(r"^(?=\w[\w ]*:$)", text, flags=re.MULTILINE)
    assert len(groups) == 8
    for group in groups:
        assert "  padc convert " in group
