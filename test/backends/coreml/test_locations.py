"""The file names that packages record."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import nn

import padc
from padc.backends.coreml.checker.check import read_locations
from padc.backends.coreml.evaluator.package import Package
from padc.backends.coreml.locations import relative_name


@pytest.mark.parametrize(
    "file, expected",
    {
        "/usr/lib/python3/site-packages/vision/net.py": "vision/net.py",
        "/a/dist-packages/b/site-packages/c.py": "c.py",
        "/site-packages": "site-packages",
        "/nowhere/else/net.py": "net.py",
        "C:\\Users\\me\\net.py": "net.py",
        "net.mlir": "net.mlir",
        "models/net.py": "models/net.py",
        "<string>": "<string>",
        "": "",
        __file__: "test/backends/coreml/test_locations.py",
    }.items(),
)
def test_relative_names(file: str, expected: str):
    assert relative_name(file) == expected


@pytest.fixture
def imported(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], str]:
    """Let a file be that of an imported module; returns its name."""

    def imported(path: Path) -> str:
        module = ModuleType(path.stem)
        module.__file__ = str(path)
        monkeypatch.setitem(sys.modules, f"{path.parent.name}_{path.stem}", module)
        return str(path)

    return imported


def test_the_nearest_project(tmp_path: Path, imported: Callable[[Path], str]):
    inner = tmp_path / "repository" / "packages" / "models"
    inner.mkdir(parents=True)
    (tmp_path / "repository" / ".git").mkdir()
    (inner / "pyproject.toml").touch()

    assert relative_name(imported(inner / "src" / "net.py")) == "src/net.py"
    assert relative_name(imported(inner.parent / "net.py")) == "packages/net.py"
    # What another process exported, which may be on another machine.
    assert relative_name(str(inner / "src" / "other.py")) == "other.py"


def test_below_sys_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, imported: Callable[[Path], str]
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", "lib", "/"])
    model, script = tmp_path / "lib" / "models" / "net.py", tmp_path / "scripts/run.py"

    assert relative_name(imported(model)) == "models/net.py"
    assert relative_name(imported(script)) == "scripts/run.py"
    assert relative_name(str(tmp_path / "other" / "run.py")) == "run.py"


class Rectifier(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.relu()


@pytest.fixture(scope="module")
def program() -> padc.Program:
    return padc.convert(Rectifier(), (torch.ones(2),))


@pytest.mark.parametrize(
    "policy, file",
    [("relative", "test/backends/coreml/test_locations.py"), ("absolute", __file__)],
)
def test_what_a_package_records(
    program: padc.Program,
    policy: padc.coreml.LocationsPolicy,
    file: str,
    tmp_path: Path,
):
    program.save(tmp_path / "m.mlpackage", locations=policy)

    (line,) = read_locations(
        Package(tmp_path / "m.mlpackage").spec.description
    ).values()
    assert line.file == file
    # Tests run in the folder of the project.
    assert line.text == "return x.relu()"


def test_no_locations(program: padc.Program, tmp_path: Path):
    program.save(tmp_path / "m.mlpackage", locations="off")

    metadata = Package(tmp_path / "m.mlpackage").spec.description.metadata.userDefined
    assert "padc.locations" not in metadata


def test_unknown_policies(program: padc.Program, tmp_path: Path):
    with pytest.raises(
        padc.UsageError, match="there is no policy for locations 'full'"
    ):
        program.save(tmp_path / "m.mlpackage", locations="full")  # pyright: ignore
    assert not [*tmp_path.iterdir()]


def test_a_refused_package_names_the_full_path(
    program: padc.Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    finding = padc.coreml.Finding("rank", "relu", "relu", "has rank 6", "Core ML")
    monkeypatch.setattr("padc.backends.coreml.save.check", lambda *_: [finding])

    with pytest.raises(padc.UnsupportedError) as caught:
        program.save(tmp_path / "m.mlpackage")

    (problem,) = caught.value.problems
    assert problem.location is not None
    assert os.path.samefile(problem.location.file, __file__)
    assert str(caught.value).count("at ") == 1
