# pyright: basic
"""What comes of the programs of some seeds."""

from __future__ import annotations

import logging
import warnings

import torch
from differential.paths import problem
from differential.programs import Program, drawn, shrunk

from padc.errors import UnsupportedError


def outcome(seed: int, path: str) -> tuple[str, str]:
    """`right`, `refused` or `wrong`, and for wrong the smallest program that is."""
    program = drawn(seed)
    if not program.calls:
        return "right", ""

    def is_wrong(program: Program) -> bool:
        try:
            return problem(program, path) is not None
        except UnsupportedError:
            return False

    try:
        if problem(program, path) is None:
            return "right", ""
    except UnsupportedError as error:
        return "refused", error.problems[0].message
    found = shrunk(program, is_wrong)
    return "wrong", f"{problem(found, path)}\n{found.source()}"


def outcomes(work: tuple[range, tuple[str, ...]]) -> list[tuple[int, str, str, str]]:
    seeds, paths = work
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    logging.disable(logging.ERROR)
    return [(seed, path, *outcome(seed, path)) for seed in seeds for path in paths]
