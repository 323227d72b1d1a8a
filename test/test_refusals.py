# pyright: basic
"""The refusals that docs/refusals.md lists, with the hints that it gives."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from functions import Function
from torch import Tensor

import padc
from padc.errors import PadcError
from padc.ir.torch.schemas import declarations
from padc.passes.aten.refusals import OTHERWISE, cause
from padc.passes.pipelines import legal_for_mil

DOCUMENT = Path(__file__).parents[1] / "docs/refusals.md"
X = torch.randn(4, 4, generator=torch.Generator().manual_seed(0))


def assigned(x: Tensor) -> Tensor:
    y = x.clone()
    y[:, x[0] > 0] = x[:, x[0] > 0]
    return y


def of_rank_5(x: Tensor) -> Tensor:
    return x.reshape(1, 1, 1, 4, 4)


REFUSED: dict[str, tuple[Callable[..., Any], str]] = {
    "shapes that depend on values": (torch.unique, "torch.where"),
    "assigning different values": (assigned, "torch.where"),
    "random numbers without": (torch.rand_like, "pass the numbers as an input"),
    "batch statistics that update": (torch.nn.BatchNorm1d(4), "model.eval()"),
    "outputs that are never filled": (torch.empty_like, "torch.zeros"),
    "float64 and bfloat16 inputs": (lambda x: x.double(), "float"),
    "complex inputs and outputs": (lambda x: torch.complex(x, x), "view_as_real"),
    "integers that int32": (lambda x: x.long() + 2**40, "smaller number"),
    "empty inputs and outputs": (lambda x: x[:0], "leave it out"),
    "in-place changes of inputs": (lambda x: x.add_(1), "clone"),
    "inputs and outputs of more": (lambda x: of_rank_5(x)[None] + 1, "joined"),
    "Fourier transforms of": (
        lambda x: torch.fft.rfft(x[0, :1].expand(4099)).abs(),
        "pad to",
    ),
    "`multi_margin_loss(reduction": (
        lambda x: F.multi_margin_loss(x[0], torch.tensor(1), reduction="none"),
        r"shape \[1\]",
    ),
    '`torch.linalg.qr(mode="r")`': (lambda x: torch.linalg.qr(x, "r")[1], "reduced"),
    "constants of more": (lambda x: x + torch.eye(2**14)[:4, :4], "let it be an input"),
    "`sort(stable=True)`": (
        lambda x: x.flatten().repeat(600000).sort(stable=True)[1],
        "without stable",
    ),
    "`stft` and `istft`": (
        lambda x: torch.view_as_real(
            torch.stft(
                x.flatten(),
                4,
                window=torch.ones(4) * 1j,
                return_complex=True,
                onesided=False,
            )
        ),
        "a real one",
    ),
    "`mode`, and `cdist`": (lambda x: torch.mode(of_rank_5(x))[0], "join dimensions"),
    "inverses, determinants": (torch.linalg.svdvals, "before, as a constant"),
    "inverses, determinants, solutions": (
        lambda x: torch.linalg.eigvals(x).abs(),
        "before, as a constant",
    ),
    "`igamma`, `igammac`": (
        lambda x: torch.special.gammaincc(x, x),
        "before, as a constant",
    ),
    "`igamma`": (lambda x: torch.igamma(x, x), "before, as a constant"),
    "Hermite, Laguerre": (
        lambda x: torch.special.hermite_polynomial_h(x, x),
        "as a number",
    ),
    "`as_strided`": (
        lambda x: torch.as_strided(x[:, 1:], (2, 2), (4, 1), 1),
        "unfold or slices",
    ),
    "`view(dtype)`": (lambda x: x.view(torch.int32), r"x\.to\(dtype\)"),
    "`fake_quantize` of float64": (
        lambda x: torch.fake_quantize_per_channel_affine(
            x, torch.ones(4), torch.ones(4) / 2, 0, 0, 9
        ),
        "integers",
    ),
    "linear and cubic `interpolate`": (
        lambda x: F.interpolate(x[None, None].byte(), size=7, mode="bilinear"),
        "interpolate floats",
    ),
}
"""For the start of a line, a function that is refused, and part of its hint."""


def lines() -> list[str]:
    table = DOCUMENT.read_text().partition("| --- | --- | --- |\n")[2]
    return table.partition("\n\n")[0].removeprefix("| ").split("\n| ")


@pytest.mark.parametrize("start", REFUSED)
@pytest.mark.filterwarnings("ignore")
def test_lines_are_refused_with_a_hint_that_fits(start: str) -> None:
    function, hint = REFUSED[start]
    assert sum(line.startswith(start) for line in lines()) == 1

    with pytest.raises(PadcError) as raised:
        padc.convert(Function(function), (X.clone(),))

    assert re.search(f"hint: .*{hint}", str(raised.value)), str(raised.value)


def test_a_power_of_sizes_has_a_way_around() -> None:
    sizes = ({0: torch.export.Dim("n", min=2, max=9)},)

    with pytest.raises(PadcError, match=r"hint: use torch\.exp2"):
        padc.convert(
            Function(lambda x: x * 2 ** x.shape[0]), (X,), dynamic_shapes=(sizes,)
        )


def test_random_ops_and_unknown_sizes_have_a_cause_of_their_own() -> None:
    legal = legal_for_mil()
    random, sizes = set[str](), set[str]()
    for name, line in declarations().items():
        namespace, packet, overload = [*name.split("."), "default"][:3]
        of_name = getattr(getattr(torch.ops, namespace), packet, None)
        op: Any = getattr(of_name, overload, None)
        if name in legal or op is None:
            continue
        found = cause(name, "~" in line[:2])
        if torch.Tag.nondeterministic_seeded in op.tags:
            assert found[0].startswith("it draws random numbers"), name
            random.add(packet)
        if torch.Tag.dynamic_output_shape in op.tags:
            assert found != OTHERWISE, name
            sizes.add(packet)
    assert {"native_dropout", "rand_like", "randperm", "multinomial"} <= random
    assert {"_unique2", "bincount"} <= sizes
