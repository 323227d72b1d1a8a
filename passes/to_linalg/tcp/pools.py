"""Pools: loops over windows; taps are outside the loop over the last dimension."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, i64
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr

from padc.ir import tcp
from padc.ir.element_types import is_unsigned, least_value, wide
from padc.ir.padding import conv_output_size, window_count
from padc.ir.tcp import Amount, tensor_type
from padc.passes.common.linalg_builder import (
    Body,
    LinalgBuilder,
    element_type,
)
from padc.passes.to_linalg.build.numbers import Number, make_real
from padc.passes.to_linalg.build.scalars import (
    is_nan,
    rounded,
    widened,
)
from padc.passes.to_linalg.tcp.convolutions import in_type
from padc.passes.to_linalg.tcp.linalg_lowering import lowers


@lowers(tcp.MaxPoolOp)
def lower_max_pool(build: LinalgBuilder, op: tcp.MaxPoolOp) -> SSAValue:
    x = build.signless(op.input)
    type = element_type(x)
    total = wide(type)
    unsigned = is_unsigned(op.input_type.element_type)
    least = build.constant(least_value(op.input_type.element_type), total)
    start = build.filled(result_sizes(build, op, x), least)

    def larger(inner: LinalgBuilder, args: Sequence[SSAValue]) -> list[SSAValue]:
        element, _, largest = args
        element = widened(inner, element, total)
        if isinstance(total, AnyFloat):
            maximum = arith.MaximumfOp
        else:
            maximum = arith.MaxUIOp if unsigned else arith.MaxSIOp
        return [inner.insert(maximum(element, largest))]

    (y,) = over_windows(build, op, x, [start], larger)
    return in_type(build, y, type)


@lowers(tcp.AvgPoolOp)
def lower_avg_pool(build: LinalgBuilder, op: tcp.AvgPoolOp) -> SSAValue:
    x = build.signless(op.input)
    type = element_type(x)
    total = wide(type) if isinstance(type, AnyFloat) else i64
    unsigned = is_unsigned(op.input_type.element_type)
    sizes = result_sizes(build, op, x)
    start = build.filled(sizes, build.constant(0, total))

    def plus(inner: LinalgBuilder, args: Sequence[SSAValue]) -> list[SSAValue]:
        element, _, sum = args
        element = widened(inner, element, total, unsigned)
        add = arith.AddfOp if isinstance(total, AnyFloat) else arith.AddiOp
        return [inner.insert(add(element, sum))]

    (sums,) = over_windows(build, op, x, [start], plus)
    input_sizes = build.sizes(x)

    def mean(inner: LinalgBuilder, args: Sequence[SSAValue]) -> SSAValue:
        count = divisor(inner, op, input_sizes)
        return rounded(inner, quotient(inner, args[0], count), type)

    dims = [AffineExpr.dimension(dim) for dim in range(len(sizes))]
    return build.compute(sizes, type, mean, [(sums, dims)])


def divisor(
    build: LinalgBuilder, op: tcp.AvgPoolOp, input_sizes: Sequence[Amount]
) -> Amount:
    """The divisor of the sum of this window."""
    if op.divisor is not None:
        return op.divisor.value.data
    count = build.wrap(1)
    for i, (dim, uncounted) in enumerate(
        zip(op.dims.get_values(), op.uncounted, strict=True)
    ):
        steps = kernel, *_ = steps_of(op, i)
        if not any(uncounted):
            # The op has no use for its place, and may share loops with others.
            count = count * kernel
            continue
        window, size = build.wrap(build.loop_index(dim)), build.wrap(input_sizes[dim])
        count = window_count(window, size, *steps, *uncounted) * count
    return count.value


def steps_of(op: tcp.PoolOp, i: int) -> tuple[int, int, int]:
    """Kernel size, stride and dilation of the i-th dimension that is pooled."""
    options = op.kernel, op.strides, op.dilations
    kernel, stride, dilation = (option.get_values()[i] for option in options)
    return kernel, stride, dilation


def quotient(build: LinalgBuilder, sum: SSAValue, count: Amount) -> SSAValue:
    """`sum / count`; integers are rounded towards zero."""
    if isinstance(sum.type, AnyFloat):
        divisor = make_real(build, sum.type)(build.wrap(count))
        return (Number(build, sum, sum.type) / divisor).value
    if count == -1:
        # The least integer divided by -1 has no meaning; PyTorch wraps around.
        return build.insert(arith.SubiOp(build.constant(0, i64), sum))
    # Each window of a valid program counts an element; a division by 0 would end the
    # process.
    number = (
        build.constant(count, i64)
        if isinstance(count, int)
        else build.insert(arith.IndexCastOp(build.wrap(count).maximum(1).value, i64))
    )
    return build.insert(arith.DivSIOp(sum, number))


@lowers(tcp.ArgMaxPoolOp)
def lower_arg_max_pool(build: LinalgBuilder, op: tcp.ArgMaxPoolOp) -> SSAValue:
    x = build.signless(op.input)
    type = element_type(x)
    unsigned = is_unsigned(op.input_type.element_type)
    input_sizes, sizes = build.sizes(x), result_sizes(build, op, x)
    dims, dilations = op.dims.get_values(), op.dilations.get_values()
    steps = op.steps([build.wrap(size) for size in input_sizes])

    def position(
        inner: LinalgBuilder, windows: Sequence[Amount], taps: Sequence[Amount] | None
    ) -> SSAValue:
        """The flat index of a tap, or of the first element of its window."""
        total = inner.wrap(0)
        for i, (window, step) in enumerate(zip(windows, steps, strict=True)):
            place = op.first_place(i, inner.wrap(window))
            if taps is None:
                place += op.search_start(i, place)
            else:
                place += inner.wrap(taps[i]) * dilations[i]
            total = place * step + total
        return inner.insert(arith.IndexCastOp(inner.index(total.value), i64))

    def takes_over(inner: LinalgBuilder, args: Sequence[SSAValue]) -> list[SSAValue]:
        element, _, largest, where = args
        if isinstance(type, AnyFloat):
            a, b = (widened(inner, y, wide(type)) for y in (element, largest))
            more = inner.insert(arith.CmpfOp(a, b, "ogt"))
            more = inner.insert(arith.OrIOp(more, is_nan(inner, a)))
        else:
            predicate = "ugt" if unsigned else "sgt"
            more = inner.insert(arith.CmpiOp(element, largest, predicate))
        indices = loop_indices(inner, len(input_sizes), len(dims))
        windows, taps = [indices[0][dim] for dim in dims], indices[1]
        here = position(inner, windows, taps)
        return [
            inner.insert(arith.SelectOp(more, element, largest)),
            inner.insert(arith.SelectOp(more, here, where)),
        ]

    starts = build.compute(
        sizes,
        i64,
        lambda inner, _: position(inner, [inner.loop_index(dim) for dim in dims], None),
    )
    least = build.constant(least_value(op.input_type.element_type), type)
    least = build.filled(sizes, least)
    _, where = over_windows(build, op, x, [least, starts], takes_over)
    return where


def loop_indices(
    build: LinalgBuilder, rank: int, taps: int
) -> tuple[list[Amount], list[Amount]]:
    """The indices of `over_windows`' loops: of the window, and of the tap in it."""
    indices: list[Amount] = [build.loop_index(dim) for dim in range(rank + taps)]
    return [*indices[: rank - 1], indices[-1]], indices[rank - 1 : -1]


def over_windows(
    build: LinalgBuilder,
    op: tcp.PoolOp,
    x: SSAValue,
    starts: Sequence[SSAValue],
    body: Body,
) -> list[SSAValue]:
    """Reduce each window by `body`, from `starts`."""
    rank, taps = tensor_type(x).get_num_dims(), len(op.dims)
    if rank == 0:
        # A tensor of rank 0 has no dimension to pool.
        return build.generic(
            [(x, []), (x, [])], [(start, []) for start in starts], [], body
        )
    at = [AffineExpr.dimension(i) for i in range(rank + taps)]
    result = [*at[: rank - 1], at[-1]]
    window = at[rank - 1 : -1]
    source = list(result)
    for i, dim in enumerate(op.dims.get_values()):
        source[dim] = (
            result[dim] * op.strides.get_values()[i]
            + window[i] * op.dilations.get_values()[i]
        )
    # Only its shape matters: it gives the number of taps.
    shape = build.empty(op.kernel.get_values(), element_type(x))
    return build.generic(
        [(x, source), (shape, window)],
        [(start, result) for start in starts],
        [*[False] * (rank - 1), *[True] * taps, False],
        body,
    )


def result_sizes(build: LinalgBuilder, op: tcp.PoolOp, x: SSAValue) -> list[Amount]:
    """The size of each of the result's dimensions."""
    sizes: list[Amount] = []
    for dim, static in enumerate(tensor_type(op.result).get_shape()):
        if static >= 0:
            sizes.append(static)
            continue
        size = build.size(x, dim)
        if dim in op.dims.get_values():
            window = steps_of(op, op.dims.get_values().index(dim))
            size = conv_output_size(build.wrap(size), *window).value
        sizes.append(size)
    return sizes
