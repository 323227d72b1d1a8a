"""Random choices, of which random programs are made."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor


class Choices:
    """Choices that a generator of random numbers makes."""

    random: random.Random
    FACTOR: ClassVar[int] = 1
    """Integers are multiples of it."""

    def integer(self, least: int, most: int) -> int:
        return self.random.randint(least, most)

    def integers(self, count: int, least: int, most: int) -> list[int]:
        return [self.integer(least, most) for _ in range(count)]

    def chance(self, often: float) -> bool:
        return self.random.random() < often

    def choice(self, choices: Sequence[Any]) -> Any:
        return self.random.choice(choices)

    def numbers(self, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        """Multiples of 1/4 from -2 to 2: sums of a few products are exact in float32."""
        generator = torch.Generator().manual_seed(self.integer(0, 2**30))
        whole = torch.randint(-8, 9, tuple(shape), generator=generator)
        if dtype == torch.bool:
            return whole > 0
        if not dtype.is_floating_point:
            return (whole * self.FACTOR).to(dtype)
        return (whole / 4).to(dtype)
