"""
Pads, element by element.

The index maps and sizes are not those of `padc.ir.padding`: independent on purpose.
Which amounts are legal is asked there, as the ops' verifiers do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from padc.backends.reference.tcp.evaluator import Value, evaluates
from padc.ir import padding, tcp


def pad(
    x: torch.Tensor,
    fill: float | int,
    lower: Sequence[int],
    upper: Sequence[int],
    interior: Sequence[int],
) -> torch.Tensor:
    """
    `tcp.pad`: write the elements that are not cropped to a tensor of fills.

    Raises ValueError if the amounts crop more than there is.
    """
    shape: list[int] = []
    for size, low, high, between in zip(x.shape, lower, upper, interior, strict=True):
        padding.check_constant(size, low, high, between)
        shape.append(low + size + max(size - 1, 0) * between + high)
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
    op_type: type[tcp.BorderPadOp],
    lower: Sequence[int],
    upper: Sequence[int],
) -> torch.Tensor:
    """
    A pad whose border repeats elements of the input, dimension by dimension.

    The result has memory of its own, as PyTorch's: an ATen op after it that keeps the
    strides of its operand writes each element once. ValueError if the amounts are not
    legal.
    """
    x = x.clone(memory_format=torch.contiguous_format)
    for dim, (low, high) in enumerate(zip(lower, upper, strict=True)):
        if (low, high) != (0, 0):
            size = x.shape[dim]
            op_type.check_amounts(size, low, high)
            index = torch.as_tensor(padded_positions(size, MODES[op_type], low, high))
            x = x.index_select(dim, index)
    return x


NumpyMode: TypeAlias = Literal["edge", "reflect", "symmetric", "wrap"]

MODES: Mapping[type[tcp.BorderPadOp], NumpyMode] = {
    tcp.CircularPadOp: "wrap",
    tcp.ReflectionPadOp: "reflect",
    tcp.ReplicationPadOp: "edge",
    tcp.SymmetricPadOp: "symmetric",
}
"""The modes of `numpy.pad`."""


def padded_positions(
    size: int, mode: NumpyMode, lower: int, upper: int
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


@evaluates(*tcp.BORDER_PADS)
def evaluate_border_pad(op: tcp.BorderPadOp, args: Sequence[Value]) -> Sequence[Value]:
    x, *amounts = args
    lower, upper, _ = _expansions(op, amounts)
    return [border_pad(x, type(op), lower, upper)]
