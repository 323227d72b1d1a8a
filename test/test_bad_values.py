# pyright: basic, reportMissingTypeStubs=false
"""Values that arguments cannot have: each is refused by name, before a file exists."""

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import coremltools
import numpy as np
import pytest
import torch
from torch import Tensor, nn

import padc

ct: Any = coremltools
SURROGATE = "\ud800"


class Two(nn.Module):
    def forward(self, x: Tensor, m: Tensor):
        return {"y": x * 2 + m, "odds": x.softmax(1)}


def refused(message: str, model: nn.Module, example: Any, **options: Any) -> None:
    with pytest.raises(padc.UsageError, match=message):
        padc.convert(model, example, **options)


def nested(depth: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(depth):
        found = [found]
    return found


def default(value: Any, dtype: Any = None) -> Any:
    """A description with a default that the constructor would not take."""
    described = ct.TensorType("m", (1, 4), dtype)
    described.default_value = value
    return {"m": described}


def of_inputs(value: Any) -> Callable[[], Any]:
    return lambda: {"inputs": [value(), ct.TensorType()]}


DEFAULTS = [
    (np.nan, "the default nan, which float32 inputs cannot have"),
    (1e40, "the default 1e[+]40, which float32 inputs cannot have"),
    (10**400, r"the default 10*0 \.\.\."),
    ("a", "the default a"),
    (1j, "the default 1j"),
    ([], r"the default \[\]"),
    ([[1], [1, 2]], r"the default \[\[1\], \[1, 2\]\]"),
    ([[1, 2, 3, 4]], "a default of different numbers"),
    (np.ones((1, 8)), r"a default of shape \(1, 8\).* has the shape \(1, 4\)"),
]
LABELS = [
    ([2**70, 1, 2, 3], f"label {2**70} does not fit in 64 bits"),
    ([SURROGATE, "b", "c", "d"], "label is '.ud800', which has no encoding"),
    ([True, False, 1, 0], "labels are of type bool, int"),
    ([None] * 4, "labels are of type NoneType"),
    ("\0", "null byte"),
    ("/", "Is a directory"),
    (5, "class_labels is a int"),
]
TEXTS = [
    ({"author": SURROGATE}, "'author' is '.ud800', which has no encoding"),
    ({"preview_type": SURROGATE}, "'preview_type' is '.ud800'"),
    ({"user_defined_metadata": {"a": SURROGATE}}, "of 'a' is '.ud800'"),
    ({"user_defined_metadata": {SURROGATE: "a"}}, "a key of metadata .* is '.ud800'"),
    ({"user_defined_metadata": {"a": 5}}, "of 'a' is a int"),
    ({"input_description": None}, "is a NoneType, not a dictionary"),
    ({"preview_parameters": np.nan}, "not JSON compliant"),
    ({"preview_parameters": nested(100_000)}, "recursion"),
    ({5: "x"}, "metadata has no 5"),
    ("x", "metadata is a str"),
]
RANGES = [
    (lambda: ct.RangeDim(0, 4), "a size from 0 to 4"),
    (lambda: ct.RangeDim(-3, 4), "a size from -3 to 4"),
    (lambda: ct.RangeDim(4, 2), "a size from 4 to 2"),
    (lambda: ct.RangeDim(2.5, 4), "a size from 2.5 to 4"),
    (lambda: ct.RangeDim("a", "b"), "a size from a to b"),
    (lambda: ct.RangeDim(2, None), "a size from 2 to None"),
]
NAMES = [
    ({"inputs": {"x": ct.TensorType("")}}, "named ''"),
    ({"inputs": {"x": ct.TensorType(SURROGATE)}}, "named '.ud800'"),
    ({"inputs": {"x": ct.TensorType(5)}}, "named 5"),
    ({"inputs": {"x": ct.TensorType("m")}}, "'m': the input 'x' and the input 'm'"),
    ({"inputs": {"x": ct.TensorType("y")}}, "'y': the input 'x' and the output 'y'"),
    ({"outputs": {"y": ct.TensorType("m")}}, "'m': the input 'm' and the output 'y'"),
    ({"outputs": {"y": ct.TensorType("odds")}}, "the output 'y' and the output 'odds'"),
    ({"outputs": {None: ct.TensorType("a")}}, "the model has no output 'None'"),
    ({"inputs": "x"}, "inputs is a str"),
]
NUMERICS = [
    ({"precision": "half"}, "no precision 'half'"),
    ({"precision": torch.float16}, "no precision 'torch.float16'"),
    ({"target": 17.0}, "no target '17.0'"),
    ({"compress": ""}, "no compression ''"),
    ({"states": None}, "no states policy 'None'"),
    ({"keep_float32": None}, "keep_float32 is None"),
    ({"keep_float32": 5}, "keep_float32 is 5"),
    ({"keep_float32": [5]}, "keep_float32 has 5"),
    (
        {"keep_float32": [SURROGATE], "precision": "float16"},
        "keep_float32: no op is of",
    ),
    ({"keep_float32": iter(["none"]), "precision": "float16"}, "no op is of 'none'"),
]


@pytest.mark.parametrize(
    "options, message",
    [
        *((lambda v=v: {"inputs": default(v)}, text) for v, text in DEFAULTS),
        (lambda: {"inputs": default(2.5, np.int32)}, "default 2.5|dtype int32"),
        *((lambda v=v: {"classifier_config": classes(v)}, text) for v, text in LABELS),
        (lambda: {"classifier_config": classes(list("abcd"), 5)}, "named 5"),
        *((lambda v=v: {"metadata": v}, text) for v, text in TEXTS),
        *(
            (of_inputs(lambda r=r: ct.TensorType(shape=(1, r()))), text)
            for r, text in RANGES
        ),
        *((lambda v=v: v, text) for v, text in (*NAMES, *NUMERICS)),
    ],
)
def test_of_convert(options: Callable[[], Any], message: str):
    refused(message, Two(), (torch.rand(1, 4), torch.rand(1, 4)), **options())


def classes(labels: Any, name: Any = None) -> Any:
    return ct.ClassifierConfig(labels, name, predicted_probabilities_output="odds")


def image(**fields: Any) -> Any:
    described = ct.ImageType()
    for name, value in fields.items():
        setattr(described, name, value)
    return described


@pytest.mark.parametrize(
    "fields, shape, message",
    [
        ({"scale": np.nan}, (1, 3, 8, 8), "with scale nan"),
        ({"scale": 1e300}, (1, 3, 8, 8), r"with scale 1e\+300"),
        ({"scale": [1, 1e-300, 1]}, (1, 3, 8, 8), "with scale"),
        ({"scale": 2**2000}, (1, 3, 8, 8), r"with scale \d* \.\.\."),
        ({"scale": "a"}, (1, 3, 8, 8), "with scale a"),
        ({"bias": -np.inf}, (1, 3, 8, 8), "with bias -inf"),
        ({"default_value": 1}, (1, 3, 8, 8), "an image with a default value"),
        ({}, (3, 8, 8), "such an image is a tensor of shape"),
        ({}, (1, 3, 8, 8, 1), "such an image is a tensor of shape"),
        ({}, (), "such an image is a tensor of shape"),
    ],
)
def test_of_images(fields: Any, shape: Any, message: str):
    for side in ("inputs", "outputs"):
        if side == "inputs" or "default_value" not in fields:
            refused(
                message, nn.ReLU(), (torch.rand(shape),), **{side: [image(**fields)]}
            )


@pytest.mark.parametrize(
    "options, message",
    [
        ({"mean": 10**400}, r"mean is 1\d* \.\.\."),
        ({"std": [1, np.nan, 1]}, "std is"),
        ({"std": -1}, "std is -1"),
        ({"color_layout": 5}, "no color layout '5'"),
        ({"shape": 5}, "shape is 5"),
    ],
)
def test_of_image_type(options: Any, message: str):
    with pytest.raises(padc.UsageError, match=message):
        padc.coreml.image_type(**options)


@pytest.fixture(scope="module")
def program() -> padc.Program:
    return padc.convert(nn.ReLU(), (torch.ones(2),), target="iOS18")


PATHS = [5, None, "", ".", b"x.mlpackage", "a\0.mlpackage", "absent/x.mlpackage"]


@pytest.mark.parametrize("path", [*PATHS, "n" * 300 + ".mlpackage", "file.mlpackage"])
def test_paths(
    path: Any, program: padc.Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    Path("file.mlpackage").write_text("")

    for run in (
        lambda: program.save(path),
        lambda: padc.save_functions({"a": program}, path),
        lambda: padc.coreml.load(path),
        lambda: padc.coreml.check(path),
        lambda: padc.convert(path),
    ):
        with pytest.raises((padc.UsageError, padc.InvalidProgramError)):
            run()

    assert os.listdir(tmp_path) == ["file.mlpackage"]


def test_a_path_that_is_no_text(program: padc.Program, tmp_path: Path):
    with pytest.raises(padc.UsageError, match="it is not UTF-8"):
        program.save(tmp_path / "\udcff.mlpackage")


@pytest.mark.parametrize(
    "make, options, message",
    [
        (lambda p: nn.ReLU(), {}, "programs is a ReLU"),
        (lambda p: [p], {}, "programs is a list"),
        (lambda p: {"a": nn.ReLU()}, {}, "the function 'a' is a ReLU"),
        (lambda p: {"a": None}, {}, "the function 'a' is a NoneType"),
        (lambda p: {}, {}, "no programs"),
        (lambda p: {5: p}, {}, "cannot be named 5"),
        (lambda p: {"": p}, {}, "cannot be named ''"),
        (lambda p: {"a": p}, {"default": 5}, "the default '5' is no function"),
        (lambda p: {"a": p}, {"locations": None}, "'None'"),
    ],
)
def test_of_save_functions(
    make: Any, options: Any, message: str, program: padc.Program, tmp_path: Path
):
    with pytest.raises(padc.UsageError, match=message):
        padc.save_functions(make(program), tmp_path / "f.mlpackage", **options)

    assert not [*tmp_path.iterdir()]


def test_of_running(program: padc.Program, tmp_path: Path):
    path = tmp_path / "relu.mlpackage"
    program.save(path)
    load: Any = padc.coreml.load
    model, x, checked = load(path), torch.ones(2), cast(Any, program)

    for run in (
        *(lambda v=v: model.predict(v) for v in (5, None, [1], {5: 1}, {"input": "a"})),
        *(lambda v=v: load(path, function_name=v) for v in (5, "b", ["a"], SURROGATE)),
        *(lambda v=v: checked.verify(tolerance=v) for v in ("x", [1], math.nan, -1)),
        *(lambda v=v: checked.run(*v) for v in ((), (1,), (x, x), (torch.ones(3),))),
        *(
            lambda v=v, check=check: check(v)
            for v in (5, "x", [], [1], [x], [[1]], [[]], [(x, x)], [[np.ones(2)]])
            for check in (checked.verify, checked.float16_report)
        ),
    ):
        with pytest.raises(padc.UsageError):
            run()


class Counter(nn.Module):
    def __init__(self, size: int):
        super().__init__()
        self.register_buffer("kv", torch.zeros(size, dtype=torch.float16))

    def forward(self, x: Tensor):
        self.get_buffer("kv").add_(x.half())
        return x * 2


def test_states_of_another_model(program: padc.Program, tmp_path: Path):
    def loaded(name: str, saved: padc.Program) -> Any:
        saved.save(tmp_path / f"{name}.mlpackage")
        return padc.coreml.load(tmp_path / f"{name}.mlpackage")

    three, four = (
        loaded(str(n), padc.convert(Counter(n), (torch.rand(n),), target="iOS18"))
        for n in (3, 4)
    )
    given = {"x": np.ones(3, np.float32)}

    for state in (four.make_state(), loaded("relu", program).make_state(), 5, {}):
        with pytest.raises(padc.UsageError, match="the state is not one of this model"):
            three.predict(given, state)
    with pytest.raises(padc.UsageError, match="the state 'kv' is a"):
        three.make_state().write_state("kv", "a")
    three.predict(given, state := three.make_state())
    np.testing.assert_array_equal(state.read_state("kv"), [1, 1, 1])


# --- defaults and dynamic sizes -------------------------------------------------------


class Longer(nn.Module):
    def forward(self, x: Tensor, m: Tensor):
        return x[:, ::2] + m


class Apart(nn.Module):
    def forward(self, x: Tensor, m: Tensor):
        return x * 2 + m.sum()


def sizes(lowest: int = 2) -> Any:
    return ct.RangeDim(lowest, 8, max(4, lowest))


def three(*shape: Any) -> Any:
    return default(3.0)["m"] if not shape else with_default(ct.TensorType(shape=shape))


def with_default(described: Any) -> Any:
    described.default_value = np.array([3.0])
    return described


def test_a_default_of_a_size_that_another_input_has():
    size, example = sizes(), (torch.rand(1, 4), torch.rand(1, 4))
    alike = [ct.TensorType(shape=(1, size)), three(1, size)]

    refused("of the input 'x', which may have", Two(), example, inputs=alike)


def test_a_default_of_a_size_that_depends_on_another_inputs():
    length = torch.export.Dim("length", min=2, max=9)
    exported = torch.export.export(
        Longer(),
        (torch.rand(1, 8), torch.rand(1, 4)),
        dynamic_shapes={"x": {1: 2 * length}, "m": {1: length}},
    )

    with pytest.raises(padc.UsageError, match="of the input 'x', which may have"):
        padc.convert(exported, inputs={"m": with_default(ct.TensorType())})
    with pytest.raises(padc.UsageError, match="of the input 'm', which may have"):
        padc.convert(exported, inputs={"x": with_default(ct.TensorType())})


def test_a_default_with_enumerated_shapes():
    listed = ct.EnumeratedShapes([(1, 4), (1, 6)])
    described = [ct.TensorType(), with_default(ct.TensorType(shape=listed))]
    example = (torch.rand(1, 4), torch.rand(1, 4))

    refused("let an input have together", Apart(), example, inputs=described)


@pytest.mark.parametrize(
    "model, shapes, given",
    [
        (Two(), ((1, sizes()), (1, 1)), 6),
        (Two(), ((1, 4), (1, 4)), 4),
        (Apart(), ((1, sizes()), (1, sizes(3))), 6),
        (Apart(), ((1, sizes()), (1, 4)), 6),
    ],
)
def test_a_default_of_a_size_of_its_own(
    model: nn.Module, shapes: Any, given: int, tmp_path: Path
):
    default_size = getattr(shapes[1][1], "default", shapes[1][1])
    program = padc.convert(
        model,
        (torch.rand(1, 4), torch.rand(1, default_size)),
        inputs=[ct.TensorType(shape=shapes[0]), three(*shapes[1])],
        verify=True,
    )
    program.save(tmp_path / "m.mlpackage")
    x, m = torch.rand(1, given), torch.full((1, default_size), 3.0)

    first, *_ = (
        padc.coreml.load(tmp_path / "m.mlpackage").predict({"x": x.numpy()}).values()
    )

    expected = model(x, m)
    expected = expected["y"] if isinstance(expected, dict) else expected
    torch.testing.assert_close(torch.from_numpy(first), expected)
