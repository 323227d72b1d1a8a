# pyright: basic
"""The greatest and least elements of rows and windows: NaN, infinities and zeros of both signs."""

import numpy as np
import pytest
import torch
from functions import Function

import padc

BITS = [0x00000000, 0x3F800000, 0x7F800000, 0x7FC00000, 0x7F800001, 0x7FFFFFFF, 1]
"""0, 1, infinity, three NaN, and the least positive number."""
VALUES = torch.from_numpy(
    np.array([bits | sign for bits in BITS for sign in (0, 1 << 31)], np.uint32).view(
        np.float32
    )
)
ROWS = torch.cartesian_prod(VALUES, VALUES, VALUES).repeat(1, 13)


def rows(x: torch.Tensor, is_greatest: bool) -> torch.Tensor:
    """The extreme of each row; -0 is less than 0, which PyTorch leaves open."""
    order = x.double()
    tiny = torch.full_like(order, 1e-46).copysign(order)
    order = torch.where(order == 0, tiny, order)
    best = order.amax(1) if is_greatest else order.amin(1)
    return best.float()


@pytest.mark.parametrize("is_greatest", [True, False])
def test_extremes_of_rows(is_greatest: bool):
    function = torch.amax if is_greatest else torch.amin
    compiled = padc.compile(Function(lambda x: function(x, 1)), (ROWS,))

    actual, expected = compiled(ROWS), rows(ROWS, is_greatest)

    torch.testing.assert_close(actual, expected, rtol=0, atol=0, equal_nan=True)
    check_signs(actual, expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("is_greatest", [True, False])
def test_extremes_of_halves(is_greatest: bool, dtype: torch.dtype):
    x = ROWS.to(dtype)
    function = torch.amax if is_greatest else torch.amin
    compiled = padc.compile(Function(lambda x: function(x, 1)), (x,))

    actual, expected = compiled(x), rows(x.float(), is_greatest).to(dtype)

    torch.testing.assert_close(actual, expected, rtol=0, atol=0, equal_nan=True)
    check_signs(actual, expected)


def check_signs(actual: torch.Tensor, expected: torch.Tensor) -> None:
    numbers = ~expected.isnan()
    assert torch.equal(actual.signbit()[numbers], expected.signbit()[numbers])
    assert numbers.any() and not numbers.all()


@pytest.mark.parametrize("stride", [1, 2])
def test_extremes_of_windows(stride: int):
    """Three elements of three rows each, which all outputs share with others."""
    x = ROWS[:, :3].reshape(1, 3, 56, 49)
    model = torch.nn.MaxPool2d(3, stride)

    actual = padc.compile(model, (x,))(x)

    windows = torch.nn.functional.unfold(x, 3, stride=stride)
    expected = rows(windows.view(3, 9, -1).mT.reshape(-1, 9), True)
    expected = expected.view(model(x).shape)
    torch.testing.assert_close(actual, expected, rtol=0, atol=0, equal_nan=True)
    check_signs(actual, expected)
