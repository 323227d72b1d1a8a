# pyright: basic, reportMissingTypeStubs=false
"""Packages with several functions, which share their weights."""

from pathlib import Path
from typing import Any

import coremltools
import numpy as np
import pytest
import torch
from coremltools.models.utils import (
    MultiFunctionDescriptor,
    load_spec,
    save_multifunction,
)
from torch import Tensor, nn

import padc
from padc.backends.coreml import quiet
from padc.backends.coreml.checker.check import read_locations
from padc.backends.coreml.evaluator.package import Package
from padc.packages.session import Session

ct: Any = coremltools


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv2d(3, 64, 3, padding=1, padding_mode="circular")
        self.head = nn.Linear(64, 32)
        self.calls: Tensor
        self.register_buffer("calls", torch.zeros(32))

    def forward(self, image: Tensor) -> Tensor:
        return self.head(self.conv(image).mean((2, 3)))


class Counting(Encoder):
    def forward(self, image: Tensor) -> Tensor:
        self.calls.add_(1)
        return super().forward(image) + self.calls


def program(model: nn.Module, size: int, **options: Any) -> padc.Program:
    image = torch.rand(1, 3, size, size)
    return padc.convert(model.eval(), (image,), **{"target": "iOS18", **options})


def example(program: padc.Program) -> Any:
    assert program.exported.example_inputs is not None
    return program.exported.example_inputs[0]


@pytest.fixture(scope="module")
def programs() -> dict[str, padc.Program]:
    return {
        "small": program(Encoder(), 4),
        "large": program(Encoder(), 6),
        "counting": program(Counting(), 4, states="inputs"),
    }


def weights(path: Path) -> int:
    return (path / "Data/com.apple.CoreML/weights/weight.bin").stat().st_size


def test_functions_share_weights(programs: dict[str, padc.Program], tmp_path: Path):
    path, single = tmp_path / "all.mlpackage", tmp_path / "single.mlpackage"

    padc.save_functions(programs, path, default="large")

    programs["small"].save(single)
    assert weights(path) < 1.05 * weights(single)
    assert padc.coreml.check(path) == []
    spec = ct.models.MLModel(str(path), skip_model_load=True).get_spec()
    assert spec.description.defaultFunctionName == "large"
    assert [each.name for each in spec.description.functions] == [*programs]
    for name, program in programs.items():
        model = padc.coreml.load(path, function_name=name)
        image = example(program)[0]
        program.reset()
        expected, *_ = program.run(image)
        actual = Session(model).run([image])[0]
        torch.testing.assert_close(actual, expected, rtol=0, atol=0)
        lines = read_locations(Package(path).spec.description, name)
        assert {each.file for each in lines.values()} == {"test/test_functions.py"}
    assert padc.coreml.load(path).inputs[0].shape == (1, 3, 6, 6)


def test_as_coremltools_joins_packages(
    programs: dict[str, padc.Program], tmp_path: Path
):
    padc.save_functions(programs, tmp_path / "padc.mlpackage")
    joined = ct.utils.MultiFunctionDescriptor()
    for name, program in programs.items():
        program.save(tmp_path / f"{name}.mlpackage", locations="off")
        joined.add_function(str(tmp_path / f"{name}.mlpackage"), "main", name)
    joined.default_function_name = "small"
    ct.utils.save_multifunction(joined, str(tmp_path / "coremltools.mlpackage"))

    ours, theirs = (
        Package(tmp_path / f"{name}.mlpackage").spec for name in ("padc", "coremltools")
    )

    assert ours.specificationVersion == theirs.specificationVersion
    ours.description.ClearField("metadata")
    theirs.description.ClearField("metadata")
    assert ours.description == theirs.description
    for name, function in theirs.mlProgram.functions.items():
        block, other = (
            each.block_specializations["CoreML8"].operations
            for each in (ours.mlProgram.functions[name], function)
        )
        assert [op.type for op in block] == [op.type for op in other]
    sizes = [
        weights(tmp_path / f"{name}.mlpackage") for name in ("padc", "coremltools")
    ]
    assert sizes[0] <= sizes[1]


def test_buffers_of_a_function(programs: dict[str, padc.Program], tmp_path: Path):
    path = tmp_path / "all.mlpackage"
    padc.save_functions(
        {"main": programs["small"], "counting": programs["counting"]}, path
    )

    session = Session(padc.coreml.load(path, function_name="counting"))

    image = torch.rand(1, 3, 4, 4)
    first, second = session.run([image])[0], session.run([image])[0]
    np.testing.assert_allclose(second - first, np.ones((1, 32)), atol=1e-6)
    assert Session(padc.coreml.load(path)).buffers == []


def test_saving_again(programs: dict[str, padc.Program], tmp_path: Path):
    """Functions can be part of several packages, which are the same each time."""
    content = set[bytes]()
    for name in ("one", "two"):
        path = tmp_path / f"{name}.mlpackage"
        padc.save_functions(programs, path)
        content.add(
            b"".join(f.read_bytes() for f in sorted(path.rglob("*")) if f.is_file())
        )
    programs["small"].save(tmp_path / "small.mlpackage")

    assert len(content) == 1


def test_images_defaults_and_descriptions(tmp_path: Path):
    path = tmp_path / "all.mlpackage"
    photo = ct.ImageType("photo", (1, 3, 4, 4), scale=1 / 127.5, bias=[-1.0] * 3)
    plain = ct.TensorType(
        "plain", (1, 3, 4, 4), default_value=np.ones((1, 3, 4, 4), np.float32)
    )
    texts = {"author": "B", "input_description": {"plain": "an image"}}
    programs = {
        "main": program(Encoder(), 4, inputs=[photo], metadata={"author": "A"}),
        "tensor": program(Encoder(), 4, inputs=[plain], metadata=texts),
    }
    with pytest.raises(padc.UsageError, match="'tensor' has other metadata than"):
        padc.save_functions(programs, path)
    assert not path.exists()

    del texts["author"]
    programs["tensor"] = program(Encoder(), 4, inputs=[plain], metadata=texts)
    padc.save_functions(programs, path)

    spec = Package(path).spec.description
    photos, tensors = spec.functions

    assert spec.metadata.author == "A"
    assert photos.input[0].type.WhichOneof("Type") == "imageType"
    assert photos.input[0].shortDescription == ""
    assert tensors.input[0].type.isOptional
    assert tensors.input[0].type.multiArrayType.floatDefaultValue == 1
    assert tensors.input[0].shortDescription == "an image"
    session = Session(padc.coreml.load(path, function_name="main"))
    (sample,) = session.samples([(torch.zeros(1, 3, 4, 4),)])[:1]
    torch.testing.assert_close(session.run(sample), programs["main"].run(*sample))
    assert padc.coreml.load(path, function_name="tensor").predict({})


def test_compressed_functions(tmp_path: Path):
    model, path = nn.Linear(64, 64), tmp_path / "all.mlpackage"
    rows = {"one": torch.rand(1, 64), "two": torch.rand(2, 64)}
    programs = {
        name: padc.convert(model, (x,), target="iOS18", compress="palette4")
        for name, x in rows.items()
    }

    padc.save_functions(programs, path)

    assert weights(path) < 64 * 64 / 2 + 2000
    for name, x in rows.items():
        actual = Session(padc.coreml.load(path, function_name=name)).run([x])[0]
        torch.testing.assert_close(actual, programs[name].run(x)[0], rtol=0, atol=0)


def test_functions_may_be_classifiers(tmp_path: Path):
    texts, numbers = [f"class {i}" for i in range(32)], [*range(100, 132)]
    programs = {
        "texts": program(Encoder(), 4, classifier_config=ct.ClassifierConfig(texts)),
        "numbers": program(
            Encoder(), 4, classifier_config=ct.ClassifierConfig(numbers, "number")
        ),
        "plain": program(Encoder(), 4),
    }
    joined = MultiFunctionDescriptor()
    for name, each in programs.items():
        each.save(tmp_path / f"{name}.mlpackage")
        joined.add_function(str(tmp_path / f"{name}.mlpackage"), "main", name)
    joined.default_function_name = "plain"
    (image,) = example(programs["plain"])

    padc.save_functions(programs, tmp_path / "all.mlpackage", default="plain")

    with quiet():
        save_multifunction(joined, str(tmp_path / "coremltools.mlpackage"))
    specs: list[Any] = [
        load_spec(str(tmp_path / f"{name}.mlpackage"))
        for name in ("all", "coremltools")
    ]
    assert specs[0].description.functions == specs[1].description.functions
    assert weights(tmp_path / "all.mlpackage") < 1.1 * weights(
        tmp_path / "plain.mlpackage"
    )
    place = int(programs["plain"].run(image)[0].argmax())
    for name, labels in ("texts", texts), ("numbers", numbers):
        function = padc.coreml.load(tmp_path / "all.mlpackage", function_name=name)
        label, probabilities = function.predict({"image": image.numpy()}).values()
        assert label == labels[place]
        assert [*probabilities] == labels


def test_what_cannot_be_saved(programs: dict[str, padc.Program], tmp_path: Path):
    path, small = tmp_path / "m.mlpackage", programs["small"]
    old = program(Encoder(), 4, target="iOS17")
    newest = program(Encoder(), 4, target="newest")
    for given, default, message in (
        ({}, None, "there are no programs"),
        ({"a": small}, "b", "the default 'b' is no function"),
        ({"1st": small}, None, "a function cannot be named '1st'"),
        ({"a b": small}, None, "a function cannot be named 'a b'"),
        ({"a": old}, None, "need iOS18, got iOS17"),
        (
            {"a": small, "b": newest},
            None,
            "one target, got 'a' for iOS18, 'b' for iOS26",
        ),
    ):
        with pytest.raises(padc.UsageError, match=message):
            padc.save_functions(given, path, default=default)
    assert not path.exists()
