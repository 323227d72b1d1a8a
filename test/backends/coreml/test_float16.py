# pyright: basic
"""Numbers that float16 does not have, in programs of `precision="float16"`."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from functions import Functions, Several, check_each
from torch import Tensor, nn

import padc

LEAST = torch.finfo(torch.float32).min
KEEP = torch.tensor([[1, 0, 1, 1], [0, 0, 0, 0], [1, 1, 1, 1], [0, 0, 0, 1]]) > 0


def masks(least: float) -> Functions:
    """Masks of `least`: constant and computed, also for a row that is wholly masked."""
    causal = torch.triu(torch.full((4, 4), least), 1)
    causal[0] = least
    one = torch.ones(1, 1, 1, 1)

    def computed(keep: Tensor) -> Tensor:
        return (1.0 - keep.float()) * least

    return {
        "constant": lambda x, keep: (x + causal).softmax(-1),
        "constant alone": lambda x, keep: (causal + 0 * x).softmax(-1),
        "masked_fill": lambda x, keep: x.masked_fill(~keep, least).softmax(-1),
        "masked_fill of sums": lambda x, keep: (
            (x + causal).masked_fill(~keep, least).softmax(-1)
        ),
        "computed": lambda x, keep: (x + computed(keep)).softmax(-1),
        "where": lambda x, keep: (x + torch.where(keep, 0.0, least)).softmax(-1),
        "two": lambda x, keep: (x + computed(keep) + causal).softmax(-1),
        "two, bounded": lambda x, keep: torch.max(
            x + computed(keep) + causal, torch.tensor(least)
        ).softmax(-1),
        "two that differ": lambda x, keep: (
            x.masked_fill(~keep, least).masked_fill(~keep.T, least / 4).softmax(-1)
        ),
        "mixed": lambda x, keep: (
            x.masked_fill(~keep, least) @ torch.eye(4) / 4
        ).softmax(-1),
        "log_softmax": lambda x, keep: x.masked_fill(~keep, least).log_softmax(-1),
        "attention": lambda x, keep: F.scaled_dot_product_attention(
            x * one, x * one, x * one, attn_mask=computed(keep)
        ),
        "largest": lambda x, keep: x.masked_fill(~keep, least).amax(-1),
        "product": lambda x, keep: 0 * (x.masked_fill(~keep, least)),
    }


@pytest.mark.parametrize("target", ["iOS15", "newest"])
@pytest.mark.parametrize("least", [LEAST, -1e9, -1e5])
def test_masks(least: float, target: str) -> None:
    functions = masks(least)
    # Sums of these and -65504 are infinite in float16.
    x = torch.randn(4, 4, generator=torch.Generator().manual_seed(0)) - 20
    program = padc.convert(
        Several(functions), (x, KEEP), precision="float16", target=target
    )

    results = program.run(x, KEEP)

    check_each(functions, results, x, KEEP, rtol=2e-2, atol=2e-2)


NUMBERS: Functions = {
    "scale": lambda x: x * 1e5 / 1e5,
    "bounds": lambda x: x.clamp(-1e6, 1e6),
    "nan_to_num": lambda x: torch.nan_to_num(x) * 2,
    "infinite": lambda x: torch.where(x > 0, -math.inf, x),
    "joined": lambda x: torch.cat([x, torch.full((1, 4), 1e6)]) - 1e6,
}


def test_large_numbers() -> None:
    x = torch.tensor([[1.0, -2.0, 3.0, 0.0]])
    program = padc.convert(Several(NUMBERS), (x,), precision="float16")

    check_each(NUMBERS, program.run(x), x, rtol=1e-2, atol=1e-2)


NUMBER = torch.tensor([70000, -100000, 3, 999])
FROM_INTEGERS: Functions = {
    "scaled": lambda i: i.float() / 1000,
    "angle": lambda i: torch.sin(i.float() * 1e-4),
    "time step": lambda i: (i % 1000).float()[:, None] * torch.exp(-torch.arange(4.0)),
    "rotary": lambda i: (torch.ones(4, 1) @ (i % 1000).float()[None] * 0.317).cos(),
    "added": lambda i: i.float() + i[:1].sqrt() - 1e5,
    "selected": lambda i: torch.where(i > 5, i.float(), 0.5) / 7e4,
    "product": lambda i: i.float() @ torch.full((4, 2), 1e-4),
    "branch": lambda i: torch.cond(
        (i[2] * 1e-4) ** 2 > 0, lambda x: x * 2.0, lambda x: x * 1.0, (i,)
    ),
}


def test_integers_above_2048() -> None:
    program = padc.convert(Several(FROM_INTEGERS), (NUMBER,), precision="float16")

    check_each(FROM_INTEGERS, program.run(NUMBER), NUMBER, rtol=1e-3, atol=1e-3)


def test_floats_that_become_indices() -> None:
    """In float16, 0.9999 * 16 is 16, and the distance of 1234.5 from 1234 is 0 or 1."""
    x, table = torch.tensor([0.1, 0.5, 0.6172, 0.9999]), torch.rand(2001)
    functions: Functions = {
        "index": lambda x: table[(x * 16).long()],
        "interpolation": lambda x: table[(x * 1999).long()].lerp(
            table[(x * 1999).long() + 1], (x * 1999).frac()
        ),
        "weights": lambda x: x * 1999 - (x * 1999).floor().long(),
        "phases": lambda x: (x * 1999) % 1,
    }

    program = padc.convert(Several(functions), (x,), precision="float16")

    check_each(functions, program.run(x), x, rtol=1e-3, atol=1e-3)


SMALL: Functions = {
    "quotient": lambda x: x / (x.abs().sum(-1, keepdim=True) + 1e-8),
    "norm": lambda x: x * torch.rsqrt((x * 1e-4).square().mean(-1) + 1e-8) * 1e-4,
    "logarithm": lambda x: (x.relu() + 1e-8).log(),
    "bound": lambda x: x.clamp(min=1e-10).log(),
    "maximum": lambda x: torch.maximum(x, torch.tensor(1e-12)).log(),
    "back": lambda x: x * 1e-8 * 1e8,
    "pixels": lambda x: x / 65535 * 65535,
    "quotients": lambda x: x * torch.tensor([1e-9, 2e-9, 1e-9, 1e-8]) / 1e-9,
    "sum": lambda x: (x * 1e-9).sum(-1) * 1e9,
}


def test_small_numbers() -> None:
    x = torch.tensor([[1.0, -2.0, 3.0, 0.0]])
    program = padc.convert(Several(SMALL), (x,), precision="float16")

    check_each(SMALL, program.run(x), x, rtol=1e-2, atol=1e-2)


def rms(x: Tensor) -> Tensor:
    return x.pow(2).mean(-1, keepdim=True)


SQUARES: Functions = {
    "RMS norm": lambda x: x * torch.rsqrt(rms(x) + 1e-6),
    "power": lambda x: x * (rms(x) + 1e-6) ** -0.5,
    "root": lambda x: x / torch.sqrt(torch.square(x).sum(-1, keepdim=True)),
    "standard deviation": lambda x: x / x.std(-1, keepdim=True),
    "variance": lambda x: x * torch.rsqrt(x.var(-1, keepdim=True) + 1e-5),
    "whitened": lambda x: (
        (x - x.mean(-1, keepdim=True))
        / torch.sqrt(rms(x - x.mean(-1, keepdim=True)).clamp(min=1e-5))
    ),
    "layer norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "normalized": lambda x: F.normalize(x),
    "mean of squares": lambda x: rms(x / 10),
    "norm of order 3": lambda x: x / x.norm(p=3, dim=-1, keepdim=True),
    "distance of order 4": lambda x: F.pairwise_distance(x, x.flip(1), p=4),
    "distances": lambda x: torch.cdist(
        x, x.flip(1) + 1, compute_mode="use_mm_for_euclid_dist"
    ),
}


@pytest.mark.parametrize("scale", [1e3, 1e-4])
def test_squares_beyond_float16(scale: float) -> None:
    x = torch.linspace(-2, 3, 8)[None] * scale
    functions = {
        name: function
        for name, function in SQUARES.items()
        if scale > 1 or name in ("root", "standard deviation")
    }
    program = padc.convert(Several(functions), (x,), precision="float16")

    check_each(functions, program.run(x), x, rtol=1e-2, atol=1e-2)


def test_nearest_points() -> None:
    """In float16, many of the distances are equal."""
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(256, 3, generator=draw).half().float()
    codes = torch.rand(32, 3, generator=draw) / 20
    functions: Functions = {
        "nearest": lambda x: torch.cdist(x, codes).argmin(1),
        "farthest": lambda x: (-torch.cdist(x, codes)[:, None]).topk(1).indices,
    }

    program = padc.convert(Several(functions), (x,), precision="float16")

    check_each(functions, program.run(x), x)


def test_products_that_a_factor_makes_smaller() -> None:
    x = torch.full((1, 4, 64), 100.0)
    functions: Functions = {
        "addmm": lambda x: torch.addmm(x[0, :, :4], x[0], x[0].T, alpha=0.05),
        "baddbmm": lambda x: torch.baddbmm(x[..., :4], x, x.mT, alpha=0.05),
    }

    program = padc.convert(Several(functions), (x,), precision="float16")

    check_each(functions, program.run(x), x, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("target", ["iOS17", "iOS18"])
@pytest.mark.parametrize("least", [LEAST, -1e9, -math.inf])
def test_masks_that_are_inputs(least: float, target: str) -> None:
    added: Functions = {
        "added": lambda x, mask: (x @ x + mask).softmax(-1),
        "scaled": lambda x, mask: (x @ x + (mask * 0.5)[None]).softmax(-1)[0],
        "attention": lambda x, mask: F.scaled_dot_product_attention(
            x[None, None], x[None, None], x[None, None], attn_mask=mask[None, None]
        ),
    }
    x = torch.randn(4, 4, generator=torch.Generator().manual_seed(0))
    mask = torch.zeros(4, 4).masked_fill(~KEEP, least)
    args = (x, mask if math.isfinite(least) else mask[[0, 2, 2, 3]])
    program = padc.convert(Several(added), args, precision="float16", target=target)

    check_each(added, program.run(*args), *args, rtol=1e-2, atol=1e-2)


def dtypes(functions: Functions) -> dict[str, str]:
    """The dtype of the last op of each type in a float16 program."""
    program = padc.convert(
        Several(functions), (torch.zeros(4, 4), KEEP), precision="float16"
    )
    operations = program._pymil.functions["main"].operations
    return {op.op_type: op.outputs[0].dtype.__name__ for op in operations}


def test_ops_that_compute_in_float32() -> None:
    softmax, rest = masks(LEAST)["masked_fill"], masks(-1e9)["computed"]

    # Only a softmax reads the masked numbers.
    assert dtypes({"": softmax})["select"] == "fp16"
    assert dtypes({"": softmax})["softmax"] == "fp16"
    # A product bounds what is computed after it.
    after = dtypes({"": lambda x, keep: F.relu(rest(x, keep) @ x)})
    assert (after["add"], after["matmul"], after["relu"]) == ("fp32", "fp16", "fp16")


@pytest.mark.parametrize("target", ["iOS16", "iOS17", "iOS18"])
def test_integers_keep_their_values(target: str):
    """coremltools casts integers of these ops to 16 bits, whatever their values."""

    class Integers(nn.Module):
        def forward(self, x: Tensor, n: Tensor, i: Tensor):
            count, places = n[:1].squeeze(0), torch.topk(n, 2).indices
            return x[i] * 2, n[i], count + 1, n.gather(0, i), places, n.topk(3).values

    args = (torch.ones(3), torch.tensor([70000, -40000, 5]), torch.tensor([2, 0]))

    program = padc.convert(Integers(), args, precision="float16", target=target)

    for actual, expected in zip(program.run(*args), Integers()(*args), strict=True):
        assert torch.equal(actual, expected)
