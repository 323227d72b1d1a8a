"""The public API: `padc.convert` and the program that it returns."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.utils._pytree as pytree
from functions import Function
from torch import Tensor, nn
from torch.export import Dim
from xdsl.dialects.builtin import ModuleOp

import padc
from padc.backends.coreml.evaluator import load
from padc.verification import compare, run_package, sample_inputs, verify_package

X = torch.arange(24.0).reshape(2, 3, 4) / 7


class Padded(nn.Module):
    def __init__(self, channels: int = 4) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, channels, 3, 2, padding=1, padding_mode="reflect")

    def forward(self, image: Tensor) -> Tensor:
        return self.conv(image).relu()


def flat(result: object) -> list[Tensor]:
    return pytree.tree_leaves(result)


def check_run(
    program: padc.Program, model: Callable[..., object], *inputs: Tensor
) -> None:
    """The program computes what the model does, shapes and dtypes included."""
    expected = flat(model(*inputs))
    actual = program.run(*inputs)
    assert len(actual) == len(expected)
    for is_, should in zip(actual, expected):
        torch.testing.assert_close(is_, should, rtol=1e-5, atol=1e-5)


@pytest.fixture(scope="module")
def model() -> Padded:
    return Padded().eval()


@pytest.fixture(scope="module")
def image() -> Tensor:
    return torch.randn(1, 3, 9, 8, generator=torch.Generator().manual_seed(1))


@pytest.fixture(scope="module")
def program(model: Padded, image: Tensor) -> padc.Program:
    return padc.convert(model, (image,))


# --- what can be converted ---------------------------------------------------------


def test_module(program: padc.Program, model: Padded, image: Tensor, tmp_path: Path):
    check_run(program, model, image)
    check_run(program, model, -image)
    (comparison,) = program.verify()
    assert comparison.name == "relu"
    assert 0 <= comparison.relative_error < 1e-5

    program.save(tmp_path / "m.mlpackage")

    package = load(tmp_path / "m.mlpackage")
    assert [feature.name for feature in package.inputs] == ["image"]
    assert [feature.name for feature in package.outputs] == ["relu"]
    (output,) = run_package(tmp_path / "m.mlpackage", [image])
    torch.testing.assert_close(output, model(image))


def test_exported_program(model: Padded, image: Tensor):
    exported = torch.export.export(model, (image,))

    for exported in exported, exported.run_decompositions({}):
        program = padc.convert(exported, verify=True)
        check_run(program, model, image)


def test_dynamic_shapes(model: Padded):
    size = Dim("height", min=4, max=64), Dim("width", min=4, max=64)

    program = padc.convert(
        model, (torch.randn(1, 3, 10, 12),), dynamic_shapes=({2: size[0], 3: size[1]},)
    )

    program.verify()
    for shape in (1, 3, 4, 64), (1, 3, 9, 7), (1, 3, 33, 8):
        check_run(program, model, torch.randn(shape))
    with pytest.raises(padc.UsageError, match="image"):
        program.run(torch.randn(1, 3, 65, 8))


def test_a_program_does_not_change_with_its_model(image: Tensor):
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Conv2d(4, 2, 1))
    program = padc.convert(model.eval(), (image,))
    (before,) = program.run(image)

    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2)

    assert torch.equal(program.run(image)[0], before)


@pytest.mark.parametrize(
    "wrong, message",
    [
        (
            torch.tensor([2**32 + 1, 0]),
            "has values that the package's int32 does not have",
        ),
        (torch.tensor([1.5, 0.0]), "has values that the package's int32 does not have"),
        (
            torch.tensor([1 + 1j, 0]),
            "has values that the package's int32 does not have",
        ),
        ([1, 0], "is of type list"),
        (
            torch.tensor([1, 2]).to("meta"),
            "cannot be read: Cannot copy out of meta",
        ),
        (torch.tensor([1, 2]).to_sparse(), "cannot be read: can't convert Sparse"),
        (torch.tensor(1), r"int32 of shape \(\)"),
    ],
)
def test_inputs_that_the_package_cannot_be_given(wrong: Tensor, message: str):
    program = padc.convert(Function(lambda i: i + 0.5).eval(), (torch.tensor([1, 2]),))

    with pytest.raises(padc.UsageError, match=message):
        program.run(wrong)


@pytest.mark.parametrize(
    "same",
    [
        torch.tensor([1.5, -2.0], dtype=torch.bfloat16),
        torch.tensor([1.5j, -2.0j]).conj().imag.neg(),
        torch.tensor([1.5, -2.0], dtype=torch.complex64).conj(),
    ],
    ids=["bfloat16", "negated", "conjugated"],
)
def test_inputs_of_other_types_with_the_same_values(same: Tensor):
    program = padc.convert(Function(lambda x: x * 2).eval(), (torch.ones(2),))

    (result,) = program.run(same)

    assert result.tolist() == [3.0, -4.0]


def test_verify_on_nothing_is_refused(program: padc.Program):
    with pytest.raises(padc.UsageError, match="no inputs to compare"):
        program.verify([])


def test_a_tensor_that_is_no_sample_is_refused(program: padc.Program, image: Tensor):
    for wrong in (image, [image]):
        with pytest.raises(padc.UsageError, match="a sample is a sequence") as error:
            program.verify(wrong)  # pyright: ignore[reportArgumentType]
        assert error.value.hint == "give a list of samples: [(x,)]"


def test_weights_without_data_are_refused(image: Tensor):
    with pytest.raises(padc.UnsupportedError, match="on the meta device"):
        padc.convert(Padded().eval().to("meta"), (image.to("meta"),))


def test_own_output_breaks_no_rule(program: padc.Program):
    assert program.check() == []


def test_float16(model: Padded, image: Tensor):
    program = padc.convert(model, (image,), precision="float16")

    (output,) = program.run(image)

    expected = model(image)
    assert output.dtype == torch.float32
    assert 0 < (output - expected).abs().max() < 1e-2
    (comparison,) = program.verify()
    assert comparison.relative_error > 1e-5


@pytest.mark.parametrize("target", ["iOS15", "iOS16", "iOS18", "newest"])
def test_targets(target: str, model: Padded, image: Tensor):
    program = padc.convert(model, (image,), target=target)

    assert program.target == ("iOS26" if target == "newest" else target)
    check_run(program, model, image)


def set_to_zero(x: Tensor) -> Tensor:
    y = x.clone()
    y[:, 1:, ::2] = 0
    return y


FUNCTIONS: dict[str, tuple[Callable[..., object], tuple[Tensor, ...]]] = {
    "inputs and outputs": (lambda x, y, z: (x + y, z * 2), (X, X + 1, X[0])),
    "dict": (lambda x: {"b": x + 1, "a": (x * 2, x - 1)}, (X,)),
    "input as output": (lambda x, y: (y, x, x), (X, X + 1)),
    "int32": (lambda x: x * 2 + 1, (torch.tensor([[1, -2, 3]], dtype=torch.int32),)),
    "bool": (lambda x, m: torch.where(m, x, -x), (X, X > 1)),
    "bool output": (lambda x: x > 1, (X,)),
    "rank 0": (lambda x, s: (x.sum() * s, s + 1), (X, torch.tensor(2.0))),
    "in place": (lambda x: x.clone().mul_(2).add_(x), (X,)),
    "slice in place": (set_to_zero, (X,)),
    "int64 input": (lambda i: X[0][i], (torch.tensor([2, 0, 2]),)),
    "constant": (lambda x: x + torch.arange(4.0), (X,)),
    "int64 inside": (lambda x: x.argmax(1).to(torch.int32) + 1, (X,)),
    "fp16 and numbers": (
        lambda x: x / 4 + x**2.0,
        (torch.tensor([1.5, -2, 0.25], dtype=torch.float16),),
    ),
    "int16": (lambda x: x.flip(0), (torch.tensor([1, -2], dtype=torch.int16),)),
    "uint8": (lambda x: x.flip(0), (torch.tensor([1, 255], dtype=torch.uint8),)),
    "int64 output": (lambda x: x.argmax(1) + 1, (X,)),
}


@pytest.mark.parametrize("case", FUNCTIONS)
def test_function(case: str):
    function, inputs = FUNCTIONS[case]

    program = padc.convert(Function(function), inputs)

    check_run(program, function, *inputs)
    program.verify()


class Bytes(nn.Module):
    """An autoencoder of bytes, and arithmetic that wraps around."""

    steps: Tensor

    def __init__(self):
        super().__init__()
        self.encoder = nn.Conv2d(3, 4, 3, 2, 1)
        self.decoder = nn.ConvTranspose2d(4, 3, 4, 2, 1)
        self.register_buffer("steps", torch.arange(4, dtype=torch.uint8))

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        code = self.encoder(x.float() / 255).relu()
        image = (self.decoder(code).sigmoid() * 255).round().clamp(0, 255)
        large = nn.functional.interpolate(x, scale_factor=2.0)
        wrapped = torch.cat([x[0, 0, :2] * 3 + self.steps, -x[0, 1, :2]])
        return image.to(torch.uint8), wrapped, large, (x >> 2).to(torch.int16) * 700


@pytest.mark.parametrize("target", ["iOS15", "iOS16", "iOS17"])
def test_integers_of_8_and_16_bits(target: str):
    x = torch.arange(1 * 3 * 4 * 4, dtype=torch.uint8).reshape(1, 3, 4, 4) * 5
    model = Bytes().eval()

    program = padc.convert(model, (x,), target=target)

    assert program.check() == []
    for actual, expected in zip(program.run(x), model(x), strict=True):
        assert actual.dtype == expected.dtype and torch.equal(actual, expected)


def test_names_of_outputs(tmp_path: Path):
    program = padc.convert(Function(FUNCTIONS["dict"][0]), (X,))

    program.save(tmp_path / "m.mlpackage")

    outputs = load(tmp_path / "m.mlpackage").outputs
    assert [feature.name for feature in outputs] == ["b", "a_0", "a_1"]


def test_inputs_that_are_not_tensors_are_those_of_the_example():
    class Scaled(nn.Module):
        def forward(self, x: Tensor, factor: int, y: Tensor) -> Tensor:
            return x * factor + y

    program = padc.convert(Scaled(), (X, 3, X + 1))

    program.verify()
    torch.testing.assert_close(program.run(X, X)[0], X * 4)


# --- what a program can do ---------------------------------------------------------


def test_mlir_of_each_stage(program: padc.Program, ctx: object):
    torch_text, tcp_text, mil_text = map(program.mlir, ("torch", "tcp", "mil"))

    assert "torch.aten.pad" in torch_text and "tcp." not in torch_text
    assert "tcp.reflection_pad" in tcp_text and "torch.aten.conv" not in tcp_text
    assert "mil.conv" in mil_text and "tcp." not in mil_text
    assert program.mlir() == mil_text
    assert "dialect_resources" not in torch_text
    with pytest.raises(padc.UsageError, match="no stage 'llvm'") as error:
        program.mlir("llvm")  # pyright: ignore[reportArgumentType]
    assert error.value.hint == "choose one of torch, tcp, mil"


def test_observer_is_told_of_each_step(model: Padded, image: Tensor):
    steps: list[str] = []

    def observer(step: str, module: ModuleOp | None, seconds: float) -> None:
        assert 0 <= seconds < 60
        assert (module is None) == (step in ("export", "emit", "optimize", "verify"))
        steps.append(step)

    padc.convert(model, (image,), observer=observer, verify=True)

    assert steps == [
        "export",
        "import",
        "fold-constants",
        "split-complex",
        "narrow-float64",
        "widen-bfloat16",
        "convert-torch-to-tcp",
        "canonicalize",
        "tabulate-scaled-sizes",
        "reduce-ranks",
        "decompose-computed-kernels",
        "decompose-grid-sample",
        "decompose-pads",
        "convert-tcp-to-mil",
        "convert-torch-to-mil",
        "convert-model-buffers-to-states",
        "canonicalize",
        "emit",
        "optimize",
        "verify",
    ]


def test_failed_save_leaves_the_old_package(
    program: padc.Program,
    image: Tensor,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    path = tmp_path / "m.mlpackage"
    padc.convert(Function(lambda x: x * 2), (X,)).save(path)
    before = {p: p.read_bytes() for p in path.rglob("*") if p.is_file()}

    def fail(*arguments: object, **options: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_bytes", fail)
        with pytest.raises(padc.UsageError, match="No space left on device"):
            program.save(path)

    assert {p: p.read_bytes() for p in path.rglob("*") if p.is_file()} == before
    assert list(tmp_path.iterdir()) == [path]
    program.save(path)
    run_package(path, [image])
    assert list(tmp_path.iterdir()) == [path]


def test_verify_raises_where_the_model_is_another(
    program: padc.Program, tmp_path: Path
):
    path = tmp_path / "m.mlpackage"
    program.save(path)
    samples = sample_inputs(program.exported)

    for other, message in (
        (Padded(), "'relu' is off by "),
        (Padded(5), "'relu' is off by inf"),
    ):
        with pytest.raises(padc.WrongResultError, match=message):
            verify_package(other, program.exported, path, samples)


def test_verify_on_inputs_with_the_strides_of_the_example():
    class Rows(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.permute(0, 2, 3, 1).view(2, 60)  # of channels_last only

    x = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)

    (comparison,) = padc.convert(Rows(), (x,)).verify()

    assert comparison.max_error == 0


def test_verify_on_given_inputs(program: padc.Program, image: Tensor):
    (comparison,) = program.verify([(image,), (image * 100,)])

    assert comparison.relative_error < 1e-5
    with pytest.raises(padc.UsageError, match="takes 1 input"):
        program.run(image, image)


# --- what cannot be converted -------------------------------------------------------


class InPlace(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.mul_(2)  # in place


class Svd(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        q = torch.linalg.svd(x).U  # svd
        return q + torch.igamma(x, x)[..., :3]  # igamma


@pytest.mark.parametrize(
    "model, problems",
    [
        (InPlace(), [("input 'x' in place", "in place")]),
        (Svd(), [("aten.linalg_svd", "svd"), ("aten.igamma", "igamma")]),
    ],
    ids=["input", "two ops"],
)
def test_unsupported(model: nn.Module, problems: list[tuple[str, str]]):
    with pytest.raises(padc.UnsupportedError) as error:
        padc.convert(model, (X,))

    found = error.value.problems
    assert len(found) == len(problems)
    for problem, (message, comment) in zip(found, problems):
        assert message in problem.message
        assert problem.location is not None
        assert problem.location.file == __file__
        assert problem.location.text.endswith(f"# {comment}")
        assert str(problem) in str(error.value)
    assert error.value.location == found[0].location
    assert error.value.hint == found[0].hint
    assert isinstance(error.value, padc.PadcError)


def test_dynamic_sizes_need_a_bound(image: Tensor):
    shapes = (({2: Dim("height", min=4)},),)

    with pytest.raises(padc.UnsupportedError, match="no upper bound") as error:
        padc.convert(Function(torch.relu), (image,), dynamic_shapes=shapes)

    assert error.value.hint is not None and "max=" in error.value.hint


@pytest.mark.parametrize(
    "options, message, hint",
    [
        ({"target": "iOS3"}, "no target 'iOS3'", "iOS15"),
        ({"precision": "int8"}, "no precision 'int8'", "float32, float16"),
        ({"example_inputs": None}, "needs example_inputs", "padc.convert"),
        ({"example_inputs": X}, "example_inputs is a Tensor", "tuple"),
        ({"example_inputs": {"image": X}}, "example_inputs is a dict", "tuple"),
    ],
)
def test_usage(options: dict[str, object], message: str, hint: str, model: Padded):
    arguments = {"example_inputs": (X,)} | options

    with pytest.raises(padc.UsageError, match=message) as error:
        padc.convert(model, **arguments)  # pyright: ignore

    assert error.value.hint is not None and hint in error.value.hint


def test_exported_program_takes_no_inputs(program: padc.Program, image: Tensor):
    with pytest.raises(padc.UsageError, match="has its inputs"):
        padc.convert(program.exported, (image,))


@pytest.mark.parametrize(
    "name, message",
    [
        ("m.onnx", "ends in .mlpackage"),
        ("missing/m.mlpackage", "no folder"),
        ("file.mlpackage", "not a package"),
    ],
)
def test_save_to_where_it_cannot(
    name: str, message: str, program: padc.Program, tmp_path: Path
):
    (tmp_path / "file.mlpackage").write_text("something")

    with pytest.raises(padc.UsageError, match=message):
        program.save(tmp_path / name)

    assert [path.name for path in tmp_path.iterdir()] == ["file.mlpackage"]
    assert (tmp_path / "file.mlpackage").read_text() == "something"


def test_names_of_the_package():
    for name in padc.__all__:
        assert getattr(padc, name) is not None
    with pytest.raises(AttributeError, match="'frobnicate'"):
        padc.frobnicate  # pyright: ignore


# --- how outputs are compared -------------------------------------------------------

INF, NAN = float("inf"), float("nan")


@pytest.mark.parametrize(
    "actual, expected, max_error, relative_error",
    [
        ([1.0, 2.0], [1.0, 2.0], 0, 0),
        ([1.0, 2.5], [1.0, 3.0], 0.5, 0.25),
        ([-1.0, -3.5], [-1.0, -3.0], 0.5, 0.25),
        ([], [], 0, 0),
        # Other shapes.
        ([1.0], [1.0, 2.0], INF, INF),
        ([[1.0]], [1.0], INF, INF),
        ([1.0], 1.0, 0, 0),
        ([1.0, 1.0], 1.0, INF, INF),
        # Without a range, relative to the magnitude.
        ([2.0, 2.5], [2.0, 2.0], 0.5, 0.25),
        ([-2.5], -2.0, 0.5, 0.25),
        ([0.5, 0.0], [0.0, 0.0], 0.5, 0.5),
        # Values that are not finite.
        ([NAN, 1.0], [NAN, 1.0], 0, 0),
        ([NAN, 1.0], [0.0, 1.0], INF, INF),
        ([0.0, 1.0], [NAN, 1.0], INF, INF),
        ([INF, -INF, 1.0], [INF, -INF, 1.0], 0, 0),
        ([-INF, 1.0], [INF, 1.0], INF, INF),
        ([3e38, 1.0], [INF, 1.0], INF, INF),
        ([INF, 2.0, 3.5], [INF, 2.0, 4.0], 0.5, 0.25),
        ([NAN, INF], [NAN, INF], 0, 0),
        # Integers and bools.
        ([1, 2], [1, 2], 0, 0),
        ([1, 2], [1, 3], INF, INF),
        ([1, 0], [True, False], 0, 0),
        ([1.0, 0.0], [True, True], INF, INF),
        ([2.0, 0.0], [True, False], INF, INF),
    ],
)
def test_compare(
    actual: list[float], expected: list[float], max_error: float, relative_error: float
):
    comparison = compare("y", torch.tensor(actual), torch.tensor(expected))

    assert comparison == padc.Comparison("y", max_error, relative_error)
