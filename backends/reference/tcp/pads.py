"""
Pads, element by element.

The index maps are numpy's, not those of `padc.ir.padding`: independent on purpose.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch

from padc.backends.reference.tcp.table import Evaluator, Value, evaluates
from padc.ir import padding, tcp
from padc.ir.tcp import Check


def pad(
    x: torch.Tensor,
    fill: float | int,
    lower: Sequence[int],
    upper: Sequence[int],
    interior: Sequence[int],
) -> torch.Tensor:
    """
    `tcp.pad`: spread the elements over a tensor of fills, as far as it reaches.

    ValueError where the amounts crop more than there is.
    """
    shape: list[int] = []
    for amounts in zip(x.shape, lower, upper, interior, strict=True):
        padding.check_constant(*amounts)
        shape.append(padding.padded_size(*amounts))
    result = torch.full(shape, fill, dtype=x.dtype)
    sources: list[slice] = []
    targets: list[slice] = []
    for size, low, between, new_size in zip(
        x.shape, lower, interior, shape, strict=True
    ):
        step = between + 1
        # Element t goes to low + t * step, which must be from 0 to new_size - 1.
        first = max(0, -(low // step))
        last = min(size - 1, (new_size - 1 - low) // step)
        if last < first:
            return result
        sources.append(slice(first, last + 1))
        targets.append(slice(low + first * step, low + last * step + 1, step))
    result[tuple(targets)] = x[tuple(sources)]
    return result


def border_pad(
    x: torch.Tensor,
    check: Check,
    mode: Literal["edge", "reflect", "wrap"],
    lower: Sequence[int],
    upper: Sequence[int],
) -> torch.Tensor:
    """
    A pad that reads its input: one dimension after the other, in a mode of `numpy.pad`.

    `check(size, lower, upper)` raises ValueError where the amounts are not legal.
    """
    for dim, (low, high) in enumerate(zip(lower, upper, strict=True)):
        if (low, high) != (0, 0):
            check(x.shape[dim], low, high)
            index = torch.as_tensor(padded_positions(x.shape[dim], mode, low, high))
            x = x.index_select(dim, index)
    return x


def padded_positions(
    size: int, mode: Literal["edge", "reflect", "wrap"], lower: int, upper: int
) -> npt.NDArray[np.int64]:
    """The positions 0 to `size - 1`, padded; only "wrap" crops before it adds."""
    inside = slice(max(-lower, 0), size - max(-upper, 0))
    added = max(lower, 0), max(upper, 0)
    positions = np.arange(size)
    if mode == "wrap":
        positions = positions[inside]
        return np.pad(positions, added, mode) if any(added) else positions
    positions = np.pad(positions, added, mode)
    return positions[max(-lower, 0) : len(positions) - max(-upper, 0)]


@evaluates(tcp.PadOp)
def evaluate_pad(op: tcp.PadOp, args: Sequence[Value]) -> Sequence[Value]:
    x, fill, *amounts = args
    if not x.is_floating_point():
        # The scalar is a bit pattern: signless in the IR, read as the dtype here.
        bits = torch.iinfo(x.dtype).bits if x.dtype != torch.bool else 1
        fill = torch.tensor(fill % 2**bits, dtype=torch.uint64).to(x.dtype).item()
    return [pad(x, fill, *_expansions(op, amounts))]


def _expansions(op: tcp.ExpandOp, amounts: Sequence[int]) -> list[list[int]]:
    """Lower, upper and interior amounts, the dynamic ones from `amounts` in order."""
    dynamic = iter(amounts)
    return [
        [amount if isinstance(amount, int) else next(dynamic) for amount in expansion]
        for expansion in (
            op.lower_expansion,
            op.upper_expansion,
            op.interior_expansion,
        )
    ]


def _border_pad(mode: Literal["edge", "reflect", "wrap"]) -> Evaluator:
    def evaluate(op: tcp.BorderPadOp, args: Sequence[Value]) -> Sequence[Value]:
        x, *amounts = args
        lower, upper, _ = _expansions(op, amounts)
        check = type(op).CHECK
        return [border_pad(x, check, mode, lower, upper)]

    return evaluate


evaluates(tcp.CircularPadOp)(_border_pad("wrap"))
evaluates(tcp.ReflectionPadOp)(_border_pad("reflect"))
evaluates(tcp.ReplicationPadOp)(_border_pad("edge"))
