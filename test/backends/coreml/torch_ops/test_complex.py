# pyright: basic, reportMissingTypeStubs=false
"""`coremltools.convert` with padc's operators: complex tensors, and those of rank 6."""

from pathlib import Path
from typing import Any

import coremltools
import numpy as np
import pytest
import torch
from torch import Tensor, nn

import padc
from padc.backends.coreml import quiet

ct: Any = coremltools

pytestmark = [
    pytest.mark.usefixtures("plugin"),
    pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore:.*jit"),
]


class Function(nn.Module):
    """A function of `x`, which is the input's name in exported programs too."""

    def __init__(self, function: Any):
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Any:
        return self.function(x)


def convert(function: Any, x: Tensor, is_exported: bool) -> Any:
    model = Function(function).eval()
    inputs: Any = [ct.TensorType("x", x.shape)]
    with quiet():
        if is_exported:
            source = torch.export.export(model, (x,)).run_decompositions({})
            inputs = None
        else:
            source = torch.jit.trace(model, x, check_trace=False)
        return ct.convert(
            source,
            inputs=inputs,
            compute_precision=ct.precision.FLOAT32,
            minimum_deployment_target=ct.target.iOS17,
            skip_model_load=True,
        )


def product(x: Tensor) -> Tensor:
    return torch.view_as_real(torch.complex(x, x * 2) * torch.complex(x, -x).conj())


def filtered(x: Tensor) -> Tensor:
    return torch.fft.irfft(torch.fft.rfft(x) * torch.tensor(2.0), n=x.shape[-1])


def unbound(x: Tensor) -> Tensor:
    first, second = torch.fft.fft(x).unbind(0)
    return (first + second.conj()).abs()


@pytest.mark.parametrize(
    "function",
    [
        product,
        filtered,
        unbound,
        lambda x: torch.fft.rfft(x).abs(),
        lambda x: torch.fft.fft2(x).real,
        lambda x: torch.fft.rfft(x, norm="ortho").imag,
    ],
)
@pytest.mark.parametrize("is_exported", [False, True])
def test_complex_tensors_between_operators(
    function: Any, is_exported: bool, tmp_path: Path
):
    x = torch.randn((2, 12), generator=torch.Generator().manual_seed(0))

    convert(function, x, is_exported).save(str(tmp_path / "model.mlpackage"))

    package = padc.coreml.load(tmp_path / "model.mlpackage")
    (actual,) = package.predict({"x": x.numpy()}).values()
    np.testing.assert_allclose(actual, function(x).numpy(), atol=1e-5)


def of_rank_six(x: Tensor) -> Tensor:
    return (x.reshape(1, 2, 2, 2, 2, 4) * 2).sum((1, 3))


@pytest.mark.parametrize("is_exported", [False, True])
def test_tensors_of_rank_six_are_refused(is_exported: bool):
    with pytest.raises(padc.UnsupportedError, match="of more than 5 dim") as raised:
        convert(of_rank_six, torch.randn(8, 8), is_exported)

    problems = raised.value.problems
    assert [each.message.split()[0] for each in problems] == ["reshape", "mul"]
    assert problems[0].hint is not None and "padc.convert" in problems[0].hint
    if is_exported:
        assert "test_complex.py:" in str(raised.value)


def test_tensors_of_rank_six_that_passes_remove(tmp_path: Path):
    def function(x: Tensor) -> Tensor:
        x = x.reshape(1, 2, 2, 2, 2, 4).permute(0, 2, 4, 1, 3, 5)
        return x.reshape(4, 16)

    convert(function, torch.randn(8, 8), True).save(str(tmp_path / "m.mlpackage"))

    assert padc.coreml.check(tmp_path / "m.mlpackage") == []
