# pyright: basic
"""What comes of the programs of some seeds."""

from __future__ import annotations

import faulthandler
import gc
import logging
import warnings
from typing import TypeAlias

import torch
from differential.paths import problem
from differential.program import Program
from differential.programs import drawn
from differential.shrinking import shrunk
from differential.tracing import SpecializedError

from padc.errors import UnsupportedError


def outcome(program: Program, path: str) -> tuple[str, str]:
    """`right`, `refused` or `wrong`, and for wrong the smallest program that is."""

    def is_wrong(program: Program) -> bool:
        try:
            for run in range(len(program.runs)):
                program.values(run)
        except (RuntimeError, IndexError):
            return False  # A simpler input is no index.
        try:
            return problem(program, path) is not None
        except (UnsupportedError, SpecializedError):
            return False

    try:
        if problem(program, path) is None:
            return "right", ""
    except UnsupportedError as error:
        return "refused", error.problems[0].message
    found = shrunk(program, is_wrong)
    return "wrong", f"{problem(found, path)}\n{found.source()}"


Work: TypeAlias = tuple[range, str, tuple[str, ...]]
"""Seeds, the kind of their programs, and the paths that run them."""
Outcome: TypeAlias = tuple[int, str, str, str]
"""A seed, a path, and what `outcome` returns."""


def outcomes(work: Work) -> list[Outcome]:
    """What comes of each program on each path."""
    seeds, kind, paths = work
    faulthandler.enable()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    logging.disable(logging.ERROR)
    # As padc does during a compilation: IR is full of cycles.
    gc.collect()
    gc.freeze()
    gc.disable()
    found: list[Outcome] = []
    for seed in seeds:
        program = drawn(seed, kind)
        if program.calls:
            found += [(seed, path, *outcome(program, path)) for path in paths]
    return found
