# pyright: basic
"""The tool that writes the page of operators judges samples as PyTorch does."""

import pytest
import torch
from torch import Tensor

from padc.tools import update_operators
from padc.tools.update_operators import Sampled, aten_ops, cell, outcome, page

X = torch.tensor([-1.0, 0.0, 2.0])


def test_a_sample_that_is_right():
    sample = Sampled(torch.add, (X, 2), {"alpha": 3})

    assert outcome(sample) == ("right", "")


def test_a_sample_that_is_refused():
    kind, text = outcome(Sampled(lambda x: x.double(), (X,), {}))

    assert kind == "refused" and "float64" in text


def test_a_sample_that_torch_export_refuses():
    sample = Sampled(lambda x: x[1:] if x.sum() > 0 else x, (X,), {})

    assert outcome(sample)[0] == "not exported"


def test_a_sample_that_is_wrong(monkeypatch: pytest.MonkeyPatch):
    def compile_wrongly(program: torch.export.ExportedProgram):
        return lambda x: (x + 0.01,)

    monkeypatch.setattr(update_operators, "compile_for_coreml", compile_wrongly)

    assert outcome(Sampled(torch.relu, (X,), {}))[0] == "wrong"


def test_tensors_in_lists_are_arguments():
    def function(tensors: list[Tensor], dim: int) -> Tensor:
        return torch.cat(tensors, dim)

    sample = Sampled(function, ([X, X + 1], 0), {})

    assert len(sample.tensors) == 2 and outcome(sample) == ("right", "")


def test_the_page():
    ops = {op.name: op for op in aten_ops()}
    rows = {
        "relu": [("right", "")] * 2,
        "svd": [("right", ""), ("refused", "too hard")],
    }

    text = page(list(ops.values()), {**rows, "rand": [("not exported", "TypeError")]})

    assert cell(ops["convolution"].ways["Core ML"]) == "own"
    assert "| **relu** | own | own |" in text
    assert "| relu | 2 of 2 |  |" in text and "| svd | 1 of 2 | [1] |" in text
    assert "Of 2 operators 2 convert, and 0 give wrong results." in text


def test_other_types_are_counted():
    refused, right = [("refused", "too hard")], [("right", "")]
    rows = {"relu": right, "svd": refused, "sin": right, "cos": right}
    others = {
        torch.int64: {"relu": refused + right, "svd": refused, "sin": refused},
        torch.bool: {"relu": right, "cos": [("not exported", "TypeError")]},
    }

    text = page([], rows, others)

    assert "| int64 | 3 | 1 | 2 |" in text
    assert "Refused in int64, though not in float32: sin." in text
    assert "| bool | 1 | 1 | 0 |" in text
    assert "Refused in bool, though not in float32: none." in text
