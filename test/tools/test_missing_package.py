"""Errors for packages that are not installed: which extra of padc to install."""

import importlib
import sys

import pytest

import padc
from padc import versions
from padc.tools.missing_package import missing_package
from padc.tools.padc import parser


@pytest.mark.parametrize(
    ("command", "extra"),
    [
        ("convert net.pt2 -o net.mlpackage", "coreml"),
        ("verify net.pt2 net.mlpackage", "torch"),
        ("run net.pt2", "native"),
        ("run net.pt2 --backend native", "native"),
        ("run net.pt2 --backend reference", "torch"),
        ("run net.mlir", "torch"),
        ("run net.mlir --backend native", "native"),
    ],
)
def test_pytorch_comes_with_the_extra_of_the_command(command: str, extra: str):
    arguments = parser().parse_args(command.split())
    error = ModuleNotFoundError(name="torch.export")

    missing = missing_package(error, arguments.needed_extra(arguments))

    assert "this needs the package torch" in str(missing)
    assert missing.hint == f"pip install 'padc[{extra}]'"


@pytest.mark.parametrize(
    ("module", "hint"),
    [
        ("coremltools.converters", "pip install 'padc[coreml]'"),
        ("llvmlite.ir", "pip install 'padc[native]'"),
        ("frobnicate.parts", "install it"),
    ],
)
def test_packages_have_one_extra(module: str, hint: str):
    missing = missing_package(ModuleNotFoundError(name=module), "torch")

    assert missing.hint == hint


@pytest.mark.parametrize(
    ("name", "extra"), [("convert", "coreml"), ("compile", "native")]
)
def test_the_api_names_the_extra_that_is_enough(
    name: str, extra: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(versions, "installed", lambda _: None)
    monkeypatch.setattr(padc, "require", versions.require.__wrapped__)

    with pytest.raises(padc.MissingEnvironmentError) as raised:
        padc.__getattr__(name)

    assert raised.value.hint == f"pip install 'padc[{extra}]'"


@pytest.mark.parametrize(
    ("module", "extra"), [("nn", "torch"), ("testing", "coreml"), ("dynamo", "native")]
)
def test_modules_name_the_extra_that_is_enough(
    module: str, extra: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(versions, "installed", lambda _: None)
    monkeypatch.setattr(versions, "require", versions.require.__wrapped__)
    monkeypatch.delitem(sys.modules, f"padc.{module}", raising=False)

    with pytest.raises(padc.MissingEnvironmentError) as raised:
        importlib.import_module(f"padc.{module}")

    assert raised.value.hint == f"pip install 'padc[{extra}]'"
