# pyright: basic
"""Reports of what float16 costs in accuracy."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import padc
from padc.float16_report import Float16Report, chosen, pytorch_errors
from padc.verification import Comparison


class Tone(nn.Module):
    """Phases that add up to hundreds of radians: float16 has neither sum nor sine."""

    def forward(self, frequencies: Tensor) -> Tensor:
        return torch.sin(frequencies.cumsum(-1)) * 0.5


def test_what_is_recommended():
    """The sum alone does not help, and the sine alone does not either."""
    torch.manual_seed(0)
    tone = padc.convert(Tone(), (torch.rand(1, 1000),), precision="float16")
    inputs = (torch.rand(1, 1000),)

    report = tone.float16_report([inputs])

    assert report.error > report.bound
    with pytest.raises(padc.WrongResultError) as caught:
        tone.verify()
    assert caught.value.hint is not None
    assert caught.value.hint.startswith("Program.float16_report(), or padc convert")
    assert min(report.kept.values()) > report.bound
    assert set(report.recommended) == {"reductions", "trigonometry"}
    kept = padc.convert(
        tone.exported, precision="float16", keep_float32=report.recommended
    )
    (comparison,) = kept.verify([inputs])
    assert comparison.relative_error == report.recommended_error < report.bound
    assert report.advice.endswith(
        f"keep_float32={[*report.recommended]} brings it to "
        f"{report.recommended_error:.2e}"
    )


def test_a_program_that_needs_nothing():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8)).eval()
    program = padc.convert(model, (torch.randn(2, 8),))

    report = program.float16_report()

    assert 0 < report.error < report.bound
    assert set(report.kept) == {"matmuls", "norms"}
    assert report.recommended == () and report.recommended_error == report.error
    own = report.pytorch["float16"]
    assert own is not None and 0 < own < report.bound
    lines = str(report).splitlines()
    assert lines[0].startswith("output 'layer_norm' in float16: max error ")
    assert lines[1].startswith("PyTorch itself, every op in float16: ")
    assert lines[-1] == "float16 is within 0.01 of the range: nothing to keep"


class Overflowing(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return (x * 300) * (x * 300) * 1e-5


def test_overflow():
    program = padc.convert(
        Overflowing(), (torch.linspace(-1, 1, 8),), precision="float16"
    )

    report = program.float16_report([(torch.linspace(-1, 1, 8),)])

    assert report.error == math.inf
    assert report.recommended == ("arithmetic",)
    assert report.recommended_error < 1e-3
    assert report.is_like_pytorch
    assert "as PyTorch's own float16 is" in report.advice


class Sampled(nn.Module):
    """PyTorch refuses grids and inputs of two dtypes; autocast computes in float32."""

    def __init__(self, theta: Tensor):
        super().__init__()
        self.theta = theta

    def forward(self, x: Tensor) -> Tensor:
        grid = F.affine_grid(self.theta, [*x.shape], align_corners=False)
        return F.grid_sample(x, grid, align_corners=False)


class ToFloat32(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.to(torch.float32).exp()


class Inverse(nn.Module):
    """It has no kernel for float16."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.linalg.inv(x)


THETA = torch.tensor([[[0.9, 0.1, 0.0], [0.0, 0.8, 0.1]]])


@pytest.mark.parametrize(
    "model, shape",
    [(Sampled(THETA), (1, 1, 4, 4)), (ToFloat32(), (8,)), (Inverse(), (1, 3, 3))],
)
@pytest.mark.parametrize("is_exported", [False, True])
def test_pytorch_computes_every_op_in_float16(
    model: nn.Module, shape: tuple[int, ...], is_exported: bool
):
    x = torch.rand(shape, generator=torch.Generator().manual_seed(0))
    exported = torch.export.export(model, (x,))

    errors = pytorch_errors(exported if is_exported else model, exported, [(x,)])

    assert errors["float16"] is not None and errors["bfloat16"] is not None
    assert 0 < errors["float16"] < 0.02
    assert errors["float16"] < errors["bfloat16"] < 0.2


class OnlyFloat32(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        assert x.dtype == torch.float32
        return x.sin()


def test_what_pytorch_cannot_run_in_float16():
    x = torch.ones(2)
    exported = torch.export.export(OnlyFloat32(), (x,))

    errors = pytorch_errors(OnlyFloat32(), exported, [(x,)])

    assert errors == {"float16": None, "bfloat16": None}


def report(error: float, least: float, own: float | None) -> Float16Report:
    outputs = (Comparison("y", error, error),)
    return Float16Report(
        0.01, outputs, {"norms": least}, ("norms",), least, {"float16": own}
    )


def test_advice():
    assert "nothing to keep" in report(0.01, 0.001, None).advice
    assert 'use precision="float32"' in report(0.5, 0.02, None).advice
    assert report(0.1, 0.001, 0.06).is_like_pytorch
    assert report(0.1, 0.001, math.nan).is_like_pytorch
    assert not report(0.1, 0.001, 0.04).is_like_pytorch
    assert not report(0.1, 0.001, None).is_like_pytorch
    assert "it cannot run this" in str(report(0.1, 0.001, None))


@pytest.mark.parametrize(
    "errors, expected",
    [
        ({"": 0.005}, ""),
        ({"": 1, "a": 0.005}, "a"),
        ({"": 1, "a": 0.02, "ab": 1, "abc": 0.005, "ac": 0.005}, "ac"),
        ({"": 1, "a": 0.5, "ab": 0.3, "abc": 0.001, "bc": 0.005}, "bc"),
        (
            {
                "": math.inf,
                "a": math.inf,
                "ab": math.inf,
                "abc": 0.001,
                "bc": 1,
                "ac": 1,
            },
            "abc",
        ),
        ({"": 1, "a": 0.5, "ab": 0.3, "abc": 0.2}, "abc"),
    ],
)
def test_few_are_chosen(errors: dict[str, float], expected: str):
    def error_of(names: tuple[str, ...]) -> float:
        return errors.get("".join(names), 1.0)

    assert "".join(chosen(error_of, "abc", 0.01)) == expected
