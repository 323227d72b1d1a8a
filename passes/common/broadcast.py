"""The rule of broadcasting."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import DYNAMIC_INDEX


def broadcast(a: Sequence[int], b: Sequence[int]) -> list[int]:
    """
    The shape of two tensors that broadcast.

    Of a dynamic size and a known one, it has the known one, unless that is 1.
    """
    rank = max(len(a), len(b))
    a, b = [1] * (rank - len(a)) + [*a], [1] * (rank - len(b)) + [*b]
    return [
        y if x == 1 or (x == DYNAMIC_INDEX and y != 1) else x
        for x, y in zip(a, b, strict=True)
    ]
