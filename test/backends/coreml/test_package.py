# pyright: basic, reportMissingTypeStubs=false
"""Packages on disk: what is read from them, and how damage is reported."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import coremltools
import numpy as np
import pytest
from coremltools.converters.mil import Builder
from coremltools.converters.mil.mil import Function, Program, types

from padc.backends.coreml.evaluator import load
from padc.backends.coreml.evaluator.values.types import INT4, UINT3, unpack
from padc.errors import InvalidProgramError, UnsupportedError, UsageError
from padc.tools.update_messages import LICENSE, MESSAGES, license_text, messages

ct: Any = coremltools
mb: Any = Builder
WEIGHT = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
X = np.ones((2, 3, 4), np.float32)
MODEL = "Data/com.apple.CoreML/model.mlmodel"
BLOBS = "Data/com.apple.CoreML/weights/weight.bin"


def convert(function: Function, target: Any = ct.target.iOS15, **options: Any) -> Any:
    program = Program()
    program.add_function("main", function)
    return ct.convert(
        program,
        source="milinternal",
        compute_precision=ct.precision.FLOAT32,
        minimum_deployment_target=target,
        skip_model_load=True,
        **options,
    )


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package of `y = relu(x - WEIGHT)`."""
    with Function({"x": mb.placeholder(shape=X.shape)}) as function:
        y = mb.relu(x=mb.sub(x=function.inputs["x"], y=WEIGHT), name="y")
        function.set_outputs([y])
    path = tmp_path_factory.mktemp("saved") / "m.mlpackage"
    convert(function).save(str(path))
    return path


@pytest.fixture
def package(saved: Path, tmp_path: Path) -> Path:
    """A copy of `saved` to damage."""
    return Path(shutil.copytree(saved, tmp_path / "copy.mlpackage"))


def edit(package: Path, change: Callable[[Any], Any]) -> None:
    """Change the package's protobuf."""
    spec = ct.proto.Model_pb2.Model()
    spec.ParseFromString((package / MODEL).read_bytes())
    change(spec)
    (package / MODEL).write_bytes(spec.SerializeToString())


def operations(spec: Any) -> Any:
    (block,) = spec.mlProgram.functions["main"].block_specializations.values()
    return block.operations


def test_description_and_prediction(saved: Path):
    model = load(saved)

    (x,), (y,) = model.inputs, model.outputs
    assert (x.name, x.dtype, x.shape) == ("x", np.float32, (2, 3, 4))
    assert (y.name, y.dtype) == ("y", np.float32)
    outputs = model.predict({"x": X * 5})
    np.testing.assert_array_equal(outputs["y"], np.maximum(5 - WEIGHT, 0))


def test_messages_are_those_of_coremltools():
    assert MESSAGES.read_bytes() == messages()
    assert LICENSE.read_text() == license_text()


def write(name: str, data: bytes) -> Callable[[Path], Any]:
    return lambda package: (package / name).write_bytes(data)


def patch(name: str, at: int, data: bytes) -> Callable[[Path], Any]:
    def damage(package: Path) -> None:
        content = bytearray((package / name).read_bytes())
        content[at : at + len(data)] = data
        (package / name).write_bytes(content)

    return damage


def cut(name: str, size: int) -> Callable[[Path], Any]:
    return lambda package: write(name, (package / name).read_bytes()[:size])(package)


def spec(change: Callable[[Any], Any]) -> Callable[[Path], Any]:
    return lambda package: edit(package, change)


def const(spec: Any) -> Any:
    """The value of the program's weight."""
    return next(op for op in operations(spec) if op.type == "const").attributes["val"]


def swap(spec: Any) -> None:
    """Give `sub` the output of `relu`, which comes after it and needs it."""
    (sub,) = [op for op in operations(spec) if op.type == "sub"]
    sub.inputs["x"].arguments[0].name = "y"


def huge(spec: Any) -> None:
    value = const(spec)
    for kind in (value.type, operations(spec)[0].outputs[0].type):
        for dim in kind.tensorType.dimensions:
            dim.constant.size = 2**40


def splat(spec: Any) -> None:
    const(spec).ClearField("blobFileValue")
    const(spec).immediateValue.tensor.floats.values.append(1)


DAMAGES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "no manifest": (lambda p: (p / "Manifest.json").unlink(), "it has no Manifest.json"),
    "manifest is not json": (write("Manifest.json", b"{"), "is not JSON"),
    "manifest without model": (write("Manifest.json", b"[]"), "does not name"),
    "model outside": (
        write("Manifest.json", json.dumps({"rootModelIdentifier": "a", "itemInfoEntries": {"a": {"path": "../../../etc/passwd"}}}).encode()),
        "no file '../../../etc/passwd' in the package",
    ),
    "empty model": (cut(MODEL, 0), "model.mlmodel holds no model"),
    "no model": (lambda p: (p / MODEL).unlink(), "no file"),
    "garbage": (write(MODEL, b"\xff" * 1000), "model.mlmodel"),
    "half a model": (cut(MODEL, 500), "model.mlmodel"),
    "no weights": (lambda p: (p / BLOBS).unlink(), "no file"),
    "weights outside": (spec(lambda s: setattr(const(s).blobFileValue, "fileName", "@model_path/../../../x")), "no file"),
    "empty weights": (cut(BLOBS, 0), "shorter than its header"),
    "half the weights": (cut(BLOBS, 200), "are not in the file's 200"),
    "weights of version 1": (patch(BLOBS, 4, b"\1"), "version 1 is not 2"),
    "wrong mark": (patch(BLOBS, 64, b"\xff"), "expected the sentinel 0xdeadbeef"),
    "wrong type": (patch(BLOBS, 68, b"\1"), "96 bytes of type 2, the file has 96 of type 1"),
    "wrong size": (patch(BLOBS, 72, b"\x5c"), "has 92 of type 2"),
    "data outside": (patch(BLOBS, 80 + 6, b"\xff"), "are not in the file's"),
    "offset outside": (spec(lambda s: setattr(const(s).blobFileValue, "offset", 2**40)), "the offset must be a multiple of 64 inside"),
    "offset unaligned": (spec(lambda s: setattr(const(s).blobFileValue, "offset", 60)), "the offset must be a multiple of 64"),
    "huge constant": (spec(huge), "needs"),
    "too few values": (spec(splat), "has 1 floats"),
    "cycle": (spec(swap), "input 'x' is 'y', which nothing before it defines"),
    "missing input": (spec(lambda s: [op.inputs.pop("x") for op in operations(s) if op.type == "relu"]), "op 'relu' .* has no input 'x'"),
    "two values of one name": (spec(lambda s: operations(s).add().CopyFrom(operations(s)[0])), "two values are named"),
    "undefined output": (spec(lambda s: operations(s).pop()), "nothing defines the output 'y'"),
    "no main": (spec(lambda s: s.mlProgram.functions.pop("main")), "no function 'main'"),
    "no output": (spec(lambda s: [(op.ClearField("outputs"), setattr(op, "type", "log")) for op in operations(s) if op.type == "relu"]), "nothing defines|has no output"),
    "other inputs": (spec(lambda s: setattr(s.description.input[0], "name", "z")), r"describes \['z'\]"),
}  # fmt: skip


@pytest.mark.parametrize(("damage", "message"), DAMAGES.values(), ids=DAMAGES.keys())
def test_damage_is_told(damage: Callable[[Path], Any], message: str, package: Path):
    damage(package)

    with pytest.raises(InvalidProgramError, match=message):
        load(package)


def test_other_kinds_of_models_are_refused(package: Path):
    edit(package, lambda spec: spec.neuralNetwork.SetInParent())

    with pytest.raises(UnsupportedError, match="neuralNetwork, not an mlProgram"):
        load(package)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, "'x' is missing"),
        ({"x": X, "z": X}, "no input 'z'"),
        ({"x": X[:1]}, r"'x' is float32 of shape \(1, 3, 4\)"),
        ({"x": X.astype(np.float64)}, "'x' is float64"),
    ],
)
def test_wrong_inputs_are_usage_errors(data: Any, message: str, saved: Path):
    with pytest.raises(UsageError, match=message):
        load(saved).predict(data)


def test_wrong_path_precision_and_function_are_usage_errors(saved: Path):
    with pytest.raises(UsageError, match="no such folder"):
        load(saved / "nothing")
    with pytest.raises(UsageError, match="it is no folder"):
        load(saved / MODEL)
    with pytest.raises(UsageError, match="precision 'half'"):
        load(saved, precision="half")  # pyright: ignore[reportArgumentType]
    with pytest.raises(UsageError, match="no function 'other'"):
        load(saved, function_name="other")


def test_weights_cut_while_the_model_is_open(package: Path):
    model = load(package)

    cut(BLOBS, 10)(package)

    np.testing.assert_array_equal(model.predict({"x": WEIGHT + 1})["y"], X)


def test_results_are_not_the_models_own_memory(package: Path):
    def constant_output(spec: Any) -> None:
        (relu,) = [op for op in operations(spec) if op.type == "relu"]
        relu.type = "identity"
        relu.inputs["x"].arguments[0].name = operations(spec)[0].outputs[0].name

    edit(package, constant_output)
    model = load(package)

    model.predict({"x": X})["y"][:] = -1

    np.testing.assert_array_equal(model.predict({"x": X})["y"], WEIGHT)


def flexible(shape: Any, tmp_path: Path) -> Path:
    from coremltools.converters.mil.mil import get_new_symbol

    placeholder = mb.placeholder(shape=(1, get_new_symbol()))
    with Function({"x": placeholder}) as function:
        function.set_outputs([mb.exp(x=function.inputs["x"], name="y")])
    path = tmp_path / "m.mlpackage"
    convert(function, inputs=[ct.TensorType(name="x", shape=shape)]).save(str(path))
    return path


def test_ranges(tmp_path: Path):
    model = load(flexible((1, ct.RangeDim(2, 5, default=3)), tmp_path))

    assert model.inputs[0].ranges == ((1, 1), (2, 5))
    for size in (2, 5):
        assert model.predict({"x": X[0, :1, :1].repeat(size, 1)})["y"].shape == (
            1,
            size,
        )
    with pytest.raises(UsageError, match=r"float32 of shape \(1, 2..5\)"):
        model.predict({"x": X[0, :1, :1]})


def image_model(tmp_path: Path, shape: Any) -> Any:
    """`y = 2 x` of an image of flexible size."""
    from coremltools.converters.mil.mil import get_new_symbol

    sizes = get_new_symbol(), get_new_symbol()
    with Function({"x": mb.placeholder(shape=(1, 3, *sizes))}) as function:
        function.set_outputs([mb.mul(x=function.inputs["x"], y=2.0, name="y")])
    image = ct.ImageType("x", shape, color_layout=ct.colorlayout.BGR)
    path = tmp_path / "m.mlpackage"
    convert(function, inputs=[image]).save(str(path))
    return load(path)


def test_ranges_of_image_sizes(tmp_path: Path):
    rows, columns = ct.RangeDim(2, 5, default=3), ct.RangeDim(4, 8, default=4)
    model = image_model(tmp_path, (1, 3, rows, columns))
    pixels = np.arange(5 * 8 * 3, dtype=np.uint8).reshape(5, 8, 3)

    assert model.inputs[0].shape == (3, 4, 3)
    assert model.inputs[0].ranges == ((2, 5), (4, 8), (3, 3))
    for height, width in ((2, 8), (5, 4)):
        image = pixels[:height, :width]
        # Blue is the first channel that the program sees.
        expected = 2.0 * image[None, :, :, ::-1].transpose(0, 3, 1, 2)
        y = model.predict({"x": image})["y"]
        np.testing.assert_array_equal(y, expected)
    with pytest.raises(UsageError, match=r"uint8 of shape \(2..5, 4..8, 3\)"):
        model.predict({"x": pixels[:1]})


def test_listed_image_sizes(tmp_path: Path):
    sizes = ct.EnumeratedShapes([(1, 3, 2, 4), (1, 3, 4, 2)], default=(1, 3, 2, 4))
    model = image_model(tmp_path, sizes)

    assert set(model.inputs[0].shapes) == {(2, 4, 3), (4, 2, 3)}
    for height, width in ((2, 4), (4, 2)):
        y = model.predict({"x": np.ones((height, width, 3), np.uint8)})["y"]
        np.testing.assert_array_equal(y, np.full((1, 3, height, width), 2))
    with pytest.raises(UsageError, match="one of the shapes"):
        model.predict({"x": np.ones((4, 4, 3), np.uint8)})


def test_listed_shapes(tmp_path: Path):
    shapes = ct.EnumeratedShapes([(1, 2), (1, 4)], default=(1, 4))
    model = load(flexible(shapes, tmp_path))

    assert set(model.inputs[0].shapes) == {(1, 2), (1, 4)}
    assert model.predict({"x": X[0, :1, :2]})["y"].shape == (1, 2)
    with pytest.raises(UsageError, match="one of the shapes"):
        model.predict({"x": X[0, :1, :3]})


def test_optional_input_has_its_default(package: Path):
    def make_optional(spec: Any) -> None:
        kind = spec.description.input[0].type
        kind.isOptional = True
        kind.multiArrayType.floatDefaultValue = 30.0

    edit(package, make_optional)

    np.testing.assert_array_equal(load(package).predict({})["y"], 30 - WEIGHT)


def test_functions_of_a_package(package: Path):
    def two(spec: Any) -> None:
        description, functions = spec.description, spec.mlProgram.functions
        functions["plain"].CopyFrom(functions["main"])
        (block,) = functions["plain"].block_specializations.values()
        block.operations[-1].type = "identity"
        for name in ("main", "plain"):
            entry = description.functions.add(name=name)
            entry.input.extend(description.input)
            entry.output.extend(description.output)
        description.ClearField("input")
        description.ClearField("output")
        description.defaultFunctionName = "plain"

    edit(package, two)

    plain = load(package).predict({"x": X})["y"]
    main = load(package, function_name="main").predict({"x": X})["y"]

    np.testing.assert_array_equal(plain, 1 - WEIGHT)
    np.testing.assert_array_equal(main, np.maximum(1 - WEIGHT, 0))


@pytest.mark.parametrize("size", [3, 40])
@pytest.mark.parametrize(
    "dtype",
    [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.float16, np.float32, bool],
)
def test_constants_of_each_dtype(dtype: Any, size: int, tmp_path: Path):
    # Below ten elements constants are immediate, above they are in the weight file.
    values = (np.arange(size) % 100).astype(dtype)
    with Function(
        {"i": mb.placeholder(shape=(2,), dtype=types.int32)},
        opset_version=ct.target.iOS17,
    ) as function:
        i = function.inputs["i"]
        wide = values.astype(np.float32) if dtype is bool else values
        y = mb.gather(x=wide, indices=i)
        y = mb.logical_not(x=mb.cast(x=y, dtype="bool")) if dtype is bool else y
        function.set_outputs([mb.cast(x=y, dtype="fp32", name="y")])
    path = tmp_path / "m.mlpackage"
    convert(function, ct.target.iOS17).save(str(path))

    y = load(path).predict({"i": np.array([2, 0], np.int32)})["y"]

    picked = values[[2, 0]]
    np.testing.assert_array_equal(y, ~picked if dtype is bool else picked)


def test_unpacking_below_eight_bits():
    # i0 = 5, i1 = 2, i2 = 7 in three bits each: 111 010 101, across two bytes.
    np.testing.assert_array_equal(unpack(b"\xd5\x01", 3, UINT3), [5, 2, 7])
    np.testing.assert_array_equal(unpack(b"\x8f\x07", 3, INT4), [-1, -8, 7])
