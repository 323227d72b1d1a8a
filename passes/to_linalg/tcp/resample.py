"""
Resampling: tables of positions and weights for each dimension, then weighted sums.

The tables are those of `padc.ir.resampling`, computed when the program runs, since
sizes may be known only then.
"""

from __future__ import annotations

import math as numbers
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import AnyFloat, f64, i32
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineExpr

from padc.ir import tcp
from padc.ir.element_types import is_unsigned
from padc.ir.resampling import area_windows
from padc.ir.tcp import Amount, Coordinates, ResampleMode, Sampling, tensor_type
from padc.passes.to_linalg.build.linalg_builder import LinalgBuilder, element_type
from padc.passes.to_linalg.build.scalars import (
    MOST,
    Real,
    Reals,
    as_index,
    integer,
    real_type,
    rounded,
    total_type,
    widened,
)
from padc.passes.to_linalg.tcp.table import lowers


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

    def kept(self, reals: Reals) -> SSAValue | bool:
        """Whether elements stay where they are, since there are as many as before."""
        if not self.sampling.keeps_equal:
            return False
        if isinstance(self.size, int) and isinstance(self.new_size, int):
            return self.size == self.new_size
        build = reals.build
        sizes = build.index(self.size), build.index(self.new_size)
        return build.insert(arith.CmpiOp(*sizes, "eq"))


def converted(
    build: LinalgBuilder, x: SSAValue, type: Attribute, unsigned: bool
) -> SSAValue:
    """Sums, or where there are none the input itself, as `type`."""
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


@dataclass(frozen=True)
class Tap:
    """For each new element, the position of an old one and its weight; None: 1."""

    position: SSAValue
    weight: SSAValue | None


def taps(build: LinalgBuilder, axis: Axis, real: AnyFloat) -> list[Tap]:
    """The tables of a dimension, in one loop."""
    mode, last = axis.sampling.mode, build.sub(axis.size, 1)
    counts = {ResampleMode.NEAREST: 1, ResampleMode.LINEAR: 2, ResampleMode.CUBIC: 4}
    count = counts[mode]
    weighted = mode is not ResampleMode.NEAREST
    outer = Reals(build, real)
    step = step_of(outer, axis)
    beside = either(outer, axis.kept(outer), 0.0, 1.0)

    def table(inner: LinalgBuilder, _: Sequence[SSAValue]) -> list[SSAValue]:
        reals = Reals(inner, real)
        at = coordinate(reals, axis.sampling, step)
        if mode is ResampleMode.LINEAR:
            at = reals.clamp(at, 0.0, MOST)
        low = reals.floor(at)
        fraction = reals.sub(at, low)
        match mode:
            case ResampleMode.LINEAR:
                offsets: Sequence[Real] = [0.0, beside]
                weights = [reals.sub(1.0, fraction), fraction]
            case ResampleMode.CUBIC:
                offsets = [-1.0, 0.0, 1.0, 2.0]
                weights = reals.cubic(fraction)
            case _:
                offsets, weights = [0.0], []
        places = [reals.add(low, offset) if offset else low for offset in offsets]
        return [*(reals.position(place, last) for place in places), *weights]

    types = [*[i32] * count, *[real] * (count if weighted else 0)]
    at = [AffineExpr.dimension(0)]
    tables = build.generic(
        [],
        [(build.empty([axis.new_size], type), at) for type in types],
        [False],
        table,
    )
    weights = tables[count:] if weighted else [None]
    return [Tap(*tap) for tap in zip(tables[:count], weights, strict=True)]


def step_of(reals: Reals, axis: Axis) -> Real:
    """How far apart two new elements are."""
    size, new_size, sampling = axis.size, axis.new_size, axis.sampling
    if sampling.coordinates is Coordinates.ALIGN_CORNERS:
        if new_size == 1:
            return 0.0
        build = reals.build
        steps = build.maximum(build.sub(new_size, 1), 1)
        step = reals.div(reals.of(build.sub(size, 1)), reals.of(steps))
        if isinstance(new_size, int):
            return step
        several = arith.CmpiOp(new_size, build.index(1), "sgt")
        return reals.select(build.insert(several), step, 0.0)
    if sampling.scale is not None:
        return either(reals, axis.kept(reals), 1.0, reals.number(1 / sampling.scale))
    return reals.div(reals.of(size), reals.of(new_size))


def either(reals: Reals, condition: SSAValue | bool, a: Real, b: Real) -> Real:
    """`a` where the condition holds, else `b`."""
    if isinstance(condition, SSAValue):
        return reals.select(condition, a, b)
    return a if condition else b


def coordinate(reals: Reals, sampling: Sampling, step: Real) -> Real:
    """Where the new element of this place is; for the nearest, from its own start."""
    j = reals.of(reals.build.place(0))
    if sampling.coordinates is not Coordinates.HALF_PIXEL:
        return reals.mul(j, step)
    center = reals.add(j, 0.5)
    if sampling.mode is ResampleMode.NEAREST:
        return reals.mul(center, step)
    return reals.multiply_add(center, step, -0.5)


def tap_sums(
    build: LinalgBuilder,
    x: SSAValue,
    axes: Sequence[Axis],
    tables: Sequence[Sequence[Tap]],
    result: Attribute,
    unsigned: bool,
) -> SSAValue:
    """The sums that taps of all `axes` make, in one loop."""
    sizes = build.sizes(x)
    inputs: list[tuple[SSAValue, list[AffineExpr]]] = []
    for axis, taps in zip(axes, tables, strict=True):
        sizes[axis.dim] = axis.new_size
        for tap in taps:
            for table in (tap.position, tap.weight):
                if table is not None:
                    inputs.append((table, [AffineExpr.dimension(axis.dim)]))
    weighted = any(tap.weight for taps in tables for tap in taps)
    total = total_type(element_type(x)) if weighted else element_type(x)

    def element(inner: LinalgBuilder, args: Sequence[SSAValue]) -> SSAValue:
        given = iter(args)
        read = [
            [
                Tap(as_index(inner, next(given)), next(given) if tap.weight else None)
                for tap in taps
            ]
            for taps in tables
        ]
        places = [inner.place(dim) for dim in range(len(sizes))]

        def sum_of(number: int) -> SSAValue:
            """Over the taps of the axes before `number`, at what is in `places`."""
            if number == 0:
                found = inner.extract(x, places)
                return widened(inner, found, total, unsigned)
            sum: SSAValue | None = None
            for tap in read[number - 1]:
                places[axes[number - 1].dim] = tap.position
                part = sum_of(number - 1)
                if tap.weight is not None:
                    weight = widened(inner, tap.weight, total)
                    part = inner.insert(arith.MulfOp(weight, part))
                sum = part if sum is None else inner.insert(arith.AddfOp(sum, part))
            assert sum is not None
            return sum

        return rounded(inner, sum_of(len(axes)), result)

    return build.compute(sizes, result, element, inputs)


# Windows of several elements, not all as long.


@dataclass(frozen=True)
class Windows:
    """For each new element: where its window starts, how long it is, and weights."""

    longest: Amount
    starts: SSAValue
    lengths: SSAValue
    weights: SSAValue
    """One for each window, or `[longest, windows]`."""


def area(build: LinalgBuilder, axis: Axis, real: AnyFloat) -> Windows:
    """Windows that are an adaptive pool's; all of a window's weights are one."""
    size, new_size = axis.size, axis.new_size

    def table(inner: LinalgBuilder, _: Sequence[SSAValue]) -> list[SSAValue]:
        j = inner.place(0)
        start = inner.floordiv(inner.mul(j, size), new_size)
        last = inner.sub(inner.mul(inner.add(j, 1), size), 1)
        length = inner.sub(inner.add(inner.floordiv(last, new_size), 1), start)
        reals = Reals(inner, real)
        weight = reals.value(reals.div(1.0, reals.of(length)))
        return [integer(inner, start), integer(inner, length), weight]

    if isinstance(size, int) and isinstance(new_size, int):
        longest: Amount = max(map(len, area_windows(size, new_size)))
    else:
        rounded_up = build.floordiv(build.add(build.sub(size, 1), new_size), new_size)
        longest = build.minimum(build.add(rounded_up, 1), size)
    at = [AffineExpr.dimension(0)]
    tables = build.generic(
        [],
        [(build.empty([new_size], type), at) for type in (i32, i32, real)],
        [False],
        table,
    )
    return Windows(longest, *tables)


REACHES = {ResampleMode.LINEAR: 1, ResampleMode.CUBIC: 2, ResampleMode.LANCZOS: 3}
"""How far each antialiased mode's filter reaches."""


def antialiased(build: LinalgBuilder, axis: Axis, real: AnyFloat) -> Windows:
    """Filters stretched over as many elements as a new one stands for."""
    size, new_size, mode = axis.size, axis.new_size, axis.sampling.mode
    outer = Reals(build, real)
    step = step_of(outer, axis)
    if isinstance(step, SSAValue):
        stretch: Real = outer.select(outer.compare(step, "ogt", 1.0), step, 1.0)
    else:
        stretch = max(step, 1.0)
    support = outer.mul(float(REACHES[mode]), stretch)
    longest = longest_window(outer, support, size)
    kept, one = axis.kept(outer), build.constant(1, i32)

    def bounds(inner: LinalgBuilder, _: Sequence[SSAValue]) -> list[SSAValue]:
        reals = Reals(inner, real)
        center = reals.mul(reals.add(reals.of(inner.place(0)), 0.5), step)
        start, end = (
            reals.position(reals.add(edge, 0.5), size)
            for edge in (reals.sub(center, support), reals.add(center, support))
        )
        if isinstance(kept, SSAValue):
            here = integer(inner, inner.place(0))
            start = inner.insert(arith.SelectOp(kept, here, start))
            after = inner.insert(arith.AddiOp(here, one))
            end = inner.insert(arith.SelectOp(kept, after, end))
        return [start, inner.insert(arith.SubiOp(end, start)), reals.value(center)]

    j, rows = [AffineExpr.dimension(0)], [AffineExpr.dimension(1)]
    table = [AffineExpr.dimension(0), AffineExpr.dimension(1)]
    starts, lengths, centers = build.generic(
        [],
        [(build.empty([new_size], type), j) for type in (i32, i32, real)],
        [False],
        bounds,
    )

    def weight(inner: LinalgBuilder, args: Sequence[SSAValue]) -> SSAValue:
        start, length, center = args
        reals = Reals(inner, f64)
        k = integer(inner, inner.place(0))
        place = inner.insert(arith.SIToFPOp(inner.insert(arith.AddiOp(start, k)), f64))
        distance = reals.add(reals.sub(place, widened(inner, center, f64)), 0.5)
        wide = (
            widened(inner, stretch, f64) if isinstance(stretch, SSAValue) else stretch
        )
        value = filtered(reals, mode, reals.absolute(reals.div(distance, wide)))
        inside = inner.insert(arith.CmpiOp(k, length, "slt"))
        return reals.select(inside, value, 0.0)

    weights = build.compute(
        [longest, new_size],
        f64,
        weight,
        [(starts, rows), (lengths, rows), (centers, rows)],
    )
    zeros = build.filled([new_size], build.constant(0, f64))
    (sums,) = build.generic(
        [(weights, table)],
        [(zeros, rows)],
        [True, False],
        lambda inner, args: [inner.insert(arith.AddfOp(args[0], args[1]))],
    )
    weights = build.compute(
        [longest, new_size],
        real,
        lambda inner, args: rounded(
            inner, inner.insert(arith.DivfOp(args[0], args[1])), real
        ),
        [(weights, table), (sums, rows)],
    )
    return Windows(longest, starts, lengths, weights)


def longest_window(reals: Reals, support: Real, size: Amount) -> Amount:
    """No window of filters that reach `support` far is longer, nor than `size`."""
    build = reals.build
    if not isinstance(support, SSAValue):
        return build.minimum(size, 2 * numbers.ceil(min(support, MOST)) + 1)
    ceiling = build.insert(math.CeilOp(support))
    most = as_index(build, reals.position(ceiling, int(MOST)))
    return build.minimum(build.add(build.mul(most, 2), 1), size)


def filtered(reals: Reals, mode: ResampleMode, x: SSAValue) -> SSAValue:
    """An antialiased mode's filter, of distances that are not negative."""
    if mode is ResampleMode.LINEAR:
        return reals.clamp(reals.sub(1.0, x), 0.0, 1.0)
    if mode is ResampleMode.CUBIC:
        far = reals.select(reals.compare(x, "olt", 2.0), reals.cubic_far(x, -0.5), 0.0)
        return reals.select(
            reals.compare(x, "ole", 1.0), reals.cubic_near(x, -0.5), far
        )
    lobes = reals.mul(sinc(reals, x), sinc(reals, reals.div(x, 3.0)))
    return reals.select(reals.compare(x, "olt", 3.0), lobes, 0.0)


def sinc(reals: Reals, x: Real) -> Real:
    """`sin(pi x) / (pi x)`, 1 at 0."""
    x = reals.select(reals.compare(x, "oeq", 0.0), 1e-20, x)
    angle = reals.value(reals.mul(x, numbers.pi))
    return reals.div(reals.build.insert(math.SinOp(angle)), angle)


def window_sums(
    build: LinalgBuilder,
    x: SSAValue,
    axis: Axis,
    windows: Windows,
    total: AnyFloat,
    unsigned: bool,
) -> SSAValue:
    """The weighted sums of windows along one dimension."""
    sizes = build.sizes(x)
    sizes[axis.dim] = axis.new_size
    # Around a loop over the last dimension.
    tap = len(sizes) - 1
    at = [AffineExpr.dimension(i) for i in range(len(sizes) + 1)]
    result = [*at[:tap], at[-1]]
    place = result[axis.dim]
    weighed = (
        [at[tap], place]
        if len(tensor_type(windows.weights).get_shape()) > 1
        else [place]
    )

    def plus(inner: LinalgBuilder, args: Sequence[SSAValue]) -> list[SSAValue]:
        start, length, weight, _, sum = args
        k = integer(inner, inner.place(tap))
        position = inner.insert(arith.AddiOp(start, k))
        last = integer(inner, inner.sub(axis.size, 1))
        position = inner.insert(arith.MinSIOp(position, last))
        places: list[Amount] = [inner.place(i) for i in range(len(at)) if i != tap]
        places[axis.dim] = as_index(inner, position)
        reals = Reals(inner, total)
        element = widened(inner, inner.extract(x, places), total, unsigned)
        part = reals.mul(widened(inner, weight, total), element)
        inside = inner.insert(arith.CmpiOp(k, length, "slt"))
        return [reals.add(sum, reals.select(inside, part, 0.0))]

    # Only its shape counts: how many taps there are.
    shape = build.empty([windows.longest], i32)
    zeros = build.filled(sizes, build.constant(0, total))
    (y,) = build.generic(
        [
            (windows.starts, [place]),
            (windows.lengths, [place]),
            (windows.weights, weighed),
            (shape, [at[tap]]),
        ],
        [(zeros, result)],
        [i == tap for i in range(len(at))],
        plus,
    )
    return y
