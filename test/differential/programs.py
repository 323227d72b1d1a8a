# pyright: basic
"""The program of each seed, by kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from differential.draw import Draw
from differential.dynamic import varied
from differential.in_place import in_place
from differential.networks import network
from differential.ops import OPS, Op, strided
from differential.program import Program
from differential.sizes import sized
from differential.states import change, state, with_fitting_states

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

OF_EXPORTED: Sequence[Op] = ((strided, 1), (in_place, 4), (sized, 6))
"""Ops that torch.export, or padc's importer, replaces with other ops."""
ATTEMPTS = 4
"""How many further programs are drawn where no sizes can vary."""
SPECIAL = 0.05
"""How often an input of floats has NaN or infinite elements."""
STATES = 0.3
"""How often an exported model has a tensor that it changes."""


def calls(draw: Draw, ops: Sequence[Op] = OPS, states: float = 0) -> Program:
    """1 to 12 calls; with probability `states`, the model has a tensor that it changes."""
    held = [state(draw, draw.choice(DTYPES))] if states and draw.chance(states) else []
    for _ in range(draw.integer(1, 2)):
        rank = draw.choice((1, 2, 3, 4, 4, 4, 5))
        sizes = draw.integers(rank, 1, 5 if rank > 3 else 8)
        draw.input(sizes, draw.choice(DTYPES), SPECIAL)
    wanted = draw.integer(1, 12)
    kinds, weights = zip(*ops, strict=True)
    for _ in range(4 * wanted):
        if len(draw.calls) < wanted:
            draw.random.choices(kinds, weights)[0](draw)
    for each in held:
        change(draw, each)
    return draw.program()


def dynamic(draw: Draw) -> Program:
    """Calls with sizes that vary, if one of a few programs has any."""
    program = varied(draw, calls(draw))
    for _ in range(ATTEMPTS):
        if len(program.runs) == 1:
            draw = Draw(draw.integer(0, 2**62))
            program = varied(draw, calls(draw))
    return program


def exported(draw: Draw) -> Program:
    """Calls, writes in place and computed sizes; sizes vary in two of three programs."""
    program = calls(draw, (*OPS, *OF_EXPORTED), STATES)
    return with_fitting_states(varied(draw, program)) if draw.chance(0.67) else program


KINDS: Mapping[str, Callable[[Draw], Program]] = {
    "static": calls,
    "dynamic": dynamic,
    "exported": exported,
    "networks": network,
}


def drawn(seed: int, kind: str = "static") -> Program:
    """The program of a seed."""
    return KINDS[kind](Draw(seed))
