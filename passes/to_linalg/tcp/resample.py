"""
Resampling: tables of positions and weights for each dimension, then weighted sums.

The program computes the tables, since sizes may be known only when it runs. The
formulas are those of `padc.ir.resampling`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, f64, i32
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineExpr

from padc.ir import resampling, tcp
from padc.ir.arithmetic import SymbolicInteger, unwrapped
from padc.ir.element_types import is_unsigned
from padc.ir.tcp import Amount, ResampleMode, Sampling, tensor_type
from padc.passes.common.linalg_builder import (
    Body,
    LinalgBuilder,
    element_type,
)
from padc.passes.to_linalg.build.numbers import Number, lifted, make_real
from padc.passes.to_linalg.build.scalars import (
    as_index,
    integer,
    real_type,
    rounded,
    total_type,
    widened,
)
from padc.passes.to_linalg.build.taps import TapTable, sum_of_taps, taps_of_point
from padc.passes.to_linalg.tcp.linalg_lowering import lowers


@lowers(tcp.ResampleOp)
def lower_resample(build: LinalgBuilder, op: tcp.ResampleOp) -> SSAValue:
    x = build.signless(op.input)
    type, unsigned = element_type(x), is_unsigned(op.input_type.element_type)
    real = real_type(type)
    axes = [
        Axis(dim, build.size(x, dim), size, op.sampling(i))
        for i, (dim, size) in enumerate(
            zip(op.dims.get_values(), op.sizes, strict=True)
        )
    ]
    mode = op.mode.data
    if mode is ResampleMode.AREA or op.antialias is not None:
        for axis in axes:
            if op.antialias is not None and axis.size == axis.new_size:
                continue
            windows = (area if mode is ResampleMode.AREA else antialiased)(
                build, axis, real
            )
            x = window_sums(build, x, axis, windows, total_type(type), unsigned)
        return converted(build, x, type, unsigned)
    factors = [factor for axis in axes if (factor := repeats(axis, real))]
    if len(factors) == len(axes):
        return repeated(build, x, axes, factors)
    # Each pass over the input costs more than the few taps that two dimensions have
    # together; cubic ones have 16.
    parts = [[axis] for axis in axes] if mode is ResampleMode.CUBIC else [axes]
    for i, part in enumerate(parts):
        result = type if i == len(parts) - 1 else total_type(type)
        tables = [taps(build, axis, real) for axis in part]
        x = tap_sums(build, x, part, tables, result, unsigned)
    return x


@dataclass(frozen=True)
class Axis:
    """A dimension that is resampled."""

    dim: int
    size: Amount
    new_size: Amount
    sampling: Sampling

    def sizes(self, build: LinalgBuilder) -> tuple[SymbolicInteger, SymbolicInteger]:
        """The sizes as operands of formulas."""
        return build.wrap(self.size), build.wrap(self.new_size)


def converted(
    build: LinalgBuilder, x: SSAValue, type: Attribute, unsigned: bool
) -> SSAValue:
    """The sums as `type`, or the input itself if nothing was summed."""
    if element_type(x) == type:
        return x
    dims = [AffineExpr.dimension(i) for i in range(tensor_type(x).get_num_dims())]
    return build.compute(
        build.sizes(x),
        type,
        lambda inner, args: rounded(inner, args[0], type),
        [(x, dims)],
    )


# A few elements around each coordinate.


def repeats(axis: Axis, real: AnyFloat) -> int | None:
    """How often each input element is repeated, in order; None if that varies."""
    size, new_size = axis.size, axis.new_size
    if axis.sampling.mode is not ResampleMode.NEAREST:
        return None
    if not isinstance(size, int) or not isinstance(new_size, int) or new_size % size:
        return None
    factor = new_size // size
    # Rounded coordinates may be one element off.
    precision = np.float64 if real == f64 else np.float32
    ((positions, _),) = resampling.taps(size, new_size, axis.sampling, precision)
    return factor if (positions == np.arange(new_size) // factor).all() else None


def repeated(
    build: LinalgBuilder, x: SSAValue, axes: Sequence[Axis], factors: Sequence[int]
) -> SSAValue:
    """Each element of `x` several times along each of `axes`."""
    sizes = build.sizes(x)
    for axis in axes:
        sizes[axis.dim] = axis.new_size

    def element(inner: LinalgBuilder, _: Sequence[SSAValue]) -> SSAValue:
        indices = [inner.loop_index(dim) for dim in range(len(sizes))]
        for axis, factor in zip(axes, factors, strict=True):
            if factor > 1:
                divisor = inner.index(factor)
                quotient = arith.DivUIOp(indices[axis.dim], divisor)
                indices[axis.dim] = inner.insert(quotient)
        return inner.extract(x, indices)

    return build.compute(sizes, element_type(x), element)


def taps(build: LinalgBuilder, axis: Axis, real: AnyFloat) -> list[TapTable]:
    """The tables of a dimension, in one loop."""
    count = len(resampling.OFFSETS[axis.sampling.mode])
    weighted = axis.sampling.mode is not ResampleMode.NEAREST

    def table(inner: LinalgBuilder, _: Sequence[SSAValue]) -> list[SSAValue]:
        j = inner.wrap(inner.loop_index(0))
        found = resampling.interpolation(
            j, *axis.sizes(build), axis.sampling, make_real(inner, real)
        )
        indices = [position.value for position, _ in found]
        weights = [weight.value for _, weight in found if weight is not None]
        return [*indices, *weights]

    types = [*[i32] * count, *[real] * (count if weighted else 0)]
    tables = tabulated(build, axis.new_size, types, table)
    weights = tables[count:] if weighted else [None]
    return [TapTable(*tap) for tap in zip(tables[:count], weights, strict=True)]


def tabulated(
    build: LinalgBuilder, size: Amount, types: Sequence[Attribute], body: Body
) -> list[SSAValue]:
    """Vectors of `size` elements of these types, computed in one loop."""
    at = [AffineExpr.dimension(0)]
    outputs = [(build.empty([size], type), at) for type in types]
    return build.generic([], outputs, [False], body)


def tap_sums(
    build: LinalgBuilder,
    x: SSAValue,
    axes: Sequence[Axis],
    tables: Sequence[Sequence[TapTable]],
    result: Attribute,
    unsigned: bool,
) -> SSAValue:
    """The weighted sums of the taps of all `axes`, in one loop."""
    sizes = build.sizes(x)
    inputs: list[tuple[SSAValue, list[AffineExpr]]] = []
    for axis, taps in zip(axes, tables, strict=True):
        sizes[axis.dim] = axis.new_size
        at = [AffineExpr.dimension(axis.dim)]
        inputs += [(each, at) for tap in taps for each in tap.tensors]
    weighted = any(tap.weights for taps in tables for tap in taps)
    total = total_type(element_type(x)) if weighted else element_type(x)

    def element(inner: LinalgBuilder, args: Sequence[SSAValue]) -> SSAValue:
        taps = taps_of_point(inner, tables, args, total)
        indices = [inner.loop_index(dim) for dim in range(len(sizes))]

        def read(at: Sequence[SSAValue]) -> SSAValue:
            for axis, index in zip(reversed(axes), at, strict=True):
                indices[axis.dim] = index
            return widened(inner, inner.extract(x, indices), total, unsigned)

        return rounded(inner, sum_of_taps(inner, taps[::-1], read), result)

    return build.compute(sizes, result, element, inputs)


# Windows of several elements, of different lengths.


@dataclass(frozen=True)
class WindowTable:
    """For each output element: its window's start, length and weights."""

    longest: Amount
    starts: SSAValue
    lengths: SSAValue
    weights: SSAValue
    """One for each window, or `[longest, windows]`."""


MOST_TRIED = 2**16
"""The most windows of which each is looked at for the longest one."""


def area(build: LinalgBuilder, axis: Axis, real: AnyFloat) -> WindowTable:
    """The windows of an adaptive pool; a window's weights are equal."""
    size, new_size = axis.sizes(build)

    def table(inner: LinalgBuilder, _: Sequence[SSAValue]) -> list[SSAValue]:
        j = inner.wrap(inner.loop_index(0))
        start, end = resampling.area_window(j, size, new_size)
        length = end - start
        weight = 1 / make_real(inner, real)(length)
        return [
            integer(inner, start.value),
            integer(inner, length.value),
            lifted(inner, weight, real).value,
        ]

    new, longest = axis.new_size, resampling.longest_area(size, new_size).value
    if isinstance(axis.size, int) and isinstance(new, int) and new < MOST_TRIED:
        longest = max(map(len, resampling.area_windows(axis.size, new)))
    tables = tabulated(build, axis.new_size, [i32, i32, real], table)
    return WindowTable(longest, *tables)


def antialiased(build: LinalgBuilder, axis: Axis, real: AnyFloat) -> WindowTable:
    """Windows of a filter, stretched over the input elements per output element."""
    size, new_size = axis.sizes(build)

    def bounds(inner: LinalgBuilder, _: Sequence[SSAValue]) -> list[SSAValue]:
        j = inner.wrap(inner.loop_index(0))
        start, end, center = resampling.antialiased_window(
            j, size, new_size, axis.sampling, make_real(inner, real)
        )
        return [start.value, (end - start).value, center.value]

    starts, lengths, centers = tabulated(build, axis.new_size, [i32, i32, real], bounds)
    longest = resampling.longest_antialiased(size, new_size, axis.sampling)
    longest = unwrapped(longest)
    weights = filter_weights(build, axis, longest, [starts, lengths, centers], real)
    return WindowTable(longest, starts, lengths, normalized(build, weights, axis, real))


def filter_weights(
    build: LinalgBuilder,
    axis: Axis,
    longest: Amount,
    windows: Sequence[SSAValue],
    real: AnyFloat,
) -> SSAValue:
    """`[longest, windows]` in f64: the filter's values, 0 after a window's end."""
    mode = axis.sampling.mode
    step = resampling.step(*axis.sizes(build), axis.sampling, make_real(build, real))
    stretch = resampling.stretch(step)
    stretch = stretch.to(f64) if isinstance(stretch, Number) else float(stretch)

    def weight(inner: LinalgBuilder, args: Sequence[SSAValue]) -> SSAValue:
        start, length = (Number(inner, arg, i32) for arg in args[:2])
        center = Number(inner, args[2], real).to(f64)
        k = inner.wrap(inner.loop_index(0))
        position = (start + k).to(f64)
        value = resampling.antialiased_weight(mode, position, center, stretch)
        return (length > k).select(value, 0.0).value

    rows = [AffineExpr.dimension(1)]
    sizes = [longest, axis.new_size]
    return build.compute(sizes, f64, weight, [(window, rows) for window in windows])


def normalized(
    build: LinalgBuilder, weights: SSAValue, axis: Axis, real: AnyFloat
) -> SSAValue:
    """Weights `[longest, windows]`; those of each window sum to 1."""
    rows = [AffineExpr.dimension(1)]
    table = [AffineExpr.dimension(0), AffineExpr.dimension(1)]
    zeros = build.filled([axis.new_size], build.constant(0, f64))
    (sums,) = build.generic(
        [(weights, table)],
        [(zeros, rows)],
        [True, False],
        lambda inner, args: [inner.insert(arith.AddfOp(args[0], args[1]))],
    )
    return build.compute(
        build.sizes(weights),
        real,
        lambda inner, args: rounded(
            inner, inner.insert(arith.DivfOp(args[0], args[1])), real
        ),
        [(weights, table), (sums, rows)],
    )


def window_sums(
    build: LinalgBuilder,
    x: SSAValue,
    axis: Axis,
    windows: WindowTable,
    total: AnyFloat,
    unsigned: bool,
) -> SSAValue:
    """The weighted sums of windows along one dimension."""
    sizes = build.sizes(x)
    sizes[axis.dim] = axis.new_size
    # The loop over taps is around the loop over the last dimension.
    tap = len(sizes) - 1
    at = [AffineExpr.dimension(i) for i in range(len(sizes) + 1)]
    result = [*at[:tap], at[-1]]
    window = result[axis.dim]
    weighed = (
        [at[tap], window]
        if len(tensor_type(windows.weights).get_shape()) > 1
        else [window]
    )

    def plus(inner: LinalgBuilder, args: Sequence[SSAValue]) -> list[SSAValue]:
        start, length, weight, _, sum = args
        k = integer(inner, inner.loop_index(tap))
        position = inner.insert(arith.AddiOp(start, k))
        last = inner.wrap(axis.size) - 1
        last = integer(inner, last.value)
        position = inner.insert(arith.MinSIOp(position, last))
        indices: list[Amount] = [
            inner.loop_index(i) for i in range(len(at)) if i != tap
        ]
        indices[axis.dim] = as_index(inner, position)
        element = widened(inner, inner.extract(x, indices), total, unsigned)
        part = Number(inner, widened(inner, weight, total), total)
        part *= Number(inner, element, total)
        inside = Number(inner, k, i32) < Number(inner, length, i32)
        return [(Number(inner, sum, total) + inside.select(part, 0.0)).value]

    # Only its shape matters: it gives the number of taps.
    shape = build.empty([windows.longest], i32)
    zeros = build.filled(sizes, build.constant(0, total))
    (y,) = build.generic(
        [
            (windows.starts, [window]),
            (windows.lengths, [window]),
            (windows.weights, weighed),
            (shape, [at[tap]]),
        ],
        [(zeros, result)],
        [i == tap for i in range(len(at))],
        plus,
    )
    return y
