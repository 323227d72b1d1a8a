"""Saving an emitted program, and what happens to files already at its path."""

import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import coremltools as ct
import numpy as np
import pytest
import torch
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

import padc
from padc.backends.coreml import replacing, save
from padc.backends.coreml.emit import emit
from padc.backends.coreml.evaluator import load
from padc.backends.coreml.optimize import optimize
from padc.backends.coreml.save import check_writable, save_package
from padc.errors import UsageError
from padc.ir.weights import weights_of

RELU = """
func.func @main(%x : tensor<2xf32> {padc.name = "x"}) -> (tensor<2xf32> {padc.name = "y"}) {
  %y = mil.relu(x = %x) : (tensor<2xf32>) -> tensor<2xf32>
  func.return %y : tensor<2xf32>
}
"""


@pytest.fixture
def program(parse: Callable[[str], ModuleOp], ctx: Context) -> Callable[[str], Any]:
    def program(source: str = RELU) -> Any:
        return emit(parse(source), weights_of(ctx), "iOS17")

    return program


def op_types(program: Any) -> list[str]:
    ops = program.functions["main"].operations
    return [op.op_type for op in ops if op.op_type != "const"]


def test_a_package_that_coremltools_reads(program: Callable[..., Any], tmp_path: Path):
    save_package(program(), tmp_path / "model.mlpackage")

    spec = ct.models.MLModel(
        str(tmp_path / "model.mlpackage"), skip_model_load=True
    ).get_spec()
    assert spec.specificationVersion == 8
    assert [f.name for f in spec.description.input] == ["x"]
    assert [f.name for f in spec.description.output] == ["y"]


def test_saving_twice(program: Callable[..., Any], tmp_path: Path):
    relu = program()
    optimize(relu)

    for name in ("one.mlpackage", "two.mlpackage"):
        save_package(relu, tmp_path / name)

        outputs = load(tmp_path / name).predict({"x": np.array([-1, 2], np.float32)})
        np.testing.assert_array_equal(outputs["y"], [0, 2])
    assert len(list(tmp_path.iterdir())) == 2


def test_an_existing_package_is_replaced(program: Callable[..., Any], tmp_path: Path):
    path = tmp_path / "model.mlpackage"
    save_package(program(), path)
    (path / "stale").touch()

    save_package(program(), path)

    assert not (path / "stale").exists()
    assert [file.name for file in tmp_path.iterdir()] == ["model.mlpackage"]


@pytest.mark.parametrize("existing", [False, True])
def test_a_failure_leaves_what_was_there(
    existing: bool,
    program: Callable[..., Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    path = tmp_path / "model.mlpackage"
    if existing:
        save_package(program(), path)
    before = sorted(tmp_path.rglob("*"))

    def fail(*args: Any, **kwargs: Any):
        raise MemoryError

    monkeypatch.setattr(save.json, "dumps", fail)
    with pytest.raises(MemoryError):
        save_package(program(), path)

    assert sorted(tmp_path.rglob("*")) == before


def test_a_failing_rename_puts_the_old_package_back(
    program: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = tmp_path / "model.mlpackage"
    save_package(program(), path)
    before = sorted(tmp_path.rglob("*"))
    rename = Path.rename

    def fail_for_new(self: Path, target: Path) -> Path:
        if self.name == "new":
            raise OSError(28, "No space left on device")
        return rename(self, target)

    monkeypatch.setattr(replacing, "exchanged", lambda new, path: False)
    monkeypatch.setattr(Path, "rename", fail_for_new)
    with pytest.raises(UsageError, match="No space left on device"):
        save_package(program(), path)

    assert sorted(tmp_path.rglob("*")) == before


def test_a_full_disk(tmp_path: Path):
    """Files may have 64 KiB, and the weights have more."""
    path = tmp_path / "model.mlpackage"
    padc.convert(torch.nn.ReLU(), (torch.ones(2),)).save(path)
    before = {p: p.read_bytes() for p in path.rglob("*") if p.is_file()}
    large = padc.convert(torch.nn.Linear(256, 256), (torch.ones(1, 256),))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    resource.setrlimit(resource.RLIMIT_FSIZE, (2**16, limits[1]))
    try:
        with pytest.raises(UsageError, match=r"cannot write to .*the disk may be full"):
            large.save(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    after = {p: p.read_bytes() for p in path.rglob("*") if p.is_file()}
    assert before == after
    assert [path.name for path in tmp_path.iterdir()] == ["model.mlpackage"]


KILLED = """
import os, sys
from pathlib import Path
from padc.backends.coreml import replacing

path = Path(sys.argv[1])
if sys.argv[2] == "between renames":
    replacing.exchanged = lambda new, path: False
    Path.rename = lambda self, to: (os.rename(self, to), os.kill(os.getpid(), 9))
with replacing.replacing(path) as new:
    (new / "Manifest.json").write_text("new")
    if sys.argv[2] == "while writing":
        os.kill(os.getpid(), 9)
os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("moment", ["while writing", "between renames", "at the end"])
def test_a_save_that_is_killed(
    moment: str, program: Callable[..., Any], tmp_path: Path
):
    path = tmp_path / "model.mlpackage"
    path.mkdir()
    (path / "Manifest.json").write_text("old")

    subprocess.run([sys.executable, "-c", KILLED, path, moment], check=False)

    litter = [each for each in tmp_path.iterdir() if each != path]
    assert len(litter) == (moment != "at the end")
    if moment == "between renames":
        assert not path.exists()  # Where two folders cannot be exchanged in one step.
    else:
        expected = "new" if moment == "at the end" else "old"
        assert (path / "Manifest.json").read_text() == expected
    with replacing.replacing(path) as new:
        assert (path / "Manifest.json").read_text() in ("old", "new")
        (new / "Manifest.json").write_text("newest")
    assert (path / "Manifest.json").read_text() == "newest"
    assert list(tmp_path.iterdir()) == [path]


def test_folders_of_others_stay(tmp_path: Path):
    path = tmp_path / "model.mlpackage"
    for name in ("original", "abcd1234"):
        (tmp_path / f".model.mlpackage.{name}" / "mine").mkdir(parents=True)

    with replacing.replacing(path) as new:
        (new / "Manifest.json").write_text("new")

    assert len(list(tmp_path.iterdir())) == 3


def test_two_saves_at_once(tmp_path: Path):
    path = tmp_path / "model.mlpackage"
    with replacing.replacing(path) as first:
        (first / "Manifest.json").write_text("first")
        with replacing.replacing(path) as second:
            (second / "Manifest.json").write_text("second")
        assert (first / "Manifest.json").exists()

    assert (path / "Manifest.json").read_text() == "first"
    assert list(tmp_path.iterdir()) == [path]


def test_paths_that_cannot_be_written(tmp_path: Path):
    (tmp_path / "notes.mlpackage").mkdir()
    (tmp_path / "file.mlpackage").touch()

    check_writable(tmp_path / "model.mlpackage")
    for name, message in {
        "model.mlmodel": "the name of a package ends in .mlpackage",
        "absent/model.mlpackage": "there is no folder",
        "file.mlpackage/model.mlpackage": "file.mlpackage is no folder",
        "notes.mlpackage": "not a package of Core ML",
        "file.mlpackage": "not a package of Core ML",
    }.items():
        with pytest.raises(UsageError, match=message):
            check_writable(tmp_path / name)


def test_unknown_precision(program: Callable[..., Any]):
    with pytest.raises(UsageError, match="there is no precision 'float8'"):
        optimize(program(), "float8")


def test_normalization_is_folded_into_a_convolution(program: Callable[..., Any]):
    conv = program(
        """
        func.func @main(%x : tensor<1x1x4x4xf32>, %s : tensor<1x1x4x4xf32>) -> tensor<1x1x4x4xf32> {
          %0 = mil.conv(x = %x, weight = dense<2.0> : tensor<1x1x1x1xf32>) : (tensor<1x1x4x4xf32>) -> tensor<1x1x4x4xf32>
          %1 = mil.batch_norm(x = %0, mean = [0.5], variance = [2.0], gamma = [3.0], beta = [1.0]) : (tensor<1x1x4x4xf32>) -> tensor<1x1x4x4xf32>
          %2 = mil.transpose(x = %1, perm = [0, 1, 3, 2]) : (tensor<1x1x4x4xf32>) -> tensor<1x1x4x4xf32>
          %3 = mil.relu(x = %2) : (tensor<1x1x4x4xf32>) -> tensor<1x1x4x4xf32>
          %4 = mil.transpose(x = %3, perm = [0, 1, 3, 2]) : (tensor<1x1x4x4xf32>) -> tensor<1x1x4x4xf32>
          %5 = mil.cast(x = %4, dtype = "fp32") : (tensor<1x1x4x4xf32>) -> tensor<1x1x4x4xf32>
          %6 = mil.add(x = %5, y = %s) : (tensor<1x1x4x4xf32>, tensor<1x1x4x4xf32>) -> tensor<1x1x4x4xf32>
          func.return %6 : tensor<1x1x4x4xf32>
        }
        """
    )

    optimize(conv)

    assert op_types(conv) == ["conv", "relu", "add"]


# coremltools would join two pads that padc has split because Core ML needs it so.
def test_pads_stay_apart(program: Callable[..., Any]):
    pads = program(
        """
        func.func @main(%x : tensor<1x1x4x4xf32>) -> tensor<1x1x6x6xf32> {
          %0 = mil.pad(x = %x, pad = [0, 0, 0, 0, 0, 0, 1, 1], mode = "reflect") : (tensor<1x1x4x4xf32>) -> tensor<1x1x4x6xf32>
          %1 = mil.pad(x = %0, pad = [0, 0, 0, 0, 1, 1, 0, 0], mode = "reflect") : (tensor<1x1x4x6xf32>) -> tensor<1x1x6x6xf32>
          func.return %1 : tensor<1x1x6x6xf32>
        }
        """
    )

    optimize(pads)

    assert op_types(pads) == ["pad", "pad"]


def test_float16_computes_in_float16_and_keeps_the_interface(
    program: Callable[..., Any],
):
    relu = program()

    optimize(relu, "float16")

    assert op_types(relu) == ["cast", "relu", "cast"]
    main = relu.functions["main"]
    assert str(main.inputs["x"].dtype) == str(main.outputs[0].dtype)
