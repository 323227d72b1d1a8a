# pyright: basic
"""The program of each seed, by kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from differential.draw import Draw
from differential.dynamic import varied
from differential.networks import network
from differential.ops import OPS
from differential.program import Program

DTYPES = (
    *[torch.float32] * 9,
    torch.float16,
    torch.float64,
    torch.bfloat16,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.bool,
)

SPECIAL = 0.05
"""How often an input of floats has NaN or infinite elements."""


def calls(draw: Draw) -> Program:
    """1 to 12 calls."""
    for _ in range(draw.integer(1, 2)):
        rank = draw.choice((1, 2, 3, 4, 4, 4, 5))
        sizes = draw.integers(rank, 1, 5 if rank > 3 else 8)
        draw.input(sizes, draw.choice(DTYPES), SPECIAL)
    wanted = draw.integer(1, 12)
    kinds, weights = zip(*OPS, strict=True)
    for _ in range(4 * wanted):
        if len(draw.calls) < wanted:
            draw.random.choices(kinds, weights)[0](draw)
    return draw.program()


def dynamic(draw: Draw) -> Program:
    """Calls, most often with sizes that vary."""
    return varied(draw, calls(draw))


KINDS: Mapping[str, Callable[[Draw], Program]] = {
    "static": calls,
    "dynamic": dynamic,
    "networks": network,
}


def drawn(seed: int, kind: str = "static") -> Program:
    """The program of a seed."""
    return KINDS[kind](Draw(seed))
