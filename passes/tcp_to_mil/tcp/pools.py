"""Pools: Core ML's own if it computes the same, otherwise a slice for each tap."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType, f16, f32, i1, i32
from xdsl.ir import SSAValue

from padc.errors import Obstacle
from padc.ir import tcp
from padc.ir.element_types import least_value
from padc.ir.padding import Amounts
from padc.ir.tcp import tensor_type
from padc.ir.weights import numpy_dtype
from padc.passes.common.mil_builder import MilBuilder, product
from padc.passes.tcp_to_mil.cropping import crop
from padc.passes.tcp_to_mil.tcp.folding import Padded, fold_pad
from padc.passes.tcp_to_mil.tcp.mil_lowering import lowers
from padc.passes.tcp_to_mil.tcp.pads import native_pad
from padc.passes.tcp_to_mil.tcp.taps import tap_offsets, window_taps


@lowers(tcp.MaxPoolOp)
def lower_max_pool(build: MilBuilder, op: tcp.MaxPoolOp) -> SSAValue:
    if is_native_pool(op):
        return native_pool(
            build, op, "max_pool", fold_pad(build, op, op.dims.get_values())
        )
    sizes = op.result.type.get_shape()
    x = comparable(build, op)
    largest, *others = taps(build, op, x)
    for tap in others:
        larger = takes_over(build, tap, largest)
        type = tensor_type(x)
        largest = build.emit("select", type, sizes, cond=larger, a=tap, b=largest)
    return build.cast(largest, op.result.type.element_type)


def comparable(build: MilBuilder, op: tcp.PoolOp) -> SSAValue:
    """The input of `op` in a type that Core ML compares."""
    is_float = op.input_type.element_type in (f16, f32)
    return op.input if is_float else build.as_int32(op.input)


def takes_over(
    build: MilBuilder, tap: SSAValue, largest: SSAValue | npt.NDArray[Any]
) -> SSAValue:
    """Where `tap` is larger, or NaN: Core ML's `maximum` may lose a NaN."""
    type = tensor_type(tap)
    sizes = type.get_shape()
    booleans = TensorType(i1, sizes)
    larger = build.emit("greater", booleans, sizes, x=tap, y=largest)
    if type.element_type not in (f16, f32):
        return larger
    is_nan = build.emit("not_equal", booleans, sizes, x=tap, y=tap)
    return build.binary("logical_or", larger, is_nan)


@lowers(tcp.ArgMaxPoolOp)
def lower_arg_max_pool(build: MilBuilder, op: tcp.ArgMaxPoolOp) -> SSAValue:
    """
    Tap by tap, an element that is larger than all before, or NaN, is selected.

    A tap has the same distance from the first element in every window. This distance is
    selected; the positions of the windows are added at the end.
    """
    type, where = op.input_type, op.result.type
    shape = type.get_shape()
    if DYNAMIC_INDEX in [shape[dim] for dim in op.dims.get_values()]:
        raise Obstacle(
            "positions in a tensor of dynamic size", "make the pooled sizes static"
        )
    steps, sizes = op.steps(shape), where.get_shape()
    windows = [np.arange(sizes[dim]) for dim in op.dims.get_values()]
    firsts = [op.first_place(i, window) for i, window in enumerate(windows)]
    skipped = [op.search_start(i, first) for i, first in enumerate(firsts)]
    is_float = type.element_type in (f16, f32)
    dtype = numpy_dtype(type.element_type) if is_float else np.int32
    least = least_value(type.element_type)
    # Core ML holds int64 as int32.
    least = np.array(least if is_float else max(least, -(2**31)), dtype)
    x = comparable(build, op)
    largest, *others = taps(build, op, x)
    # A first tap with the least value is not selected: the search starts after it,
    # where nothing is skipped any more.
    found = takes_over(build, largest, least)
    booleans = TensorType(i1, sizes)
    nothing = build.emit("logical_not", booleans, sizes, x=found)
    one = build.emit("cast", where, sizes, x=nothing, dtype="int32")
    start = positions(op, skipped, steps)
    distance = build.emit("mul", where, sizes, x=one, y=start)
    _, *distances = tap_offsets(op.kernel.get_values())
    for offsets, tap in zip(distances, others, strict=True):
        larger = takes_over(build, tap, largest)
        terms = zip(offsets, op.dilations.get_values(), steps, strict=True)
        here = np.int32(sum(map(math.prod, terms)))
        compared = tensor_type(x)
        largest = build.emit("select", compared, sizes, cond=larger, a=tap, b=largest)
        distance = build.emit("select", where, sizes, cond=larger, a=here, b=distance)
    first = positions(op, firsts, steps)
    return build.emit("add", where, sizes, x=distance, y=first)


def positions(
    op: tcp.PoolOp, places: Sequence[npt.ArrayLike], steps: Sequence[int]
) -> npt.NDArray[np.int32]:
    """For each window the sum of places times steps; broadcasts to the result."""
    total = np.zeros([1] * op.input_type.get_num_dims(), np.int32)
    for dim, place, step in zip(op.dims.get_values(), places, steps, strict=True):
        along = [-1 if d == dim else 1 for d in range(total.ndim)]
        total = total + np.array(np.multiply(place, step), np.int32).reshape(along)
    return total


@lowers(tcp.AvgPoolOp)
def lower_avg_pool(build: MilBuilder, op: tcp.AvgPoolOp) -> SSAValue:
    """The mean of whole windows, scaled to that of the counted elements."""
    if op.input_type.element_type not in (f16, f32):
        return integer_avg_pool(build, op)
    elements = math.prod(op.kernel.get_values())
    exclude: bool | None = None
    if is_native_pool(op):
        padded = fold_pad(build, op, op.dims.get_values())
        folded = [(amount.lower, amount.upper) for amount in padded.amounts]
        exclude = op.uncounted == folded and op.divisor is None
        y = native_pool(
            build, op, "avg_pool", padded, exclude_padding_from_average=exclude
        )
    else:
        y = mean_of_all(build, op, op.input)
    if op.divisor is not None:
        return build.scale(y, np.array(elements / op.divisor.value.data))
    if exclude or not any(itertools.chain(*op.uncounted)):
        return y
    if (counts := op.counts()) is None:
        part = mean_of_all(build, op, mask_of_counted(build, op))
        return build.binary("real_div", y, part)
    return build.scale(y, elements / counted(op, counts))


def integer_avg_pool(build: MilBuilder, op: tcp.AvgPoolOp) -> SSAValue:
    """The sums of the windows, divided towards 0: as absolute values, then signed."""
    total = build.total(taps(build, op, op.input), "add")
    type = tensor_type(total)
    shape = type.get_shape()
    # All elements of a window count, except uncounted ones at the borders.
    if op.divisor is not None:
        divisor = np.int32(abs(op.divisor.value.data))
    elif not any(itertools.chain(*op.uncounted)):
        divisor = np.int32(math.prod(op.kernel.get_values()))
    elif (counts := op.counts()) is not None:
        divisor = counted(op, counts).astype(np.int32)
    else:
        mask = mask_of_counted(build, op)
        divisor = build.cast(build.total(taps(build, op, mask), "add"), i32)
    sizes = build.emit("abs", type, shape, x=total)
    quotients = build.emit("floor_div", type, shape, x=sizes, y=divisor)
    signs = build.emit("sign", type, shape, x=total)
    if op.divisor is not None and op.divisor.value.data < 0:
        signs = build.emit("mul", type, shape, x=signs, y=np.int32(-1))
    return build.binary("mul", quotients, signs)


def counted(op: tcp.AvgPoolOp, counts: Sequence[Sequence[int]]) -> npt.NDArray[Any]:
    """The number of counted elements of each window; broadcasts to the result."""
    total = np.ones([1] * op.input_type.get_num_dims())
    for dim, along in zip(op.dims.get_values(), counts, strict=True):
        shape = [-1 if d == dim else 1 for d in range(total.ndim)]
        total = total * np.reshape(along, shape)
    return total


def mean_of_all(build: MilBuilder, op: tcp.AvgPoolOp, x: SSAValue) -> SSAValue:
    """The mean of all elements of each window of `x`, which has the input's shape."""
    if is_native_pool(op):
        nothing = [Amounts(0, 0)] * len(op.dims)
        return native_pool(
            build,
            op,
            "avg_pool",
            Padded(x, nothing),
            exclude_padding_from_average=False,
        )
    total = build.total(taps(build, op, x), "add")
    return build.scale(total, np.array(1 / math.prod(op.kernel.get_values())))


def mask_of_counted(build: MilBuilder, op: tcp.AvgPoolOp) -> SSAValue:
    """1 for each element of the input that counts, otherwise 0."""
    is_float = op.input_type.element_type in (f16, f32)
    ones = build.ones_like(op.input if is_float else build.cast(op.input, f32))
    amounts = [Amounts(0, 0)] * op.input_type.get_num_dims()
    for dim, (lower, upper) in zip(op.dims.get_values(), op.uncounted, strict=True):
        amounts[dim] = Amounts(lower, upper)
    inner = crop(build, ones, [Amounts(-a.lower, -a.upper) for a in amounts])
    return native_pad(build, inner, amounts, "constant", 0.0)


def is_native_pool(op: tcp.PoolOp) -> bool:
    """Whether Core ML has this pool: of floats, in 1 to 3 dimensions, undilated."""
    return (
        1 <= len(op.dims) <= 3
        and all(dilation == 1 for dilation in op.dilations.get_values())
        and op.input_type.element_type in (f16, f32)
    )


def native_pool(
    build: MilBuilder, op: tcp.PoolOp, name: str, padded: Padded, **options: Any
) -> SSAValue:
    """Core ML's pool of a tensor `[n, c, *window]`."""
    dims = list(op.dims.get_values())
    rank = op.input_type.get_num_dims()
    others = [dim for dim in range(rank) if dim not in dims]
    perm = [*others, *dims]
    x = build.transpose(padded.input, perm)
    sizes, count = build.sizes(x), len(others)
    if count != 2:
        channels = product(tensor_type(x).get_shape()[:count])
        x = build.reshape(x, [1, channels, *sizes[count:]])
    pooled = [op.result.type.get_shape()[dim] for dim in dims]
    y = build.emit(
        name,
        op.result.type,
        [*tensor_type(x).get_shape()[:2], *pooled],
        x=x,
        kernel_sizes=list(op.kernel.get_values()),
        strides=list(op.strides.get_values()),
        pad_type="custom",
        pad=padded.pad,
        ceil_mode=False,
        **options,
    )
    if count != 2:
        y = build.reshape(y, [*sizes[:count], *build.sizes(y)[2:]])
    return build.transpose(y, [perm.index(dim) for dim in range(rank)])


def taps(build: MilBuilder, op: tcp.PoolOp, x: SSAValue) -> list[SSAValue]:
    """For each position in the kernel, the element of every window there."""
    windows = (op.dims, op.kernel, op.strides, op.dilations)
    return window_taps(build, x, *(array.get_values() for array in windows))
