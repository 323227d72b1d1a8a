"""Where padc's warnings come from, as Python shows them."""

import warnings
from contextlib import contextmanager

import pytest
import torch
from torch import nn

import padc
from padc.warn import warn


class Spaced(nn.Module):
    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"my output": x + 1}


def test_a_warning_names_the_line_that_calls_padc():
    with pytest.warns(padc.PadcWarning, match="it is 'my_output'") as found:
        padc.convert(Spaced(), (torch.ones(2),))

    assert [warning.filename for warning in found] == [__file__]


def test_a_context_manager_in_between_is_passed_over():
    @contextmanager
    def context():
        warn("here")
        yield

    with pytest.warns(padc.PadcWarning, match="here") as found, context():
        pass

    assert [warning.filename for warning in found] == [__file__]


def test_a_line_warns_once_by_default():
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("default")
        for _ in range(2):
            warn("again")

    assert len(found) == 1
