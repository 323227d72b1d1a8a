# pyright: basic
"""Functions that coremltools' clean-up passes have changed, by their input."""

import math
from collections.abc import Mapping

import torch
import torch.nn.functional as F
from functions import Functions
from torch import Tensor

NUMBERS = torch.tensor(
    [[-2.7, 2.7, 0.5], [1.5, -1.5, math.inf], [3e9, -math.inf, math.nan]]
)
IMAGES = torch.linspace(-2, 2, 54).sin().reshape(2, 3, 3, 3)
COUNTS = torch.arange(1000.0)
INTEGERS = torch.tensor([16777217, 3, -16777219], dtype=torch.int32)
WEIGHT = torch.tensor([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75], [-0.5, 1.0, 3.0]])
OTHER_WEIGHT = WEIGHT + 1
ROW, COLUMN = torch.tensor([1.0, -2.0, 0.5]), torch.tensor([[0.5], [-1.5], [2.0]])
PLANES = torch.tensor([0.5, -1.5, 2.0]).view(1, 3, 1, 1)
ONE, TWOS = torch.ones(1, 1, 1), torch.full((3, 3), 2.0)
NORMALIZED = 1e-5


def normalized(x: Tensor, *dims: int) -> Tensor:
    centered = x - x.mean(dims, True)
    return centered * torch.rsqrt(centered.square().mean(dims, True) + NORMALIZED)


FUNCTIONS: Mapping[str, tuple[Functions, Tensor]] = {
    "numbers": (
        {
            "x // 1": lambda x: x // 1,
            "x ** 1": lambda x: torch.pow(x, torch.ones(3, 3)),
            "roots of squares": lambda x: torch.pow(x, TWOS).sqrt(),
            "squares of roots": lambda x: torch.pow(x.sqrt(), TWOS),
            "max(2 x, x)": lambda x: torch.maximum(2 * x, x),
            "max(-x, x)": lambda x: torch.maximum(x, -1 * x),
            "max(0 x, x)": lambda x: torch.maximum(0 * x, x),
            "0 of more dimensions": lambda x: x - torch.zeros(2, 1, 1),
            "1 of more dimensions": lambda x: x[0] * ONE,
            "1 / x": lambda x: torch.ones(3, 3) / x,
            "0 - x": lambda x: torch.zeros(3, 3) - x,
            "1 ** x": lambda x: torch.pow(torch.ones(3, 3), x),
            "gelu": lambda x: x * 0.5 * (1 + torch.erf(x / math.sqrt(2))),
            "not gelu": lambda x: x * 0.5 * (1 + torch.erf(x / 1.5)),
            "-inf for True": lambda x: torch.where(
                torch.tensor([True, False, True]), -math.inf, x
            ),
        },
        NUMBERS,
    ),
    "images": (
        {
            "c - x @ w": lambda x: ROW - x @ WEIGHT,
            "c - row @ w": lambda x: ROW - x[0, 0] @ OTHER_WEIGHT,
            "x @ w - c": lambda x: x @ WEIGHT - ROW,
            "x @ w + column": lambda x: x @ WEIGHT + COLUMN,
            "w @ x + row": lambda x: WEIGHT @ x + ROW,
            "w @ x + column": lambda x: WEIGHT @ x + COLUMN,
            "products of more dimensions": lambda x: x[0, 0] @ WEIGHT + ONE * ROW,
            "linear of more dimensions": lambda x: (
                F.linear(x[0, 0], WEIGHT) + ONE * ROW
            ),
            "c - linear": lambda x: ROW - F.linear(x, WEIGHT, ROW),
            "linear + a number": lambda x: F.linear(x, WEIGHT[:1], ROW[:1]) + 0.5,
            "planes": lambda x: x * PLANES + PLANES,
            "planes of more dimensions": lambda x: x[0] * PLANES + PLANES,
            "planes of integers": lambda x: (x * 3).int() * PLANES.int() + PLANES.int(),
            "planes - x": lambda x: PLANES - x * PLANES,
            "layer norm": lambda x: normalized(x, -1) * COLUMN + ROW,
            "instance norm": lambda x: normalized(x, 2, 3) * PLANES + PLANES,
            "instance norm by rows": lambda x: normalized(x, 2, 3) * ROW + COLUMN,
            "channel norm": lambda x: normalized(x, 1) * PLANES + PLANES,
            "means": lambda x: x.sum((2, 3)) * (1 / 9),
            "no means": lambda x: x.sum((2, 3)) * (1 / 9.1),
            "means of more dimensions": lambda x: x.sum((2, 3)) * (ONE / 9),
            "prelu": lambda x: torch.relu(x) + PLANES * torch.relu(-x),
            "no prelu": lambda x: torch.relu(x) - PLANES * torch.relu(-x),
            "parts of a stack": lambda x: torch.cat(
                [y.squeeze(1) + 1 for y in torch.stack([x, x * 2], 1).split(1, 1)]
            ),
            "reshaped stacks": lambda x: torch.stack([x, x * 2], 3).reshape(2, 3, 6, 3),
            "interleaved": lambda x: torch.cat(
                [y[:, i : i + 1] for i in range(3) for y in (x, x * 2)], 1
            ),
            "c / conv": lambda x: 5 / F.conv2d(x, torch.ones(6, 3, 1, 1)),
            "c - conv": lambda x: 5 - F.conv2d(x, torch.ones(6, 3, 1, 1)),
            "conv + row": lambda x: F.conv2d(x, torch.ones(6, 3, 1, 1)) + ROW,
            "channels last": lambda x: (x.permute(0, 2, 3, 1) * COLUMN).permute(
                0, 3, 1, 2
            ),
            "classes": lambda x: (
                F.one_hot(x[:, :, 0, 0].gt(0).long(), 3).float() @ WEIGHT
            ),
        },
        IMAGES,
    ),
    "counts": (
        {
            "floor": lambda x: torch.stack([(x / n).floor() for n in (7, 41, 47, 55)]),
            "ceil": lambda x: (x / 7).ceil(),
            "frac": lambda x: torch.frac(x / 41),
            "truncated": lambda x: (x / 49).int(),
            "compared": lambda x: x / 41 >= 1,
        },
        COUNTS,
    ),
    "integers": (
        {
            "through float32": lambda x: x.float().int(),
            "through a sum": lambda x: (x.float() + 0).long(),
            "to int8": lambda x: x.float().to(torch.int8),
            "through bool": lambda x: x.bool().float().int(),
            "divided": lambda x: x // 7,
        },
        INTEGERS,
    ),
    "few": (
        {
            "of a concat of floats": lambda x: torch.cat([x[0], x[0]])[4],
            "of a pad of booleans": lambda x: F.pad(x > 0, (2, 2))[:, :1],
            "transposed": lambda x: (x.t() + 1).t(),
            "stacks": lambda x: (y := torch.stack([x, x * 2]), y.reshape(4, 3)),
        },
        torch.tensor([[-1.0, 2, 3], [3, -4, 5]]),
    ),
}


EXACT = {"rtol": 0, "atol": 0}
ALLOWED = {
    "numbers": {"rtol": 1e-6, "atol": 1e-6},
    "images": {"rtol": 1e-4, "atol": 1e-5},
    "counts": EXACT,
    "integers": EXACT,
    "few": EXACT,
}
"""The error that is allowed; numbers that are rounded once are exact."""
