"""
Pads as buffers: the padded buffer, a copy into its interior, and what is around.

A border that repeats the input is swept dimension by dimension, the last first, so
that all but the first sweep copy whole rows of the padded buffer within it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from xdsl.dialects import tensor
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import PassFailedException

from padc.ir import tcp
from padc.ir.tcp import Amount, tensor_type
from padc.passes.buffers.bufferization import Bufferization, bufferizes, cast
from padc.passes.buffers.builder import BufferBuilder, memref_type
from padc.passes.size_builder import never_crops

Sweep: TypeAlias = (
    "Callable[[BufferBuilder, SSAValue, int, Amount, Amount, Amount], None]"
)
"""
Fills what is below and above in one dimension of a padded buffer.

It takes the part of the buffer that is padded or within the input in all others, the
dimension, and the lower amount, the input's size and the upper amount there.
"""


def pad(
    build: BufferBuilder,
    x: SSAValue,
    fill: SSAValue,
    lower: Sequence[Amount],
    upper: Sequence[Amount],
    interior: Sequence[Amount],
) -> SSAValue:
    """`tcp.pad`: alloc, fill, subview, copy; or a view of `x` where it only crops."""
    low, high = build.added(lower), build.added(upper)
    if all(amount == 0 for amount in interior):
        x = cropped(build, x, lower, upper)
        if all(amount == 0 for amount in (*low, *high)):
            return x
        return filled(build, x, fill, low, high, interior)
    # Amounts may crop what was inserted: that is cropped from the padded buffer.
    padded = filled(build, x, fill, low, high, interior)
    return cropped(build, padded, lower, upper)


def filled(
    build: BufferBuilder,
    x: SSAValue,
    fill: SSAValue,
    lower: Sequence[Amount],
    upper: Sequence[Amount],
    interior: Sequence[Amount],
) -> SSAValue:
    """A new buffer: `x`, and the fill around and between its elements."""
    sizes = build.sizes(x)
    steps = [build.add(amount, 1) for amount in interior]
    padded = build.alloc(
        build.padded(lower, build.spread(sizes, interior), upper),
        memref_type(x).element_type,
    )
    build.fill(fill, padded)
    build.copy(x, build.subview(padded, lower, sizes, steps))
    return padded


def cropped(
    build: BufferBuilder, x: SSAValue, lower: Sequence[Amount], upper: Sequence[Amount]
) -> SSAValue:
    """A view of `x` without what negative amounts remove."""
    if never_crops(*lower, *upper):
        return x
    offsets, sizes = build.cropped(lower, build.sizes(x), upper)
    return build.subview(x, offsets, sizes)


def border_pad(
    build: BufferBuilder,
    x: SSAValue,
    lower: Sequence[Amount],
    upper: Sequence[Amount],
    sweep: Sweep,
) -> SSAValue:
    """
    A new buffer around a copy of `x`, its borders made by `sweep`.

    Negative amounts crop the padded buffer: a reflection shows elements that are
    cropped on the other side.
    """
    low, high = build.added(lower), build.added(upper)
    if all(amount == 0 for amount in (*low, *high)):
        return cropped(build, x, lower, upper)
    sizes = build.sizes(x)
    padded = build.alloc(build.padded(low, sizes, high), memref_type(x).element_type)
    full = build.sizes(padded)
    if 0 in full:
        return cropped(build, padded, lower, upper)
    build.copy(x, build.subview(padded, low, sizes))
    offsets, extents = list(low), list(sizes)
    for dim in reversed(range(len(sizes))):
        offsets[dim], extents[dim] = 0, full[dim]
        if low[dim] != 0 or high[dim] != 0:
            part = build.subview(padded, offsets, extents)
            sweep(build, part, dim, low[dim], sizes[dim], high[dim])
    return cropped(build, padded, lower, upper)


def mirror(depth: Callable[[BufferBuilder, Amount], Amount]) -> Sweep:
    """
    Row i outside of the input is that `depth(i)` behind the border; i is 0 beside it.
    """

    def sweep(
        build: BufferBuilder,
        part: SSAValue,
        dim: int,
        lower: Amount,
        size: Amount,
        upper: Amount,
    ) -> None:
        def below(inner: BufferBuilder, i: Amount) -> None:
            source = inner.add(lower, depth(inner, i))
            target = inner.sub(inner.sub(lower, 1), i)
            copy_row(inner, part, dim, source, target)

        def above(inner: BufferBuilder, i: Amount) -> None:
            end = inner.add(lower, size)
            source = inner.sub(inner.sub(end, 1), depth(inner, i))
            copy_row(inner, part, dim, source, inner.add(end, i))

        build.loop(lower, below)
        build.loop(upper, above)

    return sweep


replicate = mirror(lambda build, i: 0)
reflect = mirror(lambda build, i: build.add(i, 1))


def wrap(
    build: BufferBuilder,
    part: SSAValue,
    dim: int,
    lower: Amount,
    size: Amount,
    upper: Amount,
) -> None:
    for source, target, count in (
        (size, 0, lower),
        (lower, build.add(lower, size), upper),
    ):
        if count != 0:
            build.copy(
                build.part(part, dim, source, count),
                build.part(part, dim, target, count),
            )


def copy_row(
    build: BufferBuilder, x: SSAValue, dim: int, source: Amount, target: Amount
) -> None:
    build.copy(build.part(x, dim, source, 1), build.part(x, dim, target, 1))


@bufferizes(tcp.PadOp)
def lower_pad(f: Bufferization, op: tcp.PadOp) -> SSAValue:
    lower, upper, interior = amounts(f, op)
    fill = f.values[op.fill]
    y = pad(f.build, f.values[op.input], fill, lower, upper, interior)
    return cast(f.build, y, tensor_type(op.result))


@bufferizes(tcp.ReplicationPadOp, tcp.ReflectionPadOp)
def lower_border_pad(f: Bufferization, op: tcp.BorderPadOp) -> SSAValue:
    lower, upper, _ = amounts(f, op)
    sweep = replicate if isinstance(op, tcp.ReplicationPadOp) else reflect
    y = border_pad(f.build, f.values[op.input], lower, upper, sweep)
    return cast(f.build, y, tensor_type(op.result))


@bufferizes(tcp.CircularPadOp)
def lower_circular_pad(f: Bufferization, op: tcp.CircularPadOp) -> SSAValue:
    """Negative amounts crop before what is left wraps around."""
    lower, upper, _ = amounts(f, op)
    x = cropped(f.build, f.values[op.input], lower, upper)
    y = border_pad(f.build, x, f.build.added(lower), f.build.added(upper), wrap)
    return cast(f.build, y, tensor_type(op.result))


@bufferizes(tensor.PadOp)
def lower_tensor_pad(f: Bufferization, op: tensor.PadOp) -> SSAValue:
    yielded = op.region.block.last_op
    assert isinstance(yielded, tensor.YieldOp)
    (fill,) = yielded.operands
    if fill not in f.values:
        raise PassFailedException(
            "bufferize-tcp takes a 'tensor.pad' only with one value for all that it "
            "adds, from outside of its region"
        )
    lower = f.amounts(op.static_low.get_values(), op.low)
    upper = f.amounts(op.static_high.get_values(), op.high)
    none = [0] * len(lower)
    y = pad(f.build, f.values[op.source], f.values[fill], lower, upper, none)
    return cast(f.build, y, tensor_type(op.result))


def amounts(f: Bufferization, op: tcp.ExpandOp) -> list[list[Amount]]:
    """Lower, upper and interior amounts."""
    return [
        [a if isinstance(a, int) else f.values[a] for a in expansion]
        for expansion in (
            op.lower_expansion,
            op.upper_expansion,
            op.interior_expansion,
        )
    ]
