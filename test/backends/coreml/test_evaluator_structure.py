# pyright: basic, reportMissingTypeStubs=false
"""The evaluator on programs that are not a plain list of ops (blocks, lists, states,
classifiers, images, several functions), and on ops that torch has in another form."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import coremltools
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from coremltools.converters.mil import Builder
from coremltools.converters.mil.mil import types

from padc.backends.coreml.evaluator import load
from padc.errors import UnsupportedError, UsageError

ct: Any = coremltools
mb: Any = Builder
Array = np.ndarray[Any, Any]


def convert(path: Path, specs: list[Any], build: Callable[..., Any], **options: Any):
    """Save a program in fp32, with its passes left out."""
    target = options.pop("target", ct.target.iOS15)
    program = mb.program(input_specs=specs, opset_version=target)(build)
    ct.convert(
        program,
        source="milinternal",
        minimum_deployment_target=target,
        compute_precision=ct.precision.FLOAT32,
        pass_pipeline=ct.PassPipeline.EMPTY,
        skip_model_load=True,
        **options,
    ).save(str(path))
    return load(path)


def spec(*shape: int, dtype: Any = types.fp32) -> Any:
    return mb.TensorSpec(shape=shape, dtype=dtype)


def array(*shape: int) -> Array:
    rng = np.random.default_rng(len(shape))
    return rng.uniform(-1, 1, shape).astype(np.float32)


@pytest.mark.parametrize("sign", [1, -1])
def test_cond_runs_one_block(tmp_path: Path, sign: int):
    def build(x: Any) -> Any:
        pred = mb.greater(x=mb.reduce_sum(x=x, axes=[0], keep_dims=False), y=0.0)
        return mb.cond(
            pred=pred,
            _true_fn=lambda: mb.add(x=x, y=1.0),
            _false_fn=lambda: mb.mul(x=x, y=10.0),
            name="y",
        )

    model = convert(tmp_path / "m.mlpackage", [spec(2)], build)
    x = sign * np.array([1, 2], np.float32)

    y = model.predict({"x": x})["y"]

    np.testing.assert_array_equal(y, x + 1 if sign > 0 else x * 10)


def test_loop_runs_until_its_condition_fails_and_fills_a_list(tmp_path: Path):
    def build(x: Any) -> Any:
        def body(i: Any, ls: Any) -> Any:
            value = mb.mul(x=x, y=mb.cast(x=i, dtype="fp32"))
            return mb.add(x=i, y=1), mb.list_write(ls=ls, index=i, value=value)

        ls = mb.make_list(init_length=1, elem_shape=(2,), dynamic_length=True)
        _, ls = mb.while_loop(
            _cond=lambda i, _: mb.less(x=i, y=3), _body=body, loop_vars=(0, ls)
        )
        return mb.list_gather(ls=ls, indices=[2, 0, 1], name="y")

    model = convert(tmp_path / "m.mlpackage", [spec(2)], build)
    x = np.array([1, 2], np.float32)

    y = model.predict({"x": x})["y"]

    np.testing.assert_array_equal(y, [2 * x, 0 * x, x])


def test_states_last_and_can_be_read_and_written(tmp_path: Path):
    def build(total: Any, x: Any) -> Any:
        return mb.coreml_update_state(
            state=total, value=mb.add(x=mb.read_state(input=total), y=x), name="y"
        )

    specs = [mb.StateTensorSpec((2,), dtype=types.fp16), spec(2, dtype=types.fp16)]
    model = convert(tmp_path / "m.mlpackage", specs, build, target=ct.target.iOS18)
    x = np.array([1, 2], np.float16)
    state = model.make_state()

    model.predict({"x": x}, state)
    np.testing.assert_array_equal(model.predict({"x": x}, state)["y"], 2 * x)
    np.testing.assert_array_equal(state.read_state("total"), 2 * x)
    np.testing.assert_array_equal(model.predict({"x": x})["y"], x)

    state.write_state("total", 10 * x)
    np.testing.assert_array_equal(model.predict({"x": x}, state)["y"], 11 * x)
    with pytest.raises(UsageError, match="no state 'other'"):
        state.read_state("other")
    with pytest.raises(UsageError, match=r"shape \(2,\), not \(3,\)"):
        state.write_state("total", [1, 2, 3])


@pytest.mark.parametrize("labels", [["cat", "dog", "owl"], [7, 8, 9]])
def test_classifier_gives_a_label_and_a_dictionary(tmp_path: Path, labels: list[Any]):
    model = convert(
        tmp_path / "m.mlpackage",
        [spec(1, 3)],
        lambda x: mb.softmax(x=x, name="p"),
        classifier_config=ct.ClassifierConfig(labels),
    )
    x = np.array([[1, 3, 2]], np.float32)

    outputs = model.predict({"x": x})

    assert outputs["classLabel"] == labels[1]
    probabilities = torch.softmax(torch.from_numpy(x[0]), 0).tolist()
    assert outputs["classLabel_probs"] == pytest.approx(
        dict(zip(labels, probabilities, strict=True))
    )


def make_image(spec: Any, color: str) -> None:
    """Describe the output as an image."""
    image = spec.description.output[0].type.imageType
    image.height, image.width = 2, 5
    image.colorSpace = image.ColorSpace.Value(color)


def edit(path: Path, change: Callable[[Any], None]) -> None:
    """Change the protobuf of a package."""
    file = path / "Data/com.apple.CoreML/model.mlmodel"
    spec = ct.proto.Model_pb2.Model()
    spec.ParseFromString(file.read_bytes())
    change(spec)
    file.write_bytes(spec.SerializeToString())


@pytest.mark.parametrize("color", ["RGB", "BGR", "GRAYSCALE"])
def test_images_go_in_and_out_by_pixels(tmp_path: Path, color: str):
    layout = getattr(ct.colorlayout, color)
    channels = 1 if color == "GRAYSCALE" else 3
    shape = (1, channels, 2, 5)
    weights = np.arange(1, channels + 1, dtype=np.float32).reshape(1, -1, 1, 1)

    def build(x: Any) -> Any:
        return mb.mul(x=x, y=weights, name="y")

    convert(
        tmp_path / "m.mlpackage",
        [spec(*shape)],
        build,
        inputs=[ct.ImageType("x", shape, color_layout=layout)],
    )
    edit(tmp_path / "m.mlpackage", lambda spec: make_image(spec, color))
    model = load(tmp_path / "m.mlpackage")
    pixels = np.arange(10 * channels, dtype=np.uint8).reshape(2, 5, channels)
    order = slice(None, None, -1 if color == "BGR" else 1)
    image = pixels[..., 0] if channels == 1 else pixels

    y = model.predict({"x": image})["y"]

    expected = pixels * weights.reshape(-1)[order].astype(np.uint8)
    np.testing.assert_array_equal(y, expected[..., 0] if channels == 1 else expected)
    assert y.dtype == np.uint8
    with pytest.raises(UsageError, match="it must be uint8 of shape"):
        load(tmp_path / "m.mlpackage").predict({"x": image.astype(np.float32)})


def test_non_maximum_suppression(tmp_path: Path):
    boxes = [[0, 0, 2, 2], [0.1, 0, 2, 2], [5, 5, 1, 1], [0, 0.1, 2, 2]]
    scores = [[0.9, 0], [0.8, 0], [0.1, 0.3], [0.2, 0.7]]

    def build(x: Any, y: Any) -> Any:
        return mb.non_maximum_suppression(
            boxes=x,
            scores=y,
            iou_threshold=0.5,
            score_threshold=0.35,
            max_boxes=3,
            per_class_suppression=True,
            name="n",
        )

    model = convert(tmp_path / "m.mlpackage", [spec(1, 4, 4), spec(1, 4, 2)], build)
    x, y = np.array([boxes], np.float32), np.array([scores], np.float32)

    kept, values, indices, count = model.predict({"x": x, "y": y}).values()

    np.testing.assert_array_equal(indices, [[0, 3, -1]])
    np.testing.assert_array_equal(count, [2])
    np.testing.assert_array_equal(
        kept, np.array([[boxes[0], boxes[3], [0] * 4]], np.float32)
    )
    np.testing.assert_array_equal(
        values, np.array([[*scores[::3], [0, 0]]], np.float32)
    )


def test_affine_is_grid_sample(tmp_path: Path):
    x, matrix = array(2, 3, 5, 7), array(1, 6)

    def build(x: Any) -> Any:
        return mb.affine(
            x=x,
            transform_matrix=matrix,
            output_height=4,
            output_width=6,
            sampling_mode="bilinear",
            padding_mode="constant",
            padding_value=0.0,
            coordinates_mode="normalized_minus_one_to_one",
            align_corners=True,
            name="y",
        )

    model = convert(tmp_path / "m.mlpackage", [spec(*x.shape)], build)

    theta = torch.from_numpy(matrix).reshape(1, 2, 3).expand(2, -1, -1)
    grid = F.affine_grid(theta, [2, 3, 4, 6], align_corners=True)
    expected = F.grid_sample(torch.from_numpy(x), grid, align_corners=True)
    np.testing.assert_allclose(
        model.predict({"x": x})["y"], expected.numpy(), atol=1e-5
    )


def test_crop_resize_of_the_whole_image_is_interpolate(tmp_path: Path):
    x = array(2, 3, 5, 7)
    boxes = np.array([[0, 0, 1, 1]], np.float32).reshape(1, 1, 4, 1, 1)

    def build(x: Any) -> Any:
        return mb.crop_resize(
            x=x,
            roi=boxes,
            target_height=9,
            target_width=4,
            normalized_coordinates=True,
            sampling_mode="ALIGN_CORNERS",
            name="y",
        )

    model = convert(tmp_path / "m.mlpackage", [spec(*x.shape)], build)

    expected = F.interpolate(
        torch.from_numpy(x), (9, 4), mode="bilinear", align_corners=True
    )
    np.testing.assert_allclose(
        model.predict({"x": x})["y"][0], expected.numpy(), atol=1e-5
    )


def test_a_seed_repeats_random_numbers_and_no_seed_does_not(tmp_path: Path):
    def build(x: Any) -> Any:
        shape = mb.shape(x=x)
        return (
            mb.random_uniform(shape=shape, low=2.0, high=3.0, seed=5, name="seeded"),
            mb.random_normal(shape=shape, name="free"),
        )

    model = convert(tmp_path / "m.mlpackage", [spec(30, 40)], build)
    x = np.zeros((30, 40), np.float32)

    first, second = model.predict({"x": x}), model.predict({"x": x})

    np.testing.assert_array_equal(first["seeded"], second["seeded"])
    assert (first["seeded"] >= 2).all() and (first["seeded"] < 3).all()
    assert (first["free"] != second["free"]).any()
    assert abs(first["free"].mean()) < 0.2


def test_bidirectional_lstm_is_torchs(tmp_path: Path):
    layer = torch.nn.LSTM(4, 3, bidirectional=True).eval()

    def ordered(name: str) -> Array:
        # torch has the gates as i, f, z, o; MIL as i, f, o, z.
        i, f, z, o = getattr(layer, name).detach().chunk(4)
        return torch.cat([i, f, o, z]).numpy()

    arguments: dict[str, Array] = {}
    for end, back in (("", ""), ("_reverse", "_back")):
        arguments[f"weight_ih{back}"] = ordered(f"weight_ih_l0{end}")
        arguments[f"weight_hh{back}"] = ordered(f"weight_hh_l0{end}")
        biases = ordered(f"bias_ih_l0{end}"), ordered(f"bias_hh_l0{end}")
        arguments[f"bias{back}"] = biases[0] + biases[1]
    x, h, c = array(5, 2, 4), array(2, 6), array(2, 6) * 2

    def build(x: Any) -> Any:
        return mb.lstm(
            x=x,
            initial_h=h,
            initial_c=c,
            direction="bidirectional",
            output_sequence=True,
            name="y",
            **arguments,
        )

    model = convert(tmp_path / "m.mlpackage", [spec(5, 2, 4)], build)

    y, last_h, last_c = model.predict({"x": x}).values()

    def split(state: Array) -> torch.Tensor:
        return torch.from_numpy(state).reshape(2, 2, 3).transpose(0, 1).contiguous()

    with torch.no_grad():
        expected, (h_n, c_n) = layer(torch.from_numpy(x), (split(h), split(c)))
    np.testing.assert_allclose(y, expected.numpy(), atol=1e-6)
    np.testing.assert_allclose(last_h, h_n.transpose(0, 1).reshape(2, 6), atol=1e-6)
    np.testing.assert_allclose(last_c, c_n.transpose(0, 1).reshape(2, 6), atol=1e-6)


def test_an_unknown_op_within_a_block_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    from padc.backends.coreml.evaluator.ops import OPS

    def build(x: Any) -> Any:
        return mb.cond(
            pred=mb.greater(x=mb.squeeze(x=x), y=0.0),
            _true_fn=lambda: mb.exp(x=x),
            _false_fn=lambda: mb.sinh(x=x, name="inner"),
        )

    convert(tmp_path / "m.mlpackage", [spec(1)], build)
    monkeypatch.delitem(OPS, "sinh")

    with pytest.raises(UnsupportedError, match=r"no op 'sinh' \(output 'inner"):
        load(tmp_path / "m.mlpackage")
