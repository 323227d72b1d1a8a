"""The demo: its table, and its exit code."""

import importlib
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import nn

import padc

NAME = "even kernels, same padding, ceil mode"

pytestmark = pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")


@pytest.fixture
def demo(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(Path(__file__).parents[2])
    return importlib.import_module("examples.demo")


def test_a_network_agrees(demo: ModuleType, tmp_path: Path):
    row, agrees = demo.convert_and_verify(NAME, tmp_path)

    cells = dict(zip(demo.COLUMNS, row, strict=True))
    assert agrees and cells[""] == "ok"
    assert (cells["layers"], cells["pads"], cells["folded"]) == ("36", "13", "12")
    assert float(cells["of range"]) <= 1e-4
    assert float(cells["native"]) <= 5e-5
    assert float(cells["strict"]) <= 1e-5


def small(seed: int) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    torch.manual_seed(seed)
    return nn.Conv2d(3, 4, 3).eval(), (torch.randn(1, 3, 8, 8),)


def test_exit_code_tells_of_a_wrong_package(
    demo: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.setattr(demo, "NETWORKS", {"small": lambda: small(0)})
    right = demo.main()
    other = padc.convert(*small(1))
    monkeypatch.setattr(padc, "convert", lambda *args, **options: other)

    wrong = demo.main()

    assert (right, wrong) == (0, 1)
    assert "WRONG" in capsys.readouterr().out


def test_exit_code_tells_of_wrong_machine_code(
    demo: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.setattr(demo, "NETWORKS", {"small": lambda: small(0)})
    other = padc.compile(*small(1))
    monkeypatch.setattr(padc, "compile", lambda model, precision: other)

    assert demo.main() == 1
    assert "WRONG" in capsys.readouterr().out


class Sorted(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.relu().sort(0).values


def test_a_network_in_parts_is_not_native(
    demo: ModuleType, capsys: pytest.CaptureFixture[str]
):
    x = torch.randn(3, 4)
    exported = torch.export.export(Sorted(), (x,))

    cell, agrees = demo.run_native("sorted", Sorted(), exported, "strict")

    assert (cell, agrees) == ("in parts", False)
    assert "not compiled: aten.sort" in capsys.readouterr().err
