"""`padc convert` and `padc verify`, mostly in process: what they print and exit with."""

import subprocess
import sys
from collections.abc import Callable, Generator
from dataclasses import dataclass
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

MODELS = """
import torch
from torch import nn
from torch.nn import functional as F


class Good(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1, padding_mode="replicate")

    def forward(self, image, scale):
        return {"features": F.relu(self.conv(image)) * scale}


class Call(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


class Two(nn.Module):
    def forward(self, x):
        q = torch.linalg.svd(x).U  # the first line
        return q + torch.igamma(x, x)  # the second line


class Pad(nn.Module):
    def forward(self, x):
        return F.pad(x, (1, 1))  # the pad


class PadReshaped(nn.Module):
    def forward(self, x):
        x = x.reshape(1, 2, 1, 1, 1, 3)
        return F.pad(x, (1, 1))  # the pad of rank 6


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x):
        self.count += 1  # the line that counts
        return x + self.count


class InPlace(nn.Module):
    def forward(self, x):
        x.add_(1)  # the line that changes
        return x * 2


class Branch(nn.Module):
    def forward(self, x):
        if x.sum() > 0:  # the line that branches
            return x
        return -x


X = torch.ones(2, 3)


def good():
    return Good(), (torch.randn(1, 3, 8, 8), torch.ones(()))


def good_without_inputs():
    return Good()


def wide():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(48, 48), nn.Softmax(-1)), (torch.randn(2, 48),)


def other():
    return Call(lambda x: x * 2), (torch.randn(1, 3, 8, 8),)


def tripled():
    return Call(lambda x: x * 3), (torch.randn(1, 3, 8, 8),)


def two():
    return Two(), (torch.ones(3, 3),)


def float64():
    return Pad(), (X.double(),)


def rank6():
    return Pad(), (torch.ones(1, 2, 1, 2, 3, 4),)


def rank6_inside():
    return PadReshaped(), (X,)


def counter():
    return Counter(), (X,)


def in_place():
    return InPlace(), (X,)


def branch():
    return Branch(), (X,)


def fails():
    raise RuntimeError("no weights today")  # the line that fails


def number():
    return 3


def numbers():
    return 3, 4, 5


not_a_function = 3
"""


@dataclass
class Outcome:
    exit_code: int
    out: str
    err: str


Padc = Callable[..., Outcome]


@pytest.fixture
def padc(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Generator[Padc]:
    """Run the command line in an empty folder that holds `models.py`."""
    (tmp_path / "models.py").write_text(MODELS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.delitem(sys.modules, "models", raising=False)
    random_state = torch.get_rng_state()

    def padc(*arguments: object) -> Outcome:
        with pytest.raises(SystemExit) as exit:
            main(list(map(str, arguments)))
        out, err = capsys.readouterr()
        assert isinstance(exit.value.code, int)
        assert "Traceback" not in out + err
        return Outcome(exit.value.code, out, err)

    yield padc
    torch.set_rng_state(random_state)
    sys.modules.pop("models", None)


def files() -> set[str]:
    return {path.name for path in Path().iterdir()} - {"models.py"}


def check_refused(
    outcome: Outcome, exit_code: int, *mentioned: str, left: set[str] | None = None
) -> None:
    """The error says what it must, and no file was left."""
    assert outcome.exit_code == exit_code, outcome.err
    assert outcome.out == ""
    for part in mentioned:
        assert part in outcome.err
    assert files() == (left or set())


# --- what works ------------------------------------------------------------------


def test_convert_and_verify_a_factory(padc: Padc):
    converted = padc("convert", "models:good", "-o", "m.mlpackage", "--verify")
    verified = padc("verify", "models:good", "m.mlpackage")

    assert (converted.exit_code, converted.err) == (0, "")
    assert converted.out == verified.out
    assert files() == {"m.mlpackage"}
    package = load("m.mlpackage")
    assert [feature.name for feature in package.inputs] == ["image", "scale"]
    assert [feature.name for feature in package.outputs] == ["features"]
    # The weights are random, and those of `convert`.
    assert verified.exit_code == 0, verified.err
    assert "output 'features' agrees with PyTorch: max error " in verified.out


def test_convert_and_verify_a_file(padc: Padc):
    padc("convert", "models:good", "-o", "m.mlpackage")  # loads the module
    module, inputs = sys.modules["models"].good()
    torch.export.save(torch.export.export(module, inputs), "m.pt2")

    converted = padc("convert", "m.pt2", "-o", "m.mlpackage", "--target", "iOS15")
    verified = padc("verify", "m.pt2", "m.mlpackage")

    assert converted.exit_code == 0, converted.err
    assert verified.exit_code == 0, verified.err
    spec: Any = ct.utils.load_spec("m.mlpackage")
    assert spec.specificationVersion == ct.target.iOS15.value


def test_convert_with_float16(padc: Padc):
    converted = padc(
        "convert", "models:good", "-o", "m.mlpackage", "--precision", "float16"
    )
    as_float16 = padc("verify", "models:good", "m.mlpackage", "--precision", "float16")
    as_float32 = padc("verify", "models:good", "m.mlpackage")

    assert converted.exit_code == 0, converted.err
    assert as_float16.exit_code == 0, as_float16.err
    assert as_float32.exit_code == 1
    assert "'features' is off by" in as_float32.err and "0.0001" in as_float32.err


def test_convert_with_compressed_weights(padc: Padc):
    converted = padc(
        *("convert", "models:wide", "-o", "m.mlpackage", "--precision", "float16"),
        *("--compress", "palette4", "--keep-float32", "softmax,0"),
        *("--locations", "off", "--report", "--verify"),
    )

    assert converted.exit_code == 0, converted.err
    # The report comes first: it is the help where verification fails.
    *report, last = converted.out.splitlines()
    assert last.startswith(
        "output 'softmax' differs from PyTorch by palette4: max error "
    )
    assert report[0].startswith("output 'softmax' in float16: max error ")
    assert report[-1] == "float16 is within 0.01 of the range: nothing to keep"
    spec: Any = ct.utils.load_spec("m.mlpackage")
    assert "padc.locations" not in spec.description.metadata.userDefined
    assert padc("verify", "models:wide", "m.mlpackage").exit_code == 1
    tolerant = padc("verify", "models:wide", "m.mlpackage", "--tolerance", "0.5")
    assert tolerant.exit_code == 0, tolerant.err


def test_convert_with_inputs(padc: Padc):
    inputs = (
        *("--input", "scale::float32"),
        *("--input", "image:1x3x6..16x8:float32"),
    )

    converted = padc(
        "convert", "models:good_without_inputs", "-o", "m.mlpackage", *inputs
    )
    verified = padc("verify", "models:good_without_inputs", "m.mlpackage", *inputs)

    assert converted.exit_code == 0, converted.err
    assert verified.exit_code == 0, verified.err
    image, scale = load("m.mlpackage").inputs
    assert (image.name, scale.name) == ("image", "scale")


def test_print_ir_after_all(padc: Padc):
    outcome = padc(
        "convert", "models:good", "-o", "m.mlpackage", "--print-ir-after-all"
    )

    assert outcome.exit_code == 0
    parts = outcome.err.split("// IR after ")[1:]
    assert [part.splitlines()[0] for part in parts] == [
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
    ]
    assert all(part.splitlines()[1] == "builtin.module {" for part in parts)
    for part, op in zip(
        (parts[0], parts[5], parts[-1]), ("torch.aten.pad", "tcp.replic", "mil.conv")
    ):
        assert op in part


def test_buffers_that_a_model_changes(padc: Padc):
    options = ("--target", "iOS18", "-o", "m.mlpackage")

    native = padc("convert", "models:counter", *options, "--states", "native")
    check_refused(
        native, 3, "buffer 'count' cannot be a state", "# the line that counts"
    )

    half = ("--precision", "float16", "--states", "native", "--verify")
    outcome = padc("convert", "models:counter", *options, *half)

    assert "\nbuffer count agrees with PyTorch: " in outcome.out, outcome.err
    assert [state.name for state in load("m.mlpackage").states] == ["count"]
    verified = padc("verify", "models:counter", "m.mlpackage", *half[:2])
    assert verified.exit_code == 0, verified.err

    outcome = padc("convert", "models:counter", *options, "--states", "inputs")

    assert [x.name for x in load("m.mlpackage").inputs] == ["x", "count"]
    assert [x.name for x in load("m.mlpackage").outputs] == ["add", "count_out"]
    run = padc("run", "m.mlpackage", "--inputs", "random:0")
    assert run.out.splitlines()[1] == "count_out: float32 (), min 1, max 1, mean 1"
    for model in ("good", "other"):
        verified = padc("verify", f"models:{model}", "m.mlpackage")
        assert verified.exit_code == 2 and "buffer 'count'" in verified.err


def test_replaces_a_package(padc: Padc):
    padc("convert", "models:other", "-o", "m.mlpackage")

    outcome = padc("convert", "models:good", "-o", "m.mlpackage")

    assert outcome.exit_code == 0, outcome.err
    assert files() == {"m.mlpackage"}
    assert padc("verify", "models:good", "m.mlpackage").exit_code == 0


def test_as_a_process(tmp_path: Path):
    """Commands that import more are tested without a process of their own."""
    padc = Path(sys.executable).parent / "padc"

    bad = subprocess.run(
        [padc, "check", "n.mlpackage"], cwd=tmp_path, capture_output=True, text=True
    )

    assert (bad.returncode, bad.stdout) == (2, "")
    assert "n.mlpackage" in bad.stderr and "Traceback" not in bad.stderr
    assert not [*tmp_path.iterdir()]


def test_help(padc: Padc):
    outcome = padc("--help")

    assert outcome.exit_code == 0 and "exit codes: 0 success" in outcome.out


# --- models that cannot be converted -----------------------------------------------

UNSUPPORTED: dict[str, list[str]] = {
    "two": [
        "2 unsupported parts",
        "aten.linalg_svd of float32[3,3]",
        "q = torch.linalg.svd(x).U  # the first line",
        "aten.igamma of float32[3,3], float32[3,3]",
        "return q + torch.igamma(x, x)  # the second line",
    ],
    "float64": ["float64", "# the pad"],
    "rank6": ["rank 5", "input x: float32[1,2,1,2,3,4]", "# the pad"],
    "rank6_inside": [
        "rank 5",
        "output pad: float32[1,2,1,1,1,5]",
        "# the pad of rank 6",
    ],
    "in_place": ["input 'x' in place", "# the line that changes", "hint: "],
    "branch": ["# the line that branches", "data-dependent", "hint: "],
}


@pytest.mark.parametrize("model", UNSUPPORTED)
def test_unsupported(model: str, padc: Padc, tmp_path: Path):
    outcome = padc("convert", f"models:{model}", "-o", "m.mlpackage")

    check_refused(outcome, 3, f"{tmp_path / 'models.py'}:", *UNSUPPORTED[model])


# --- arguments that cannot be used ---------------------------------------------------

CONVERT = "convert models:good -o m.mlpackage"

USAGE: dict[str, list[str]] = {
    "convert models:good": ["-o"],
    "frobnicate": ["frobnicate", "convert"],
    f"{CONVERT} --target iOS3": ["'iOS3'", "iOS15, iOS16"],
    f"{CONVERT} --precision int8": ["'int8'", "float32, float16"],
    f"{CONVERT} --compress int3": ["no compression 'int3'", "int8, int4, palette1"],
    f"{CONVERT} --compress int4 --target iOS17": ["that needs iOS18"],
    f"{CONVERT} --keep-float32 norms": ["keep_float32 is given", "float16"],
    f"{CONVERT} --locations full": ["'full'", "relative, absolute, off"],
    f"{CONVERT} --pad-policy all": ["'all'", "auto, native, decompose"],
    "verify models:good m.mlpackage --precision int8": ["'int8'", "float32, float16"],
    # The model.
    "convert missing.pt2 -o m.mlpackage": ["missing.pt2"],
    "convert models -o m.mlpackage": ["models is neither a .pt2", "module:factory"],
    "convert models.pth -o m.mlpackage": ["neither a .pt2 nor a .mlir", "export.save"],
    "convert missing:model -o m.mlpackage": ["no module missing", "run padc from"],
    "convert models.missing:model -o m.mlpackage": ["no module models.missing"],
    "convert models:missing -o m.mlpackage": ["models has no missing"],
    "convert models:not_a_function -o m.mlpackage": ["is not a function but int"],
    "convert models:fails -o m.mlpackage": [
        "models:fails failed: RuntimeError: no weights today",
        "models.py:",
        "# the line that fails",
    ],
    "convert models:number -o m.mlpackage": ["returned int", "hint: return a torch"],
    "convert models:numbers -o m.mlpackage": ["returned (int, int, int)", "hint: "],
    "convert models:good_without_inputs -o m.mlpackage": ["--input NAME:SHAPE:DTYPE"],
    # Inputs.
    f"{CONVERT} --input image:1x3": ["image:1x3 ", "NAME:SHAPE:DTYPE"],
    f"{CONVERT} --input image:1xa:float32": ["image:1xa:float32", "such as image:"],
    f"{CONVERT} --input image:1x3:float33": ["image:1x3:float33", "such as image:"],
    f"{CONVERT} --input image:8..4:float32": ["image:8..4:float32", "smallest"],
    f"{CONVERT} --input picture:1x3:float32": ["picture", "inputs are image, scale"],
    f"{CONVERT} --input image:1:float32 --input image:1:float32": [
        "image, image",
        "inputs are image, scale, each to be given once",
    ],
    f"{CONVERT} --input image:1x3..5x8x8:float32 --input scale::float32": [
        "dynamic shapes",
        "image_1",
    ],
    # The package.
    "convert models:good -o m.foo": ["m.foo", ".mlpackage", "write to m.mlpackage"],
    "convert models:good -o no/m.mlpackage": ["no/m.mlpackage", "no folder no"],
    "verify models:good missing.mlpackage": ["missing.mlpackage"],
}


@pytest.mark.parametrize("arguments", USAGE)
def test_usage(arguments: str, padc: Padc):
    check_refused(padc(*arguments.split()), 2, *USAGE[arguments])


@pytest.mark.parametrize(
    "inputs", ["image:1x4x8x8:float32", "image:3x8:float32", "image:1x3x8x8:int32"]
)
def test_inputs_that_the_model_does_not_take(inputs: str, padc: Padc):
    outcome = padc(*CONVERT.split(), "--input", inputs, "--input", "scale::float32")

    check_refused(outcome, 2, "self.conv(image)", "models.py:", "hint: ")


def test_inputs_of_a_file(padc: Padc):
    Path("m.pt2").touch()

    outcome = padc("convert", "m.pt2", "-o", "m.mlpackage", "--input", "x:1:float32")

    check_refused(outcome, 2, "--input", "m.pt2", "pkg.module:factory", left={"m.pt2"})


@pytest.mark.parametrize("make", [Path.touch, Path.mkdir])
def test_output_that_is_no_package_stays(make: Callable[[Path], None], padc: Padc):
    make(Path("m.mlpackage"))

    outcome = padc(*CONVERT.split())

    check_refused(outcome, 2, "not a package", "hint: ", left={"m.mlpackage"})


def test_module_with_an_error(padc: Padc):
    Path("broken.py").write_text("def model(:  # broken\n")
    Path("raises.py").write_text("value = [][0]  # raises\n")

    for name in "broken", "raises":
        outcome = padc("convert", f"{name}:model", "-o", "m.mlpackage")
        check_refused(
            outcome,
            2,
            f"importing {name} failed",
            f"{name}.py:1",
            f"# {name}",
            left={"broken.py", "raises.py"},
        )


def test_damaged_file(padc: Padc):
    Path("m.pt2").write_bytes(b"PK\x03\x04 and no more")

    for command in (
        ("convert", "m.pt2", "-o", "m.mlpackage"),
        ("verify", "m.pt2", "m.mlpackage"),
    ):
        outcome = padc(*command)
        check_refused(outcome, 4, "m.pt2", "torch.export.save", left={"m.pt2"})


# --- packages that are not the model's -----------------------------------------------


def test_wrong_packages(padc: Padc):
    padc("convert", "models:other", "-o", "other.mlpackage")
    other = {"other.mlpackage"}

    wrong = padc("verify", "models:tripled", "other.mlpackage")
    inputs = padc("verify", "models:good", "other.mlpackage")
    Path("other.mlpackage/Data/com.apple.CoreML/model.mlmodel").write_bytes(b"damaged")
    damaged = padc("verify", "models:other", "other.mlpackage")
    Path("other.mlpackage/Manifest.json").unlink()
    no_package = padc("verify", "models:other", "other.mlpackage")

    check_refused(wrong, 1, "mul", "of its range", "allowed is 0.0001", left=other)
    check_refused(inputs, 2, "1 input", "2", left=other)
    check_refused(damaged, 4, "model.mlmodel", left=other)
    check_refused(no_package, 4, "Manifest.json", left=other)


# --- the environment, and our own mistakes --------------------------------------------


@pytest.mark.parametrize("package", ["coremltools", "torch"])
def test_missing_package(package: str, tmp_path: Path):
    (tmp_path / "models.py").write_text(MODELS)
    program = (
        f"import sys; sys.modules['{package}'] = None;"
        f"from padc.tools.padc import main; main('{CONVERT}'.split())"
    )

    result = subprocess.run(
        [sys.executable, "-B", "-c", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )

    assert result.returncode == 5, result.stderr
    assert "Traceback" not in result.stderr
    assert f"needs the package {package}" in result.stderr
    assert "pip install 'padc[coreml]'" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["models.py"]


def test_package_that_a_model_misses(padc: Padc):
    Path("needy.py").write_text("import frobnicate\n")

    outcome = padc("convert", "needy:model", "-o", "m.mlpackage")

    check_refused(outcome, 5, "needy needs the package frobnicate", left={"needy.py"})


def test_internal_error(padc: Padc, monkeypatch: pytest.MonkeyPatch):
    def emit(*arguments: object) -> None:
        raise AssertionError("a mistake of ours")

    monkeypatch.setattr("padc.backends.coreml.emit.emit", emit)
    monkeypatch.delenv("PADC_DEBUG", raising=False)

    outcome = padc(*CONVERT.split())

    check_refused(outcome, 70, "AssertionError: a mistake of ours", "PADC_DEBUG=1")


def out_of_numpys_memory() -> None:
    np.empty(2**58)


def out_of_pytorchs_memory() -> None:
    torch.empty(2**58)


@pytest.mark.parametrize("fail", [out_of_numpys_memory, out_of_pytorchs_memory])
def test_no_memory(
    padc: Padc, fail: Callable[[], None], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("padc.backends.coreml.emit.emit", lambda *_: fail())

    check_refused(padc(*CONVERT.split()), 2, "not enough memory: ", "smaller inputs")


def test_failure_while_saving(padc: Padc, monkeypatch: pytest.MonkeyPatch):
    def fail(*arguments: object, **options: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("padc.backends.coreml.save.to_proto", fail)

    outcome = padc(*CONVERT.split())

    check_refused(outcome, 2, "m.mlpackage", "No space left on device")


def test_a_reader_may_stop_reading():
    result = subprocess.run(
        f"'{sys.executable}' -m padc --version | true; echo ${{PIPESTATUS[0]}}",
        shell=True,
        executable="/bin/bash",
        capture_output=True,
        text=True,
    )

    assert (result.stdout, result.stderr) == ("0\n", "")
