# pyright: basic
"""float64 inside a model becomes float32 for Core ML, which is said."""

import warnings
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from functions import Function
from torch import Tensor

import padc
from padc.errors import UnsupportedError

X = torch.randn(5, 5, generator=torch.Generator().manual_seed(0))
DOUBLE = torch.float64

CASES: dict[str, Callable[[Tensor], Tensor]] = {
    "double": lambda x: (x.double() * 2 + torch.ones(5, dtype=DOUBLE)).exp().float(),
    "sum": lambda x: x.sum(1, dtype=DOUBLE).float(),
    "softmax": lambda x: x.softmax(1, dtype=DOUBLE).to(x.dtype),
    "cumsum": lambda x: x.cumsum(0, dtype=DOUBLE).float(),
    "full_like": lambda x: torch.full_like(x, 2.0, dtype=DOUBLE).mul(x).float(),
    "resampled": lambda x: F.interpolate(
        x[None, None].double(), scale_factor=2.0, mode="bilinear"
    ).float(),
    "integers": lambda x: (x.double() * 3).int(),
    "float_power": lambda x: torch.float_power(x.abs(), 2.0).float(),
}


@pytest.mark.parametrize("name", CASES)
def test_it_is_computed_in_float32(name: str):
    function = CASES[name]

    with pytest.warns(UserWarning, match=r"float64: .* float32, first by aten\..* at "):
        program = padc.convert(Function(function).eval(), (X,))

    assert not program.check()
    torch.testing.assert_close(program.run(X)[0], function(X))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + torch.linspace(0, 1, 5, dtype=DOUBLE).exp().float(),
        lambda x: torch.where(x > 0, x, torch.scalar_tensor(3, dtype=DOUBLE)),
    ],
    ids=["folded", "of rank 0"],
)
def test_constants_are_narrowed_silently(function: Callable[[Tensor], Tensor]):
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        program = padc.convert(Function(function).eval(), (X,))

    torch.testing.assert_close(program.run(X)[0], function(X))


@pytest.mark.parametrize(
    ("function", "x"),
    [(lambda x: x.double() * 2, X), (lambda x: x.float() * 2, X.double())],
    ids=["output", "input"],
)
def test_inputs_and_outputs_are_refused(function: Callable[..., Tensor], x: Tensor):
    with pytest.raises(UnsupportedError, match="Core ML has no float64"):
        padc.convert(Function(function).eval(), (x,))
