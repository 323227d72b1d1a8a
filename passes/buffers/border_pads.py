"""
Pads that repeat their input, as buffers: a copy of the input, and row copies around it.

The borders are swept dimension by dimension, the last first. All sweeps except the
first therefore copy whole rows of the padded buffer to other rows of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.ir import SSAValue

from padc.ir import tcp
from padc.ir.tcp import Amount, tensor_type
from padc.passes.buffers.function_bufferizer import FunctionBufferizer, bufferizes, cast
from padc.passes.buffers.memref_builder import MemRefBuilder, memref_type
from padc.passes.size_builder import never_crops

Sweep: TypeAlias = (
    "Callable[[MemRefBuilder, SSAValue, int, Amount, Amount, Amount], None]"
)
"""
Writes the lower and the upper border of one dimension of a padded buffer.

It takes a view of the buffer that is complete in that dimension, the dimension, and its
lower amount, input size and upper amount.
"""


def mirrored(depth: Callable[[MemRefBuilder, Amount], Amount]) -> Sweep:
    """
    A sweep that copies rows across the edge of the input.

    Row `i` outside of the input (0 is next to the edge) equals row `depth(i)` inside.
    """

    def sweep(
        build: MemRefBuilder,
        part: SSAValue,
        dim: int,
        lower: Amount,
        size: Amount,
        upper: Amount,
    ) -> None:
        def below(inner: MemRefBuilder, i: Amount) -> None:
            source = inner.add(lower, depth(inner, i))
            target = inner.sub(inner.sub(lower, 1), i)
            copy_row(inner, part, dim, source, target)

        def above(inner: MemRefBuilder, i: Amount) -> None:
            end = inner.add(lower, size)
            source = inner.sub(inner.sub(end, 1), depth(inner, i))
            copy_row(inner, part, dim, source, inner.add(end, i))

        build.loop(lower, below)
        build.loop(upper, above)

    return sweep


def copy_row(
    build: MemRefBuilder, x: SSAValue, dim: int, source: Amount, target: Amount
) -> None:
    build.copy(build.part(x, dim, source, 1), build.part(x, dim, target, 1))


def wrapped(
    build: MemRefBuilder,
    part: SSAValue,
    dim: int,
    lower: Amount,
    size: Amount,
    upper: Amount,
) -> None:
    """A sweep that copies the rows at the other end of the input, as one block."""
    for source, target, count in (
        (size, 0, lower),
        (lower, build.add(lower, size), upper),
    ):
        if count != 0:
            build.copy(
                build.part(part, dim, source, count),
                build.part(part, dim, target, count),
            )


@dataclass(frozen=True)
class Mode:
    """How a pad mode makes its borders."""

    sweep: Sweep
    crops_first: bool
    """Whether negative amounts crop before the borders are made, instead of after."""


MODES: dict[type[tcp.BorderPadOp], Mode] = {
    tcp.ReplicationPadOp: Mode(mirrored(lambda build, i: 0), crops_first=False),
    tcp.ReflectionPadOp: Mode(mirrored(lambda build, i: build.add(i, 1)), False),
    tcp.CircularPadOp: Mode(wrapped, crops_first=True),
}


@bufferizes(*MODES)
def lower_border_pad(f: FunctionBufferizer, op: tcp.BorderPadOp) -> SSAValue:
    mode = MODES[type(op)]
    lower, upper = (
        [a if isinstance(a, int) else f.values[a] for a in expansion]
        for expansion in (op.lower_expansion, op.upper_expansion)
    )
    x = f.values[op.input]
    if mode.crops_first:
        x = cropped(f.build, x, lower, upper)
    y = padded(f.build, x, f.build.added(lower), f.build.added(upper), mode.sweep)
    if not mode.crops_first:
        y = cropped(f.build, y, lower, upper)
    return cast(f.build, y, tensor_type(op.result))


def padded(
    build: MemRefBuilder,
    x: SSAValue,
    lower: Sequence[Amount],
    upper: Sequence[Amount],
    sweep: Sweep,
) -> SSAValue:
    """A new buffer that holds `x` and the borders that `sweep` makes; no amount crops.

    The result is `x` itself if all amounts are 0.
    """
    if all(amount == 0 for amount in (*lower, *upper)):
        return x
    sizes = build.sizes(x)
    result = build.alloc(build.padded(lower, sizes, upper), memref_type(x).element_type)
    full = build.sizes(result)
    if 0 in full:
        return result
    build.copy(x, build.subview(result, lower, sizes))
    offsets, extents = list(lower), list(sizes)
    for dim in reversed(range(len(sizes))):
        offsets[dim], extents[dim] = 0, full[dim]
        if lower[dim] != 0 or upper[dim] != 0:
            part = build.subview(result, offsets, extents)
            sweep(build, part, dim, lower[dim], sizes[dim], upper[dim])
    return result


def cropped(
    build: MemRefBuilder, x: SSAValue, lower: Sequence[Amount], upper: Sequence[Amount]
) -> SSAValue:
    """The view of `x` that negative amounts leave."""
    if never_crops(*lower, *upper):
        return x
    offsets, sizes = build.cropped(lower, build.sizes(x), upper)
    return build.subview(x, offsets, sizes)
