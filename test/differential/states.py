# pyright: basic
"""Tensors that a model holds and changes with each call."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import torch
from differential.draw import Draw
from differential.program import Program, Ref
from torch import Tensor


class Shifted:
    """A state shifted by one element, with an element of another tensor in front."""

    __name__: ClassVar[str] = "shifted"

    def __call__(self, state: Tensor, x: Tensor) -> Tensor:
        return torch.cat([x.flatten()[:1], state.flatten()[:-1]]).view(state.shape)

    def __repr__(self) -> str:
        return self.__name__

    def source(self, state: str, x: str) -> str:
        """The same in Python."""
        parts = f"{x}.flatten()[:1], {state}.flatten()[:-1]"
        return f"torch.cat([{parts}]).view({state}.shape)"


def state(draw: Draw, dtype: torch.dtype) -> Ref:
    """A value that the model holds; `change` says what becomes of it."""
    shape = draw.integers(draw.integer(1, 3), 1, 5)
    return draw.given(draw.numbers(shape, dtype), held=True)


def change(draw: Draw, state: Ref) -> None:
    """Let some value become that of a state with each call."""
    old = draw.value(state)
    fits = [
        number
        for number, x in enumerate(draw.values)
        if (x.shape, x.dtype) == (old.shape, old.dtype)
        and draw.results[number][0] == "call"
    ]
    if fits and draw.chance(0.7):
        draw.states[state.number] = draw.choice(fits)
        return
    x = draw.pick(lambda x: x.dtype == old.dtype and bool(x.numel()))
    if x is not None and draw.call(Shifted(), state, x):
        draw.states[state.number] = draw.last.number


def with_fitting_states(program: Program) -> Program:
    """Without the states whose new values have other shapes in some runs."""
    values = [program.values(run) for run in range(len(program.runs))]
    states = {
        number: output
        for number, output in program.states.items()
        if all(some[output].shape == some[number].shape for some in values)
    }
    return replace(program, states=states)
