# pyright: basic
"""`padc convert --function`: several functions in one package."""

import sys
from pathlib import Path

import pytest

import padc
from padc.tools.padc import main

NETS = """
import torch
from torch import nn

def net(size):
    torch.manual_seed(0)
    return nn.Conv2d(3, 64, 3), (torch.rand(1, 3, size, size),)

def small():
    return net(4)

def large():
    return net(6)
"""
BOTH = "--function small=function_nets:small --function large=function_nets:large"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.delitem(sys.modules, "function_nets", raising=False)
    (tmp_path / "function_nets.py").write_text(NETS)
    return tmp_path


def convert(options: str) -> object:
    with pytest.raises(SystemExit) as exit:
        main(["convert", *options.split(), "-o", "out.mlpackage"])
    return exit.value.code


def test_functions_share_weights(capsys: pytest.CaptureFixture[str]):
    assert convert(f"{BOTH} --target iOS18 --default-function large --verify") == 0

    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "function 'small':" and printed[2] == "function 'large':"
    assert "output 'conv2d' agrees with PyTorch" in printed[1]
    assert padc.coreml.load("out.mlpackage").inputs[0].shape == (1, 3, 6, 6)
    small = padc.coreml.load("out.mlpackage", function_name="small")
    assert small.inputs[0].shape == (1, 3, 4, 4)
    weights = Path("out.mlpackage/Data/com.apple.CoreML/weights/weight.bin")
    assert weights.stat().st_size < 1.3 * 4 * 64 * 3 * 9


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--target iOS18", "there is no model to convert"),
        (f"function_nets:small {BOTH}", "function_nets:small is given, and --function small="),
        ("function_nets:small --default-function small", "without --function"),
        ("--function function_nets:small", "is not NAME=MODEL"),
        ("--function a=n:x --function a=n:y", "given twice for 'a'"),
        (BOTH, "several functions need iOS18, got iOS"),
        (f"{BOTH} --target iOS18 --labels l.txt", "cannot read the class labels in l.txt"),
        (f"{BOTH} --target iOS18 --default-function other", "'other' is no function"),
        ("--function 1st=n:x --target iOS18", "cannot be named '1st'"),
    ],
)  # fmt: skip
def test_options_that_do_not_fit(
    options: str, message: str, capsys: pytest.CaptureFixture[str]
):
    assert convert(options) == 2

    assert message in capsys.readouterr().err
    assert [path.name for path in Path().iterdir()] == ["function_nets.py"]
