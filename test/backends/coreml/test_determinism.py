"""The same model gives the same package, in any process, folder and year."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import padc

SCRIPT = """
import sys
sys.path.insert(0, "sources")
from deterministic_model import mixed
import padc

padc.convert(*mixed(), precision="float16", target="iOS18").save("m.mlpackage")
"""
# The messages that packages are read with live next to those of coremltools.
READ_BEFORE = """
import sys
from padc.backends.coreml.evaluator import load
load("given.mlpackage")
assert not any(name.startswith("coremltools") for name in sys.modules)
"""
READ_AFTER = """
assert "coremltools" in sys.modules
load("given.mlpackage")
load("m.mlpackage")
"""


def files(package: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(package)): file.read_bytes()
        for file in package.rglob("*")
        if file.is_file()
    }


def test_two_processes_in_two_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The process of its own also reads packages, without and with coremltools."""
    source = Path(__file__).with_name("deterministic_model.py")
    one, two = tmp_path / "one", tmp_path / "other" / "two"
    for folder in (one, two):
        (folder / "sources").mkdir(parents=True)
        shutil.copy(source, folder / "sources")
    padc.convert(nn.ReLU(), (torch.ones(2),)).save(one / "given.mlpackage")
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    subprocess.run(
        [sys.executable, "-c", READ_BEFORE + SCRIPT + READ_AFTER],
        cwd=one,
        env={**os.environ, "PYTHONHASHSEED": seed},
        check=True,
    )
    monkeypatch.chdir(two)
    monkeypatch.setattr(sys, "path", [*sys.path])
    exec(SCRIPT, {})

    first, second = files(one / "m.mlpackage"), files(two / "m.mlpackage")

    assert len(first) == 3
    assert first == second
    model = first["Data/com.apple.CoreML/model.mlmodel"]
    assert b'"deterministic_model.py:' in model
    for folder in (tmp_path, sys.prefix, Path(__file__).parents[3]):
        assert os.fsencode(folder) not in model
