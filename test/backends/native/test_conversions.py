# pyright: basic
"""Floats as integers: saturated, 0 for NaN. PyTorch leaves open what does not fit."""

import pytest
import torch
from functions import Function
from torch import nn

import padc

VALUES = [0.0, -0.0, 0.5, -0.99, 1.5, -2.75, 1e6, -16777216.0]
HUGE = [2.0**62, 2.0**63, -(2.0**63), -(2.0**64), 1e30, -1e30, torch.inf, -torch.inf]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_saturated_integers(dtype: torch.dtype):
    x = torch.tensor([*VALUES, *HUGE, torch.nan] * 3, dtype=dtype)
    compiled = padc.compile(Function(lambda x: x.to(torch.int64)), (x,))

    least, most = -(2**63), 2**63 - 1
    huge = [2**62, most, least, least, most, least, most, least]
    expected = [0, 0, 0, 0, 1, -2, 10**6, -(2**24), *huge, 0]
    assert compiled(x).tolist() == expected * 3


def test_integers_of_halves():
    x = torch.tensor([*VALUES[:6], torch.nan, torch.inf], dtype=torch.float16)
    compiled = padc.compile(Function(lambda x: x.to(torch.int64)), (x,))

    assert compiled(x).tolist() == [0, 0, 0, 0, 1, -2, 0, 2**63 - 1]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_thresholds_are_not_rounded_to_halves(dtype: torch.dtype):
    for threshold in (0.1, 0.3, 0.7):
        x = torch.full([3], threshold).to(dtype)
        model = nn.Threshold(threshold, 5.0)

        assert torch.equal(padc.compile(model, (x,))(x), model(x))
