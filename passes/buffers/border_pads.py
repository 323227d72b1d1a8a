"""
Pads that repeat their input, as buffers: a copy of the input, and row copies around it.

The borders are swept dimension by dimension, the last first. All sweeps except the
first therefore copy whole rows of the padded buffer to other rows of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from xdsl.ir import SSAValue

from padc.ir import tcp
from padc.ir.tcp import Amount, tensor_type
from padc.passes.buffers.function_bufferizer import FunctionBufferizer, bufferizes, cast
from padc.passes.common.memref_builder import MemRefBuilder, memref_type
from padc.passes.common.size_builder import never_crops

Sweep: TypeAlias = (
    "Callable[[MemRefBuilder, SSAValue, int, Amount, Amount, Amount], None]"
)
"""
Writes the lower and the upper border of one dimension of a padded buffer.

It takes a view of the buffer that is complete in that dimension, the dimension, and its
lower amount, input size and upper amount.
"""


def sweep_of(border: tcp.Border) -> Sweep:
    """The sweep that writes what `border` says."""
    return copied_block(border) if border.opposite else mirrored_rows(border)


def mirrored_rows(border: tcp.Border) -> Sweep:
    """A sweep that copies row by row, across the edge that the border adjoins."""

    def sweep(
        build: MemRefBuilder,
        part: SSAValue,
        dim: int,
        lower: Amount,
        size: Amount,
        upper: Amount,
    ) -> None:
        def below(inner: MemRefBuilder, row: Amount) -> None:
            start, i = inner.wrap(lower), inner.wrap(row)
            source = start + (i * border.step + border.first)
            copy_rows(inner, part, dim, source.value, (start - 1 - i).value, 1)

        def above(inner: MemRefBuilder, row: Amount) -> None:
            end, i = inner.wrap(lower) + inner.wrap(size), inner.wrap(row)
            source = end - 1 - (i * border.step + border.first)
            copy_rows(inner, part, dim, source.value, (end + i).value, 1)

        build.loop(lower, below)
        build.loop(upper, above)

    return sweep


def copied_block(border: tcp.Border) -> Sweep:
    """A sweep that copies all rows at once, from the opposite end of the input."""

    def sweep(
        build: MemRefBuilder,
        part: SSAValue,
        dim: int,
        lower: Amount,
        size: Amount,
        upper: Amount,
    ) -> None:
        last, first = build.sub(size, border.first), build.add(lower, border.first)
        if lower != 0:
            copy_rows(build, part, dim, last, 0, lower)
        if upper != 0:
            copy_rows(build, part, dim, first, build.add(lower, size), upper)

    return sweep


def copy_rows(
    build: MemRefBuilder,
    x: SSAValue,
    dim: int,
    source: Amount,
    target: Amount,
    count: Amount,
) -> None:
    build.copy(build.part(x, dim, source, count), build.part(x, dim, target, count))


@bufferizes(*tcp.BORDER_PADS)
def lower_border_pad(f: FunctionBufferizer, op: tcp.BorderPadOp) -> SSAValue:
    lower, upper = (
        [a if isinstance(a, int) else f.values[a] for a in expansion]
        for expansion in (op.lower_expansion, op.upper_expansion)
    )
    x = f.values[op.input]
    if op.CROPS_FIRST:
        x = cropped(f.build, x, lower, upper)
    added = f.build.added(lower), f.build.added(upper)
    y = padded(f.build, x, *added, sweep_of(op.BORDER))
    if not op.CROPS_FIRST:
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
