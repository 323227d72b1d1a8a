"""Inputs and outputs as an app wants them: the arguments of `padc.convert`."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import coremltools
import numpy as np
import pytest
import torch
from functions import needs_export
from torch import Tensor, nn

import padc
from padc.verification import run_package, verify_package
from padc.versions import numbers

ct: Any = coremltools

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.trace:DeprecationWarning")

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


class Apply(nn.Module):
    """A model that is a function of its inputs."""

    def __init__(self, function: Callable[..., Any]):
        super().__init__()
        self.function = function

    def forward(self, x: Tensor):
        return self.function(x)


class Both(nn.Module):
    def forward(self, a: Tensor, b: Tensor):
        return a + b, (a * b).argmax(1)


def double(x: Tensor) -> Tensor:
    return x * 2


def pixels(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).integers(0, 256, shape).astype(np.uint8)


def saved(program: padc.Program, path: Path) -> tuple[padc.coreml.Model, Any]:
    """The package as the evaluator loads it, and its description by coremltools."""
    package = path / "model.mlpackage"
    program.save(package)
    assert program.check() == []
    loaded = ct.models.MLModel(str(package), skip_model_load=True)
    return padc.coreml.load(package), loaded.get_spec().description


def of_coremltools(model: nn.Module, example: Any, **options: Any) -> Any:
    """The description that `ct.convert` gives the same model."""
    traced = torch.jit.trace(model, example)
    with warnings.catch_warnings(action="ignore"):
        options.setdefault("minimum_deployment_target", ct.target.iOS17)
        options.setdefault("compute_precision", ct.precision.FLOAT32)
        converted = ct.convert(traced, skip_model_load=True, **options)
    return converted.get_spec().description


def assert_described_alike(ours: Any, theirs: Any) -> None:
    """All fields but the metadata, which says who converted the model."""
    for field in ("input", "output", "state", "functions"):
        assert list(getattr(ours, field)) == list(getattr(theirs, field)), field
    for field in ("predictedFeatureName", "predictedProbabilitiesName"):
        assert getattr(ours, field) == getattr(theirs, field), field


# --- images ---------------------------------------------------------------------------


@pytest.mark.parametrize("precision", ["float32", "float16"])
@pytest.mark.parametrize("channel_first", [None, False])
@pytest.mark.parametrize("layout", ["RGB", "BGR", "G", "G_FLOAT16"])
def test_an_image_is_scaled_and_shifted_in_each_channel(
    layout: str, channel_first: bool | None, precision: Any, tmp_path: Path
):
    is_color = layout in ("RGB", "BGR")
    scale, bias = ([0.25, 0.5, 2.0], [-8.0, 1.0, 64.0]) if is_color else (0.5, -8.0)
    image = pixels(5, 7, 3) if is_color else pixels(5, 7)
    image = image.astype(np.float16) if layout == "G_FLOAT16" else image
    described = ct.ImageType(
        "photo",
        scale=scale,
        bias=bias,
        color_layout=ct.colorlayout(layout),
        channel_first=channel_first,
    )
    channels = 3 if is_color else 1
    shape = (1, 5, 7, channels) if channel_first is False else (1, channels, 5, 7)

    program = padc.convert(
        Apply(double),
        (torch.rand(shape),),
        target="iOS16",
        precision=precision,
        inputs=[described],
        verify=True,
    )

    model, spec = saved(program, tmp_path)
    (actual,) = model.predict({"photo": image}).values()
    ordered = np.atleast_3d(image)[..., ::-1] if layout == "BGR" else image
    expected = 2 * (np.atleast_3d(ordered) * np.array(scale) + np.array(bias))
    first = expected[None] if channel_first is False else expected.transpose(2, 0, 1)
    # All of these numbers are exact in float16.
    np.testing.assert_array_equal(actual, np.reshape(first, shape))
    (feature,) = spec.input
    assert feature.type.imageType.height == 5
    assert feature.type.imageType.width == 7


@pytest.mark.parametrize("layout", ["RGB", "BGR"])
def test_a_normalized_image_is_what_torchvision_computes(layout: str, tmp_path: Path):
    image = pixels(9, 4, 3)
    described = padc.coreml.image_type(color_layout=layout, mean=MEAN, std=STD)

    program = padc.convert(Apply(double), (torch.rand(1, 3, 9, 4),), inputs=[described])

    model, _ = saved(program, tmp_path)
    (actual,) = model.predict({"x": image}).values()
    ordered = image if layout == "RGB" else image[..., ::-1].copy()
    tensor = torch.from_numpy(ordered).permute(2, 0, 1)[None].float() / 255
    mean, std = (torch.tensor(each).reshape(1, 3, 1, 1) for each in (MEAN, STD))
    np.testing.assert_allclose(actual, 2 * (tensor - mean) / std, rtol=0, atol=4e-6)


def test_normalizing_of_gray_images():
    eight = padc.coreml.image_type(color_layout="GRAYSCALE", mean=0.5, std=0.25)
    half = padc.coreml.image_type(color_layout="GRAYSCALE_FLOAT16", mean=0.5, std=0.25)

    assert (eight.scale, eight.bias) == (1 / (255 * 0.25), -2.0)
    assert (half.scale, half.bias) == (4.0, -2.0)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64])
def test_a_model_of_integers_takes_pixels(dtype: torch.dtype, tmp_path: Path):
    image = pixels(5, 7, 3)
    model = Apply(lambda x: x.long() * 3)
    example = torch.zeros(1, 5, 7, 3, dtype=dtype)

    described = ct.ImageType(channel_first=False)
    program = padc.convert(model, (example,), inputs=[described], verify=True)

    loaded, _ = saved(program, tmp_path)
    (actual,) = loaded.predict({"x": image}).values()
    np.testing.assert_array_equal(actual, 3 * image.astype(np.int32)[None])


@pytest.mark.parametrize("layout", ["RGB", "BGR", "G", "G_FLOAT16"])
def test_images_as_outputs(layout: str, tmp_path: Path):
    channels = 3 if layout in ("RGB", "BGR") else 1
    x = torch.linspace(-0.2, 1.2, 35 * channels).reshape(1, channels, 5, 7)
    described = ct.ImageType("out", scale=255.0, color_layout=ct.colorlayout(layout))

    program = padc.convert(
        Apply(double),
        (x,),
        target="iOS16",
        inputs=[ct.TensorType("in")],
        outputs=[described],
        verify=True,
    )

    model, _ = saved(program, tmp_path)
    actual = model.predict({"in": x.numpy()})["out"]
    exact = (x[0] * 510).permute(1, 2, 0).squeeze(-1)
    exact = exact.flip(-1) if layout == "BGR" else exact
    if layout == "G_FLOAT16":
        np.testing.assert_array_equal(actual, exact.half().numpy())
    else:
        np.testing.assert_array_equal(actual, exact.round().clamp(0, 255).byte())
    (tensor,) = program.run(x)
    assert tensor.shape == x.shape and tensor.dtype == torch.float32


def test_targets_and_precisions_of_coremltools():
    program = padc.convert(
        nn.ReLU(),
        (torch.ones(2),),
        target=ct.target.iOS16,
        precision=ct.precision.FLOAT16,
    )

    assert (program.target, program.precision) == ("iOS16", "float16")


def test_an_image_of_two_values_is_noticed():
    black = ct.ImageType(color_layout="G")
    sample = (torch.rand(1, 1, 4, 4),)

    with pytest.warns(padc.PadcWarning, match="pixels from 0 to 1 only"):
        padc.convert(nn.Sigmoid(), sample, outputs=[black], verify=True)


def test_a_mean_is_not_that_of_an_output():
    described = padc.coreml.image_type(color_layout="GRAYSCALE", mean=0.5, std=0.5)

    with pytest.raises(
        padc.UsageError, match="output 'relu' has a mean and std"
    ) as error:
        padc.convert(nn.ReLU(), (torch.rand(1, 1, 4, 4),), outputs=[described])

    assert "255 * std" in (error.value.hint or "")


def test_a_mask_of_integers_as_an_output(tmp_path: Path):
    x = torch.randn(1, 4, 5, 7)
    model = Apply(lambda x: x.argmax(1, keepdim=True))

    program = padc.convert(
        model, (x,), outputs=[ct.ImageType(color_layout="G", scale=60)], verify=True
    )

    loaded, _ = saved(program, tmp_path)
    (actual,) = loaded.predict({"x": x.numpy()}).values()
    np.testing.assert_array_equal(actual, 60 * x[0].argmax(0))


def twice(x: Tensor) -> tuple[Tensor, Tensor]:
    y = x * 2
    return y, y


class Constant(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("pixels", torch.rand(1, 3, 4, 4) * 255)

    def forward(self, x: Tensor):
        return self.get_buffer("pixels"), x + 1


@pytest.mark.parametrize(
    "model, outputs",
    [
        (Apply(lambda x: x), [ct.ImageType("out")]),
        (Apply(lambda x: x > 0.5), [ct.ImageType("out", scale=255)]),
        (Apply(twice), [ct.ImageType("a"), ct.TensorType("b")]),
        (Apply(twice), [ct.ImageType("a"), ct.ImageType("b", color_layout="BGR")]),
        (Constant(), [ct.ImageType("a"), ct.TensorType()]),
        (Apply(lambda x: torch.ones(3)), [ct.TensorType("unused")]),
    ],
)
def test_values_that_are_images_and_other_things_too(model: nn.Module, outputs: Any):
    program = padc.convert(
        model,
        (torch.rand(1, 3, 8, 8),),
        inputs=[ct.ImageType("photo", scale=1 / 255)],
        outputs=outputs,
        verify=True,
    )

    assert program.check() == []


@pytest.mark.parametrize("scale, bias", [(1e-6, 0.0), (1e3, -1e5)])
def test_scales_that_float16_lacks(scale: float, bias: float):
    described = ct.ImageType(color_layout="G", scale=scale, bias=bias)

    padc.convert(
        Apply(lambda x: x * (1 / scale)),
        (torch.rand(1, 1, 8, 8),),
        precision="float16",
        inputs=[described],
        verify=True,
    )


class Total(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(1, 1, 4, 4, dtype=torch.float16))

    def forward(self, x: Tensor):
        self.get_buffer("total").add_(x.half())
        return self.get_buffer("total").float() * 2


@pytest.mark.parametrize("target", ["iOS17", "iOS18"])
def test_images_of_a_model_that_changes_a_buffer(target: str):
    x = torch.full((1, 1, 4, 4), 3.0)
    program = padc.convert(
        Total(),
        (x,),
        target=target,
        inputs=[ct.ImageType("photo", color_layout="G")],
        outputs=[ct.ImageType("out", color_layout="G")],
        metadata={"input_description": {"photo": "three"}},
        verify=True,
    )

    assert [int(program.run(x)[0].max()) for _ in range(3)] == [6, 12, 18]


def test_a_wrong_scale_of_pixels_is_found(monkeypatch: pytest.MonkeyPatch):
    # What the metadata says is not what the ops compute.
    from padc.backends.coreml.app import images

    tensor_of = images.tensor_of

    def wrong(image: Any, pixels: Any, name: Any) -> Any:
        return tensor_of(type(image)((1.01,), image.bias), pixels, name)

    monkeypatch.setattr("padc.backends.coreml.app.interface.tensor_of", wrong)
    with pytest.raises(padc.WrongResultError):
        padc.convert(
            Apply(double),
            (torch.rand(1, 1, 5, 7),),
            inputs=[ct.ImageType(color_layout="G")],
            verify=True,
        )


def test_more_than_rounding_of_pixels_is_found():
    program = padc.convert(
        Apply(double),
        (torch.rand(1, 1, 5, 7) * 90,),
        outputs=[ct.ImageType(color_layout="G")],
    )

    program.model = Apply(lambda x: x * 2 + 0.6)
    with pytest.raises(padc.WrongResultError):
        program.verify()


# --- classifiers ----------------------------------------------------------------------


class Classes(nn.Module):
    def __init__(self, outputs: int = 1):
        super().__init__()
        self.linear = nn.Linear(6, 3)
        self.outputs = outputs

    def forward(self, x: Tensor):
        y = self.linear(x).softmax(1)
        return (x * 2, y) if self.outputs == 2 else y


@pytest.mark.parametrize("labels", [["cat", "dog", "owl"], [7, 5, 3], "file"])
@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_a_classifier(labels: Any, precision: Any, tmp_path: Path):
    x = torch.randn(1, 6)
    torch.manual_seed(0)
    network = Classes().eval()
    if labels == "file":
        (tmp_path / "labels.txt").write_text("\ufeffcat\ndog\r\nowl\n\n \n", "utf-8")
        labels, given = ["cat", "dog", "owl"], str(tmp_path / "labels.txt")
    else:
        given = labels
    config = ct.ClassifierConfig(given)

    program = padc.convert(
        network, (x,), precision=precision, classifier_config=config, verify=True
    )

    model, spec = saved(program, tmp_path)
    _, again = saved(program, tmp_path)  # Saving does not change the program.
    assert spec == again
    outputs = model.predict({"x": x.numpy()})
    expected = network(x)[0]
    assert outputs["classLabel"] == labels[int(expected.argmax())]
    assert list(outputs["classLabel_probs"]) == labels
    torch.testing.assert_close(
        torch.tensor(list(outputs["classLabel_probs"].values())),
        expected.detach(),
        atol=1e-6 if precision == "float32" else 1e-3,
        rtol=0,
    )
    (run,) = program.run(x)
    torch.testing.assert_close(run, network(x).detach(), atol=1e-3, rtol=0)
    if precision == "float32":
        inputs = [ct.TensorType("x", (1, 6))]
        theirs = of_coremltools(
            network, x, inputs=inputs, classifier_config=ct.ClassifierConfig(labels)
        )
        assert_described_alike(spec, theirs)


def test_a_classifier_of_coremltools_has_no_tensors(tmp_path: Path):
    x, network = torch.randn(1, 6), Classes().eval()
    converted = ct.convert(
        torch.jit.trace(network, x),
        inputs=[ct.TensorType("x", (1, 6))],
        classifier_config=ct.ClassifierConfig(["cat", "dog", "owl"]),
        compute_precision=ct.precision.FLOAT32,
        minimum_deployment_target=ct.target.iOS17,
        skip_model_load=True,
    )
    converted.save(str(tmp_path / "model.mlpackage"))

    with pytest.raises(padc.UsageError, match="'classLabel' is no tensor"):
        run_package(tmp_path / "model.mlpackage", [x])
    with pytest.raises(padc.UsageError, match="'classLabel' is no tensor"):
        verify_package(
            network, torch.export.export(network, (x,)), tmp_path / "model.mlpackage"
        )


def test_a_classifier_with_another_output(tmp_path: Path):
    x = torch.randn(1, 6)
    config = ct.ClassifierConfig(
        ["cat", "dog", "owl"],
        predicted_feature_name="animal",
        predicted_probabilities_output="odds",
    )

    program = padc.convert(
        Classes(2),
        (x,),
        outputs=[ct.TensorType("twice", dtype=np.float16), ct.TensorType("odds")],
        target="iOS16",
        classifier_config=config,
        verify=True,
    )

    _, spec = saved(program, tmp_path)
    assert [each.name for each in spec.output] == ["animal", "animal_probs", "twice"]
    twice, odds = program.run(x)
    torch.testing.assert_close(twice, 2 * x, atol=1e-2, rtol=1e-3)
    assert odds.shape == (1, 3)


# --- names, dtypes, defaults ----------------------------------------------------------


def test_names_dtypes_and_defaults(tmp_path: Path):
    a, b = torch.randn(2, 3), torch.randn(2, 3)

    program = padc.convert(
        Both(),
        (a, b),
        target="iOS16",
        inputs=[
            ct.TensorType("first", dtype=np.float16),
            ct.TensorType("second", (2, 3), default_value=np.full((2, 3), 4.0, "f4")),
        ],
        outputs=[ct.TensorType("sum", dtype=np.float16), ct.TensorType("place")],
        verify=True,
    )

    model, spec = saved(program, tmp_path)
    outputs = model.predict({"first": a.half().numpy()})
    np.testing.assert_array_equal(outputs["sum"], (a.half().float() + 4).half())
    assert [each.type.isOptional for each in spec.input] == [False, True]
    theirs = of_coremltools(
        Both(),
        (a, b),
        inputs=[
            ct.TensorType("first", (2, 3), dtype=np.float16),
            ct.TensorType("second", (2, 3), default_value=np.full((2, 3), 4.0, "f4")),
        ],
        outputs=[ct.TensorType("sum", dtype=np.float16), ct.TensorType("place")],
    )
    assert_described_alike(spec, theirs)


def test_a_dictionary_describes_some_by_the_models_names(tmp_path: Path):
    program = padc.convert(
        Both(),
        (torch.randn(2, 3), torch.randn(2, 3)),
        inputs={"b": ct.TensorType("offset")},
        outputs={"argmax": ct.TensorType(dtype=np.float32)},
        verify=True,
    )

    _, spec = saved(program, tmp_path)
    assert [each.name for each in spec.input] == ["a", "offset"]
    assert spec.output[1].name == "argmax"
    assert spec.output[1].type.multiArrayType.dataType == 65568


def test_a_scalar_with_a_default(tmp_path: Path):
    class Scaled(nn.Module):
        def forward(self, x: Tensor, gain: Tensor):
            return x * gain

    x = torch.randn(5)
    described = ct.TensorType("gain", (1,), default_value=np.array([3], np.float32))

    program = padc.convert(
        Scaled(), (x, torch.tensor(2.0)), inputs={"gain": described}, verify=True
    )

    model, _ = saved(program, tmp_path)
    (actual,) = model.predict({"x": x.numpy()}).values()
    np.testing.assert_array_equal(actual, x * 3)


def test_an_integer_with_a_default(tmp_path: Path):
    class At(nn.Module):
        def forward(self, x: Tensor, index: Tensor):
            return x[index]

    x = torch.randn(5, 2)
    described = ct.TensorType("index", (1,), default_value=np.array([3], np.int32))

    program = padc.convert(
        At(), (x, torch.tensor([1])), inputs={"index": described}, verify=True
    )

    model, spec = saved(program, tmp_path)
    (actual,) = model.predict({"x": x.numpy()}).values()
    np.testing.assert_array_equal(actual, x[[3]])
    assert spec.input[1].type.multiArrayType.intDefaultValue == 3


def test_more_than_rounding_to_float16_is_found():
    x = torch.randn(64)
    program = padc.convert(
        Apply(torch.sin),
        (x,),
        target="iOS16",
        outputs=[ct.TensorType(dtype=np.float16)],
        verify=True,
    )

    program.model = Apply(lambda x: x.sin() + 6e-4)
    with pytest.raises(padc.WrongResultError):
        program.verify()


# --- shapes ---------------------------------------------------------------------------


def pooled(x: Tensor) -> Tensor:
    return nn.functional.avg_pool2d(nn.functional.pad(x, (1, 1, 1, 1), "reflect"), 3)


RANGES = (1, 3, ct.RangeDim(8, 32, 16), ct.RangeDim(8, 64, 20))
SHAPES = ct.EnumeratedShapes([(1, 3, 8, 9), (1, 3, 16, 12)], default=(1, 3, 16, 12))


@pytest.mark.parametrize("shape", [RANGES, SHAPES], ids=["ranges", "listed"])
@pytest.mark.parametrize("kind", ["tensor", "image"])
def test_shapes_of_a_module(shape: Any, kind: str, tmp_path: Path):
    describe = ct.TensorType if kind == "tensor" else ct.ImageType
    x = torch.rand(1, 3, 16, 20)

    program = padc.convert(
        Apply(pooled), (x,), inputs=[describe("x", shape)], verify=True
    )

    model, spec = saved(program, tmp_path)
    theirs = of_coremltools(Apply(pooled), x, inputs=[describe("x", shape)])
    assert list(spec.input) == list(theirs.input)
    (feature,) = model.inputs
    assert feature.accepts((8, 9, 3) if kind == "image" else (1, 3, 8, 9))
    assert feature.accepts((32, 64, 3) if kind == "image" else (1, 3, 32, 64)) is (
        shape is RANGES
    )
    program.verify([(torch.rand(1, 3, 8, 9),)])


def test_listed_shapes_with_channels_last():
    shapes = ct.EnumeratedShapes([(1, 8, 9, 3), (1, 16, 12, 3)])
    model = Apply(lambda x: pooled(x.permute(0, 3, 1, 2)))

    program = padc.convert(
        model,
        (torch.rand(1, 8, 9, 3),),
        inputs=[ct.ImageType(shape=shapes, channel_first=False)],
        verify=True,
    )

    program.verify([(torch.rand(1, 16, 12, 3),)])


H_DIM, W_DIM = (
    torch.export.Dim("h", min=6, max=99),
    torch.export.Dim("w", min=6, max=50),
)


class Halved(nn.Module):
    """A model of even sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Conv2d(3, 4, 3, 2, 1)
        self.up = nn.ConvTranspose2d(4, 3, 2, 2)

    def forward(self, x: Tensor):
        return x + self.up(self.down(x))


def test_listed_shapes_of_a_model_that_does_not_take_all_in_between():
    shapes = ct.EnumeratedShapes([(1, 3, 8, 8), (1, 3, 12, 16)])

    program = padc.convert(
        Halved().eval(),
        (torch.rand(1, 3, 8, 8),),
        inputs=[ct.TensorType(shape=shapes)],
        verify=True,
    )

    program.verify([(torch.rand(1, 3, 12, 16),)])
    assert program.check() == []
    assert "tcp.conv" in program.mlir("tcp")


def test_listed_shapes_of_pixels_that_are_unshuffled():
    """PyTorch computes the channels, which are known, from height and width."""
    shapes = ct.EnumeratedShapes([(1, 2, 6, 8), (1, 2, 10, 4)])

    program = padc.convert(
        nn.PixelUnshuffle(2),
        (torch.rand(1, 2, 6, 8),),
        inputs=[ct.TensorType(shape=shapes)],
        verify=True,
    )

    program.verify([(torch.rand(1, 2, 10, 4),)])
    assert program.check() == []


@pytest.mark.skipif(
    numbers(torch.__version__) < numbers("2.9"), reason="PyTorch 2.8 keeps no guards"
)
def test_a_listed_shape_that_the_model_does_not_take():
    shapes = ct.EnumeratedShapes([(1, 3, 8, 8), (1, 3, 9, 16)])

    with pytest.raises(
        padc.UsageError, match=r"\(1, 3, 9, 16\) does not fit: dimension"
    ):
        padc.convert(
            Halved().eval(),
            (torch.rand(1, 3, 8, 8),),
            inputs=[ct.TensorType(shape=shapes)],
        )


def test_a_range_from_1_with_an_example_of_1(tmp_path: Path):
    batch = ct.RangeDim(1, 6)
    described = [ct.TensorType(shape=(batch, 3)), ct.TensorType(shape=(batch, 3))]

    program = padc.convert(
        Both(), (torch.rand(1, 3), torch.rand(1, 3)), inputs=described, verify=True
    )

    model, _ = saved(program, tmp_path)
    assert [each.ranges[0] for each in model.inputs] == [(1, 6), (1, 6)]
    for size in (1, 6):
        program.verify([(torch.rand(size, 3), torch.rand(size, 3))])


def test_a_range_within_the_exported_one(tmp_path: Path):
    model, example = Apply(pooled), (torch.rand(1, 3, 16, 16),)
    dynamic_shapes = ({2: H_DIM, 3: W_DIM},)
    needs_export(model, example, dynamic_shapes)
    exported = torch.export.export(model, example, dynamic_shapes=dynamic_shapes)

    program = padc.convert(
        exported, inputs=[ct.TensorType(shape=(1, 3, ct.RangeDim(8, 20), 30))]
    )

    model, _ = saved(program, tmp_path)
    assert model.inputs[0].ranges == ((1, 1), (3, 3), (8, 20), (30, 30))
    program.verify()


def test_samples_of_sizes_that_go_together():
    size = torch.export.Dim("size", min=2, max=9)

    class Longer(nn.Module):
        def forward(self, a: Tensor, b: Tensor):
            return a * 2, b[: a.shape[0]] * 3

    exported = torch.export.export(
        Longer(),
        (torch.rand(5, 3), torch.rand(10, 3)),
        dynamic_shapes={"a": {0: size}, "b": {0: 2 * size}},
    )

    program = padc.convert(
        exported, inputs={"a": ct.TensorType(shape=(ct.RangeDim(2, 3), 3))}, verify=True
    )

    with pytest.raises(padc.UsageError, match="was not exported for these inputs"):
        program.verify([(torch.rand(2, 3), torch.rand(5, 3))])


def test_equal_sizes_share_a_range(tmp_path: Path):
    size = ct.RangeDim(4, 16, 8)
    model = Apply(lambda x: x + x.transpose(2, 3))

    program = padc.convert(
        model,
        (torch.rand(1, 3, 8, 8),),
        inputs=[ct.TensorType(shape=(1, 3, size, size))],
        verify=True,
    )

    loaded, _ = saved(program, tmp_path)
    assert loaded.inputs[0].ranges[2:] == ((4, 16), (4, 16))
    program.verify([(torch.rand(1, 3, 5, 5),)])


# --- metadata -------------------------------------------------------------------------


def test_metadata(tmp_path: Path):
    program = padc.convert(
        Apply(double),
        (torch.rand(3),),
        metadata={
            "author": "Ada",
            "license": "MIT",
            "short_description": "doubles",
            "version": "1.2",
            "input_description": {"x": "three numbers"},
            "output_description": {"mul": "twice as much"},
            "user_defined_metadata": {"run": "17"},
            "preview_type": "imageSegmenter",
            "preview_parameters": {"labels": ["sky"], "colors": ["#0000ff"]},
        },
    )

    program.save(tmp_path / "model.mlpackage")
    model = ct.models.MLModel(str(tmp_path / "model.mlpackage"), skip_model_load=True)
    assert (model.author, model.license, model.version) == ("Ada", "MIT", "1.2")
    assert model.short_description == "doubles"
    assert model.input_description["x"] == "three numbers"
    assert model.output_description["mul"] == "twice as much"
    user = model.user_defined_metadata
    assert user["run"] == "17"
    assert user["com.apple.coreml.model.preview.type"] == "imageSegmenter"
    assert "sky" in user["com.apple.coreml.model.preview.parameters"]


# --- errors ---------------------------------------------------------------------------

IMAGE = torch.rand(1, 3, 8, 8)
H = ct.RangeDim(4, 16)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"inputs": ct.TensorType()}, "inputs is a TensorType"),
        ({"inputs": ["x"]}, "inputs has a str"),
        ({"inputs": []}, "inputs describes 0 inputs, the model has 1: x"),
        ({"inputs": [ct.TensorType()] * 2}, "inputs describes 2 inputs"),
        ({"inputs": {"y": ct.TensorType()}}, "the model has no input 'y'"),
        ({"outputs": {"y": ct.TensorType()}}, "the model has no output 'y'"),
        ({"inputs": [ct.TensorType("1x")]}, "input or output named '1x'"),
        ({"inputs": [ct.TensorType("state")]}, "input or output named 'state'"),
        ({"inputs": [ct.TensorType("mul")], "outputs": [ct.TensorType("mul")]}, "two inputs or outputs are named 'mul'"),
        ({"outputs": [ct.TensorType("x")]}, "two inputs or outputs are named 'x'"),
        ({"inputs": [ct.TensorType(shape=(1, 3, 8))]}, "with a shape of rank 3"),
        ({"inputs": [ct.TensorType(shape=(1, 3, 8, 9))]}, "with 9 as dimension 3, and the model takes 8 only"),
        ({"inputs": [ct.TensorType(shape=(1, 3, 8, ct.RangeDim(4)))]}, "upper bound of dimension 3"),
        ({"inputs": [ct.TensorType(dtype=np.int32)]}, "with dtype int32"),
        ({"inputs": [ct.TensorType(dtype=np.float16)], "target": "iOS15"}, "float16, which inputs and outputs can have from iOS16"),
        ({"inputs": [ct.TensorType(shape=IMAGE.shape, default_value=np.full(IMAGE.shape, np.inf, "f4"))]}, "default inf, which float32 inputs cannot have"),
        ({"outputs": [ct.TensorType(dtype=np.int32)]}, "output mul: float32"),
        ({"outputs": [ct.TensorType(shape=(1, 3, 8, 8))]}, "output 'mul' has a shape"),
        ({"inputs": [ct.ImageType(color_layout="G")]}, r"such an image is a tensor of shape \[1, 1, height, width\]"),
        ({"inputs": [ct.ImageType(channel_first=False)]}, r"of shape \[1, height, width, 3\]"),
        ({"outputs": [ct.ImageType(color_layout="G")]}, "output mul: .* layout GRAYSCALE"),
        ({"inputs": [ct.ImageType(scale=0)]}, "with scale 0"),
        ({"inputs": [ct.ImageType(bias=[1, 2])]}, r"with bias \[1, 2\]"),
        ({"inputs": [ct.ImageType(color_layout="G", grayscale_use_uint8=True)]}, "grayscale_use_uint8"),
        ({"classifier_config": ["a"]}, "classifier_config is a list"),
        ({"classifier_config": ct.ClassifierConfig(["a", "b"])}, "2 class labels, and the output 'mul' of shape"),
        ({"classifier_config": ct.ClassifierConfig(["a", "a"])}, "'a' occurs 2 times"),
        ({"classifier_config": ct.ClassifierConfig(["a", 1])}, "labels are of type int, str"),
        ({"classifier_config": ct.ClassifierConfig([])}, "no class labels"),
        ({"classifier_config": ct.ClassifierConfig("absent.txt")}, "cannot read the class labels in absent.txt"),
        ({"classifier_config": ct.ClassifierConfig(list(range(192)), predicted_probabilities_output="z")}, "'z' is not an output"),
        ({"classifier_config": ct.ClassifierConfig(list(range(192))), "outputs": [ct.ImageType()]}, "described as an image or by a dtype"),
        ({"classifier_config": ct.ClassifierConfig(list(range(192)), "x")}, "two inputs or outputs are named 'x'"),
        ({"metadata": {"writer": "x"}}, "metadata has no 'writer'"),
        ({"metadata": {"author": 3}}, "'author' is a int, not a string"),
        ({"metadata": {"input_description": {"y": ""}}}, "describes the input 'y'"),
        ({"metadata": {"output_description": {"x": ""}}}, "describes the output 'x'"),
        ({"metadata": {"user_defined_metadata": {"padc.buffers": ""}}}, "written by padc itself"),
        ({"metadata": {"preview_type": "a", "user_defined_metadata": {"com.apple.coreml.model.preview.type": "b"}}}, "given as 'preview_type', too"),
        ({"metadata": {"preview_parameters": {"a": {1}}}}, "preview_parameters"),
    ],
)  # fmt: skip
def test_what_does_not_fit(options: Any, message: str):
    options = {"target": "iOS17", **options}

    with pytest.raises(padc.UsageError, match=message):
        padc.convert(Apply(double), (IMAGE,), **options)


DYNAMIC = (torch.export.Dim("h", min=4, max=32),) * 2


@pytest.mark.parametrize(
    "shape, message",
    [
        ((1, 3, ct.RangeDim(2, 8), H), r"2\.\.8 as dimension 2, and the model takes 4\.\.32"),
        ((1, 3, ct.RangeDim(8, 40), H), r"8\.\.40 as dimension 2"),
        ((1, 3, ct.RangeDim(4, 8), H), "equals another one in the model, of another range"),
        (ct.EnumeratedShapes([(1, 3, 8, 8), (1, 3, 8, 9)]), r"\(1, 3, 8, 9\) does not fit: dimension 3"),
        (ct.EnumeratedShapes([(1, 3, 8, 8), (1, 3, 40, 40)]), "40 as dimension 2"),
        (ct.EnumeratedShapes([(1, 3, 8, 8), (1, 2, 8, 8)]), "2 as dimension 1"),
        (ct.EnumeratedShapes([(1, 3, 8, 8), (1, 3, 8, 8)]), "enumerated shape twice"),
        (ct.EnumeratedShapes([(1, 3, 8, 8), (1, 3, 9, 9)], (1, 3, 7, 7)), r"default shape \(1, 3, 7, 7\)"),
        (ct.EnumeratedShapes([(1, 3, H, H), (1, 3, 9, 9)]), "ranges in its enumerated shapes"),
    ],
)  # fmt: skip
def test_shapes_that_do_not_fit(shape: Any, message: str):
    model, dims = Apply(lambda x: x + x.transpose(2, 3)), dict(zip((2, 3), DYNAMIC))

    with pytest.raises(padc.UsageError, match=message):
        padc.convert(
            model, (IMAGE,), dynamic_shapes=(dims,), inputs=[ct.TensorType(shape=shape)]
        )


def test_inputs_in_another_order():
    types = [ct.TensorType("b"), ct.TensorType("a")]

    with pytest.raises(padc.UsageError, match="a list gives the inputs new names"):
        padc.convert(Both(), (torch.ones(2, 3), torch.ones(2, 3)), inputs=types)


def test_which_output_has_the_probabilities():
    with pytest.raises(padc.UsageError, match="the model has 2 outputs; which"):
        padc.convert(
            Classes(2),
            (torch.randn(1, 6),),
            classifier_config=ct.ClassifierConfig(["a", "b", "c"]),
        )


@pytest.mark.parametrize(
    "target, counts, message",
    [("iOS17", (2, 2), "2 inputs have enumerated shapes"), ("iOS18", (2, 3), "different numbers")],
)  # fmt: skip
def test_several_inputs_with_listed_shapes(target: str, counts: Any, message: str):
    listed = [[(2 + size, 3) for size in range(count)] for count in counts]
    types = [ct.TensorType(shape=ct.EnumeratedShapes(each)) for each in listed]

    class Apart(nn.Module):
        def forward(self, a: Tensor, b: Tensor):
            return a * 2, b * 3

    with pytest.raises(padc.UsageError, match=message):
        padc.convert(
            Apart(), (torch.ones(2, 3), torch.ones(2, 3)), inputs=types, target=target
        )


@pytest.mark.parametrize(
    "options, message",
    [
        ({"color_layout": "CMYK"}, "no color layout 'CMYK'"),
        ({"mean": [1, 2]}, r"mean is \[1, 2\]"),
        ({"std": 0}, "std is 0"),
    ],
)
def test_image_types_that_there_are_not(options: Any, message: str):
    with pytest.raises(padc.UsageError, match=message):
        padc.coreml.image_type(**options)


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        '{"images": {"x": {}}}',
        '{"images": {"x": {"scale": [0.0], "bias": [1.0], "channel_first": true}}}',
        '{"images": {"absent": {"scale": [1], "bias": [1], "channel_first": true}}}',
        '{"outputs": ["absent"]}',
        '{"labels": {"output": "mul", "shape": "?"}}',
    ],
)
def test_damaged_metadata(text: str, tmp_path: Path):
    program = padc.convert(Apply(double), (torch.rand(3),))
    program.save(tmp_path / "model.mlpackage")
    (file,) = tmp_path.rglob("model.mlmodel")
    spec = ct.models.MLModel(
        str(tmp_path / "model.mlpackage"), skip_model_load=True
    ).get_spec()
    spec.description.metadata.userDefined["padc.features"] = text
    file.write_bytes(spec.SerializeToString())

    with pytest.raises(padc.InvalidProgramError, match="metadata"):
        verify_package(program.model, program.exported, tmp_path / "model.mlpackage")


def test_compressed_weights_of_a_program_with_images():
    torch.manual_seed(0)
    network = nn.Conv2d(3, 96, 3)
    head = nn.Conv2d(96, 1, 1)

    program = padc.convert(
        nn.Sequential(network, head).eval(),
        (torch.rand(1, 3, 16, 16),),
        compress="int8",
        inputs=[ct.ImageType(scale=1 / 255)],
        outputs=[ct.ImageType(color_layout="G", scale=200, bias=100)],
        verify=True,
    )

    assert program.check() == []


def test_a_compressed_classifier():
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 3), nn.Softmax(1)).eval()

    program = padc.convert(
        network,
        (torch.randn(1, 64),),
        compress="int8",
        classifier_config=ct.ClassifierConfig(["a", "b", "c"]),
        verify=True,
    )

    (actual,) = program.run(torch.ones(1, 64))
    torch.testing.assert_close(
        actual, network(torch.ones(1, 64)).detach(), atol=2e-2, rtol=0
    )
