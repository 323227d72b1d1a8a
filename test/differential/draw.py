# pyright: basic
"""A program that is being drawn."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import torch
from choices import Choices
from differential.program import (
    REFUSALS,
    Call,
    Program,
    Ref,
    links,
    renumbered,
    resolved,
    without_dead,
)
from torch import Tensor


class Draw(Choices):
    """
    Values and calls so far; each call is run, so that the next one can fit.

    Results with more than `most_elements` elements are not drawn.
    """

    def __init__(self, seed: int, most_elements: int = 4096):
        self.random = random.Random(seed)
        self.most_elements = most_elements
        self.values: list[Tensor] = []
        self.inputs: list[Tensor] = []
        self.calls: list[Call] = []
        self.held: set[int] = set()
        """The inputs that the model holds, by their place in `inputs`."""
        self.states: dict[int, int] = {}
        """Values that are held and that the model changes, and their new values."""
        self.results: list[tuple[str, int]] = []
        """The key of each value: ("input", i) or ("call", i)."""

    def given(self, x: Tensor, held: bool = False) -> Ref:
        """A new input; with `held`, one that the model has."""
        if held:
            self.held.add(len(self.inputs))
        self.results.append(("input", len(self.inputs)))
        self.inputs.append(x)
        self.values.append(x)
        return Ref(len(self.values) - 1)

    def input(
        self, shape: Sequence[int], dtype: torch.dtype, special: float = 0
    ) -> Ref:
        """
        A new input; so often as `special` says, with infinite and NaN elements.

        Some are not contiguous.
        """
        x = self.numbers(shape, dtype)
        if dtype.is_floating_point and special and self.chance(special):
            self.scatter(x, [math.inf, -math.inf, math.nan])
        return self.given(self.with_strides(x) if self.chance(0.1) else x)

    def with_strides(self, x: Tensor) -> Tensor:
        """The same elements, in another order in memory or with others between them."""
        order = self.random.sample(range(x.dim()), x.dim())
        places = [order.index(dim) for dim in range(x.dim())]
        sizes = [x.shape[dim] for dim in order]
        step = self.integer(1, 2)
        memory = torch.zeros([*sizes, step], dtype=x.dtype)[..., 0]
        return memory.permute(places).copy_(x)

    def numbers(self, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        """Integers are larger sometimes, so that sums of narrow ones wrap around."""
        x = super().numbers(shape, dtype)
        is_whole = not dtype.is_floating_point and dtype != torch.bool
        return x * 15 if is_whole and self.chance(0.3) else x

    def scatter(self, x: Tensor, numbers: Sequence[float]) -> None:
        """Write some of `numbers` to random places of `x`."""
        flat = x.view(-1)
        for place in self.integers(self.integer(1, 3), 0, max(x.numel() - 1, 0)):
            flat[place : place + 1] = self.choice(numbers)

    def weight(self, shape: Sequence[int], dtype: torch.dtype) -> Ref:
        """An input that is a weight of the model, often."""
        return self.given(self.numbers(shape, dtype), self.chance(0.5))

    def pick(self, wanted: Callable[[Tensor], bool] = lambda x: True) -> Ref | None:
        """A random value that satisfies `wanted`, more likely a late one, or None."""
        numbers = [i for i, x in enumerate(self.values) if wanted(x)]
        if not numbers:
            return None
        place = max(self.integer(0, len(numbers) - 1) for _ in range(2))
        return Ref(numbers[place])

    def value(self, ref: Ref) -> Tensor:
        return self.values[ref.number]

    @property
    def last(self) -> Ref:
        """The value drawn last."""
        return Ref(len(self.values) - 1)

    def call(self, target: Any, *args: Any) -> bool:
        """
        Add a call, unless eager mode refuses it or its result is too large.

        Few empty results are kept: Core ML takes none as an output.
        """
        try:
            result = target(*resolved(args, self.values))
        except REFUSALS:
            return False
        count = result.numel()
        if count > self.most_elements or (not count and self.chance(0.95)):
            return False
        self.results.append(("call", len(self.calls)))
        self.calls.append(Call(target, args))
        self.values.append(result)
        return True

    def program(self, thread_counts: tuple[int, ...] = (1,)) -> Program:
        """What was drawn; values that no call uses are returned, and some others."""
        count = len(self.inputs)
        places = {
            number: i if kind == "input" else count + i
            for number, (kind, i) in enumerate(self.results)
        }
        calls = [renumbered(each, places) for each in self.calls]
        states = {places[old]: places[new] for old, new in self.states.items()}
        used = {link.number for call in calls for link in links(call.args)}
        total = count + len(calls)
        outputs = [
            number
            for number in range(count, total)
            if number not in used or self.chance(0.1) or number in states.values()
        ]
        return without_dead(
            Program(
                [list(self.inputs)],
                calls,
                outputs,
                frozenset(self.held),
                thread_counts,
                states,
            )
        )
