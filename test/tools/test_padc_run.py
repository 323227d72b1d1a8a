# pyright: basic, reportMissingTypeStubs=false
"""`padc check` on a package; `padc run` on packages and models."""

import argparse
import importlib
import os
import struct
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import padc
from padc.backends.coreml import quiet
from padc.errors import InvalidProgramError, UsageError
from padc.tools import padc_check, padc_run

with quiet():
    import coremltools as ct


class Net(nn.Module):
    def forward(self, x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        return x.sum(-1) * n


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("package") / "net.mlpackage"
    inputs = torch.ones(2, 3), torch.ones(2, dtype=torch.int32)
    padc.convert(Net(), inputs).save(path)
    return str(path)


def run(command: Any, *arguments: str) -> None:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    command.run(parser.parse_args(arguments))


def test_what_is_printed_and_saved(
    package: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    x = np.array([[1, 2, 3], [4, 5, 7]], np.float32)
    np.savez(tmp_path / "in.npz", x=x, n=np.array([-1, 2], np.int32))
    saved = tmp_path / "out.npz"

    run(
        padc_run,
        package,
        "--inputs",
        str(tmp_path / "in.npz"),
        "--save-outputs",
        str(saved),
    )

    (name,) = np.load(saved)
    np.testing.assert_array_equal(np.load(saved)[name], [-6, 32])
    line = f"{name}: float32 (2,), min -6, max 32, mean 13\n"
    assert capsys.readouterr().out == line


def test_random_inputs(package: str, capsys: pytest.CaptureFixture[str]):
    for seed in ("0", "0", "1"):
        run(padc_run, package, "--inputs", f"random:{seed}")

    first, again, other = capsys.readouterr().out.splitlines()
    assert first == again != other


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--inputs", "random:x"], "the seed is a number"),
        (["--inputs", "nowhere.npz"], "there is no such file"),
        (["--inputs", __file__], "cannot be read"),
        (["--inputs", "random:0", "--save-outputs", "a.txt"], "must end in .npz"),
        (["--inputs", "random:0", "--save-outputs", "/no/a.npz"], "cannot write /no"),
        (["--inputs", "random:0", "--precision", "int"], "precision 'int' is not"),
        (["--inputs", "random:0", "--function", "other"], "no function 'other'"),
        (["--inputs", "random:0", "--threads", "2"], "--threads is for models"),
    ],
)
def test_arguments_that_do_not_fit(arguments: list[str], message: str, package: str):
    with pytest.raises(UsageError, match=message):
        run(padc_run, package, *arguments)


def test_inputs_are_not_needed_if_all_have_defaults(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = str(tmp_path / "gain.mlpackage")
    described: Any = ct.TensorType()
    described.default_value = np.array([3.0])
    model = nn.Hardtanh(-1, 2)
    padc.convert(model, (torch.ones(4),), inputs=[described]).save(path)

    run(padc_run, path)

    assert "float32 (4,), min 2, max 2" in capsys.readouterr().out


def test_inputs_are_needed_without_defaults(package: str, models: Any):
    for model in (package, "factories:net"):
        with pytest.raises(
            UsageError, match=r"the input '\w+' has no default"
        ) as raised:
            run(padc_run, model)
        assert "--inputs random:0" in str(raised.value)


@pytest.mark.parametrize("name", ["/dev/zero", "pipe", ""])
def test_inputs_that_have_no_end(package: str, tmp_path: Path, name: str):
    path = tmp_path / name
    if name == "pipe":
        os.mkfifo(path)

    with pytest.raises(UsageError, match="cannot be read: it is no regular file"):
        run(padc_run, package, "--inputs", str(path))


def test_one_array_without_a_name(package: str, tmp_path: Path):
    np.save(tmp_path / "x.npy", np.zeros(2))

    with pytest.raises(UsageError, match="it holds one array without a name"):
        run(padc_run, package, "--inputs", str(tmp_path / "x.npy"))


def test_arrays_that_need_more_memory_than_their_file(package: str, tmp_path: Path):
    path = tmp_path / "x.npz"
    huge = b"{'descr': '<f4', 'fortran_order': False, 'shape': (2000000000,)}\n"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(
            "x.npy", b"\x93NUMPY\1\0" + struct.pack("<H", len(huge)) + huge
        )
    with pytest.raises(UsageError, match=r"x.npy has 0 bytes, its header says float32"):
        run(padc_run, package, "--inputs", str(path))

    np.savez_compressed(path, x=np.zeros(2**26 + 1, np.float32))
    assert path.stat().st_size < 2**20
    with pytest.raises(
        UsageError, match=r"unpacks to 2684\d+ bytes, more than 268435456"
    ):
        run(padc_run, package, "--inputs", str(path))


def test_check_says_nothing_of_a_good_package(
    package: str, capsys: pytest.CaptureFixture[str]
):
    run(padc_check, package)

    assert capsys.readouterr().out == ""


def test_check_exits_with_1(package: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as exit_:
        run(padc_check, package, "--target", "iOS15")

    assert exit_.value.code == 1
    assert "target: function 'main': its opset CoreML7" in capsys.readouterr().out


def test_a_failed_write_leaves_what_was_there(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def fail(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    out = tmp_path / "out.npz"
    out.write_bytes(b"before")
    monkeypatch.setattr(np.lib.format, "write_array", fail)

    with pytest.raises(UsageError, match=r"cannot write .*No space left"):
        run(padc_run, package, "--inputs", "random:0", "--save-outputs", str(out))

    assert out.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [out]


def test_outputs_may_have_any_name(tmp_path: Path):
    # numpy.savez has a parameter `file`.
    outputs = {"file": np.ones(2), "label": "cat", "p": {"cat": 1.0}}

    padc_run.save(str(tmp_path / "out.npz"), outputs)

    with np.load(tmp_path / "out.npz") as saved:
        assert sorted(saved.files) == ["file", "label"]
        np.testing.assert_array_equal(saved["file"], outputs["file"])
        assert saved["label"] == "cat"


@pytest.mark.parametrize("command", ["run", "check"])
def test_a_folder_without_a_manifest(command: str, tmp_path: Path):
    arguments = ["--inputs", "random:0"] if command == "run" else []

    with pytest.raises(InvalidProgramError, match=r"has no Manifest\.json") as raised:
        run(padc_run if command == "run" else padc_check, str(tmp_path), *arguments)

    assert "name the folder that" in (raised.value.hint or "")


# --- models ---------------------------------------------------------------------------

MODELS = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 3, 3, padding=1, padding_mode="circular")

    def forward(self, image, scale):
        image = self.conv(image)
        return {"scaled": image * scale, "parts": (image.relu(), image > 0)}

def net():
    return Net(), (torch.randn(1, 2, 4, 4), torch.ones(()))

def plain():
    return Net()

class Half(nn.Module):
    def forward(self, x, n):
        return x + 1, n.cumsum(0)

def half():
    return Half(), (torch.ones(3, dtype=torch.bfloat16), torch.arange(3))
"""


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module that holds the factories above."""
    (tmp_path / "factories.py").write_text(MODELS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "factories", raising=False)
    return importlib.import_module("factories")


@pytest.mark.parametrize(
    "backend", [[], ["--backend", "native"], ["--backend", "reference"]]
)
@pytest.mark.parametrize("form", ["factory", "pt2"])
def test_a_model(backend: list[str], form: str, models: Any, tmp_path: Path):
    torch.manual_seed(0)
    model, inputs = models.net()
    name = "factories:net"
    if form == "pt2":
        name = str(tmp_path / "net.pt2")
        torch.export.save(torch.export.export(model, inputs), name)
    image, scale = torch.randn(1, 2, 4, 4), torch.tensor(2.0)
    np.savez(tmp_path / "in.npz", image=image, scale=scale)
    options = ["--inputs", str(tmp_path / "in.npz"), "--save-outputs"]

    run(padc_run, name, *options, str(tmp_path / "out.npz"), *backend)

    with torch.no_grad(), np.load(tmp_path / "out.npz") as saved:
        expected = model(image, scale)
        names = {"scaled": "scaled", "parts_0": "parts", "parts_1": "parts"}
        assert sorted(saved.files) == sorted(names)
        np.testing.assert_allclose(saved["scaled"], expected["scaled"], atol=1e-6)
        np.testing.assert_allclose(saved["parts_0"], expected["parts"][0], atol=1e-6)
        np.testing.assert_array_equal(saved["parts_1"], expected["parts"][1])


def test_sizes_of_inputs_that_are_described(
    models: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    np.savez(
        tmp_path / "in.npz",
        image=np.ones((1, 2, 7, 4), np.float32),
        scale=np.float32(2),
    )
    model = ["factories:plain", "--input", "scale::float32"]
    model += ["--input", "image:1x2x3..8x4:float32"]

    run(padc_run, *model, "--inputs", str(tmp_path / "in.npz"))
    run(padc_run, *model, "--inputs", "random:0")

    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("scaled: float32 (1, 3, 7, 4), min ")
    assert lines[3].startswith("scaled: float32 (1, 3, 3, 4), min ")


@pytest.mark.parametrize("backend", ["native", "reference"])
def test_bfloat16_is_float32_in_files(
    backend: str, models: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    np.savez(tmp_path / "in.npz", x=np.array([1, 2, 300.5], np.float32), n=np.arange(3))

    run(
        padc_run,
        "factories:half",
        "--backend",
        backend,
        "--inputs",
        str(tmp_path / "in.npz"),
    )

    first, second = capsys.readouterr().out.splitlines()
    assert first.endswith("float32 (3,), min 2, max 300, mean 101.667")
    assert second.endswith("int64 (3,), min 0, max 3, mean 1.33333")


@pytest.mark.parametrize("backend", ["native", "reference"])
@pytest.mark.parametrize(
    "arrays, message",
    [
        (
            {"image": np.ones((1, 2, 4, 4), np.float32)},
            "inputs missing: scale\n.*are image, scale",
        ),
        (
            {
                "image": np.ones((1, 2, 4, 4), np.float32),
                "scale": np.float32(1),
                "y": np.ones(1),
            },
            "inputs unknown: y",
        ),
        (
            {"image": np.ones((1, 2, 4, 4)), "scale": np.float32(1)},
            "'image' is float32, got float64",
        ),
        (
            {"image": np.ones((1, 2, 4), np.float32), "scale": np.float32(1)},
            r"'image' has to be torch.float32 of shape \[1, 2, 4, 4\], got .* \[1, 2, 4\]",
        ),
    ],
)
def test_arrays_that_do_not_fit(
    arrays: dict[str, Any], message: str, backend: str, models: Any, tmp_path: Path
):
    np.savez(tmp_path / "in.npz", **arrays)

    with pytest.raises(UsageError, match=message):
        run(
            padc_run,
            "factories:net",
            "--backend",
            backend,
            "--inputs",
            str(tmp_path / "in.npz"),
        )


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["factories:net", "--backend", "coreml"], "coreml cannot run a model"),
        (["factories:net", "--precision", "float32"], "no precision 'float32'"),
        (["factories:net", "--function", "f"], "--function is for packages"),
        (["factories:net", "--threads", "0"], "threads is 0"),
        (
            ["factories:net", "--threads", "1", "--backend", "reference"],
            "--threads is for the native backend",
        ),
        (
            ["factories:net", "--precision", "strict", "--backend", "reference"],
            "--precision is for the native backend",
        ),
        (["factories:plain"], "without example inputs"),
        (["factories:nothing"], "has no nothing"),
        (["no.pt2"], "there is no file no.pt2"),
        (["no.pt2", "--input", "x:1:float32"], "has its inputs already"),
    ],
)
def test_options_that_do_not_fit_a_model(
    arguments: list[str], message: str, models: Any
):
    with pytest.raises(UsageError, match=message):
        run(padc_run, *arguments, "--inputs", "random:0")


def test_a_package_is_core_mls(package: str):
    for backend in ("native", "reference"):
        with pytest.raises(
            UsageError, match=f"--backend {backend} cannot run"
        ) as raised:
            run(padc_run, package, "--inputs", "random:0", "--backend", backend)
        assert "a package is Core ML's" in (raised.value.hint or "")
    with pytest.raises(UsageError, match="--input is given"):
        run(padc_run, package, "--inputs", "random:0", "--input", "x:1:float32")
    run(padc_run, package, "--inputs", "random:0", "--backend", "coreml")


def test_a_program_saved_without_examples(models: Any, tmp_path: Path):
    rows = {"image": {2: torch.export.Dim("rows", min=3, max=9)}, "scale": None}
    exported = torch.export.export(*models.net(), dynamic_shapes=rows)
    exported.example_inputs = None
    path = str(tmp_path / "net.pt2")
    torch.export.save(exported, path)
    np.savez(
        tmp_path / "in.npz",
        image=np.ones((1, 2, 4, 4), np.float32),
        scale=np.float32(1),
    )

    run(padc_run, path, "--inputs", str(tmp_path / "in.npz"))
    with pytest.raises(UsageError, match="sizes of the input 'image' are dynamic"):
        run(padc_run, path, "--inputs", "random:0")
