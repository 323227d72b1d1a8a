"""
Pools: their padding, and what ceil mode adds, becomes a pad before them.

An adaptive pool whose windows all have one size and distance is an ordinary pool.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    IntegerType,
    Signedness,
    TensorType,
    i64,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.utils.hints import isa

from padc.ir import padding, resampling, tcp
from padc.ir.padding import Amounts
from padc.ir.tcp import Coordinates, ResampleMode, tensor_type
from padc.passes.arithmetic import Arithmetic
from padc.passes.aten_builder import AtenBuilder
from padc.passes.torch_to_tcp.call import Lowered, last_dims, lowers


@lowers(*(f"aten.max_pool{rank}d" for rank in (1, 2, 3)))
def lower_max_pool(call: Lowered) -> SSAValue:
    """`max_pool(x, padding=p) -> tcp.max_pool(tcp.pad(x, least value, p))`."""
    return padded_max_pool(call)[0]


@lowers(*(f"aten.max_pool{rank}d_with_indices" for rank in (1, 2, 3)))
def lower_max_pool_with_indices(call: Lowered) -> list[SSAValue]:
    """The same, and `tcp.arg_max_pool`, which does not count the padding."""
    return padded_max_pool(call)


def padded_max_pool(call: Lowered) -> list[SSAValue]:
    """The results of a max pool: the largest elements, and where they are."""
    x = call.tensor("self")
    kernel, strides, dilations, amounts = window(call)
    padded = call.pad(x, least_value(tensor_type(x).element_type), amounts)
    return max_pool(call, padded, kernel, strides, dilations, amounts)


def max_pool(
    call: Lowered,
    x: SSAValue,
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    uncounted: Sequence[Amounts],
) -> list[SSAValue]:
    """The largest of each window of `x`, and where that is if `call` asks for it."""
    pool = (x, kernel, strides, dilations, last_dims(x, len(kernel)))
    values = call.insert(tcp.MaxPoolOp(*pool, call.result_type()))
    if len(call.op.results) == 1 or call.op.results[1].first_use is None:
        return [values]
    indices = tcp.ArgMaxPoolOp(
        *pool,
        call.result_type(1),
        uncounted_lower=[amount.lower for amount in uncounted],
        uncounted_upper=[amount.upper for amount in uncounted],
    )
    return [values, call.insert(indices)]


@lowers("aten.max_pool2d_with_indices_backward")
def lower_max_pool_backward(call: Lowered) -> SSAValue | None:
    """Each gradient is added to 0 at its index; sizes must be static."""
    build, result = AtenBuilder(call.op), call.result_type()
    gradients, indices = call.tensor("grad_output"), call.tensor("indices")
    shape, sizes = result.get_shape(), tensor_type(gradients).get_shape()
    if DYNAMIC_INDEX in shape or 0 in (*shape, *sizes):
        return None
    rows, columns = math.prod(shape[:-2]), math.prod(sizes[-2:])
    zeros = build.full([rows, math.prod(shape[-2:])], 0, gradients)
    flat = build.call(
        "scatter_add",
        tensor_type(zeros),
        self=zeros,
        dim=1,
        index=build.reshape(indices, [rows, columns]),
        src=build.reshape(gradients, [rows, columns]),
    )
    return build.reshape(flat, shape)


@lowers(*(f"aten.adaptive_max_pool{rank}d" for rank in (1, 2, 3)))
def lower_adaptive_max_pool(call: Lowered) -> list[SSAValue] | None:
    """
    `tcp.max_pool`, of elements that are first put side by side where windows differ.

    Where windows are dynamic, only the largest element of all can be found.
    """
    build, x = AtenBuilder(call.op), call.tensor("self")
    new_sizes = call.integers("output_size", 1)
    dims = last_dims(x, len(new_sizes))
    sizes = [tensor_type(x).get_shape()[dim] for dim in dims]
    if 0 in new_sizes:
        return None
    if DYNAMIC_INDEX in sizes:
        is_global = math.prod(new_sizes) == 1
        return global_max_pool(call, build, x, dims) if is_global else None
    if tensor_type(x).get_shape().count(DYNAMIC_INDEX) > 1:
        return None
    pools: list[tuple[int, int]] = []
    positions: list[list[int]] = []
    for dim, size, new_size in zip(dims, sizes, new_sizes, strict=True):
        pool = even_windows(size, new_size)
        if pool is not None:
            positions.append(list(range(size)))
        else:
            positions.append(side_by_side(resampling.area_windows(size, new_size)))
            x = build.index_select(x, dim, build.literal(positions[-1]))
            longest = len(positions[-1]) // new_size
            pool = longest, longest
        pools.append(pool)
    kernel, strides = zip(*pools, strict=True)
    ones, none = [1] * len(dims), [Amounts(0, 0)] * len(dims)
    values, *indices = max_pool(call, x, kernel, strides, ones, none)
    if [len(along) for along in positions] != sizes:
        places = np.ravel_multi_index(np.ix_(*positions), sizes).ravel().tolist()
        indices = [look_up(build, places, where) for where in indices]
    return [values, *indices]


def global_max_pool(
    call: Lowered, build: AtenBuilder, x: SSAValue, dims: Sequence[int]
) -> list[SSAValue]:
    """The largest of all, and the first such or the last NaN if `call` asks for it."""
    largest = build.call("amax", call.result_type(), self=x, dim=dims, keepdim=True)
    if call.op.results[1].first_use is None:
        return [largest]
    of = Arithmetic(build, i64)
    row, peak = (build.flatten(y, dims[0], dims[-1]) for y in (x, largest))
    count = build.size(row, -1)
    forwards = build.arange(0, count)
    backwards = build.elementwise("rsub.Scalar", forwards, other=count)
    # Of n places, the i-th counts n - i where the largest is, n + 1 + i where NaN is.
    is_peak = of.binary("eq.Tensor", row, peak)
    is_nan = of.unary("logical_not", of.binary("eq.Tensor", row, row))
    after = build.integer("aten.add", count, 1)
    numbers = build.elementwise("add.Scalar", forwards, other=after)
    score = of.add(
        of.mul(build.cast(is_peak, i64), backwards),
        of.mul(build.cast(is_nan, i64), numbers),
    )
    type = TensorType(i64, tensor_type(peak).get_shape())
    best = build.call("amax", type, self=score, dim=[-1], keepdim=True)
    best = build.elementwise("sub.Scalar", best, other=count)
    place = of.binary("maximum", of.mul(best, -1), of.sub(best, 1))
    return [largest, build.reshape(place, call.result_type(1).get_shape())]


def side_by_side(windows: Sequence[range]) -> list[int]:
    """
    The positions in each window, one window behind the other, all equally long.

    A shorter one has its last position again, where no larger element can be.
    """
    longest = max(map(len, windows))
    return [w[min(k, len(w) - 1)] for w in windows for k in range(longest)]


def even_windows(size: int, new_size: int) -> tuple[int, int] | None:
    """Size and stride of an adaptive pool's windows; None where they differ."""
    windows = resampling.area_windows(size, new_size)
    stride = windows[1].start - windows[0].start if new_size > 1 else 1
    even = [range(i * stride, i * stride + len(windows[0])) for i in range(new_size)]
    return (len(windows[0]), stride) if stride and windows == even else None


def look_up(build: AtenBuilder, table: Sequence[int], indices: SSAValue) -> SSAValue:
    """What `table` has at each of these indices, of at most one dynamic size."""
    shape = tensor_type(indices).get_shape()
    is_dynamic = DYNAMIC_INDEX in shape
    row = build.reshape(indices, [DYNAMIC_INDEX if is_dynamic else math.prod(shape)])
    return build.reshape(build.index_select(build.literal(table), 0, row), shape)


@lowers(
    *(f"aten.adaptive_avg_pool{rank}d" for rank in (1, 2, 3)),
    *(f"aten._adaptive_avg_pool{rank}d" for rank in (2, 3)),
)
def lower_adaptive_avg_pool(call: Lowered) -> SSAValue | None:
    """`tcp.avg_pool` where the windows are even, else `tcp.resample` by area."""
    x, new_sizes = call.tensor("self"), call.amounts("output_size")
    dims = last_dims(x, len(new_sizes))
    if 0 in new_sizes:
        return None
    windows = [
        even_windows(size, new_size)
        for dim, new_size in zip(dims, new_sizes, strict=True)
        if (size := tensor_type(x).get_shape()[dim]) != DYNAMIC_INDEX
        and isinstance(new_size, int)
    ]
    even = [window for window in windows if window is not None]
    if len(even) < len(dims):
        return call.insert(
            tcp.ResampleOp(
                x,
                new_sizes,
                dims,
                ResampleMode.AREA,
                Coordinates.HALF_PIXEL,
                None,
                call.result_type(),
            )
        )
    kernel, strides = zip(*even, strict=True)
    ones = [1] * len(dims)
    return call.insert(
        tcp.AvgPoolOp(x, kernel, strides, ones, dims, call.result_type())
    )


@lowers(*(f"aten.avg_pool{rank}d" for rank in (1, 2, 3)))
def lower_avg_pool(call: Lowered) -> SSAValue:
    """`avg_pool(x, padding=p) -> tcp.avg_pool(tcp.pad(x, 0, p))`, counting the same."""
    x = call.tensor("self")
    kernel, strides, dilations, amounts = window(call)
    # What lies behind the padding never counts: ceil mode lets windows reach there.
    counted = call.integers("padding", len(kernel))
    if not call.boolean("count_include_pad"):
        counted = [0] * len(kernel)
    sides = list(zip(amounts, counted, strict=True))
    override = (
        call.constant("divisor_override")
        if "divisor_override" in call.op.schema.positions
        else None
    )
    assert override is None or isinstance(override, int)
    return call.insert(
        tcp.AvgPoolOp(
            call.pad(x, 0, amounts),
            kernel,
            strides,
            dilations,
            last_dims(x, len(kernel)),
            call.result_type(),
            uncounted_lower=[amount.lower - count for amount, count in sides],
            uncounted_upper=[amount.upper - count for amount, count in sides],
            divisor=override,
        )
    )


def window(call: Lowered) -> tuple[list[int], list[int], list[int], list[Amounts]]:
    """Kernel, strides, dilations and padding of a pool, for each of its dimensions."""
    name = call.op.schema.name
    rank = int(name[name.index("_pool") + len("_pool")])
    kernel = call.integers("kernel_size", rank)
    strides = call.integers("stride", rank) or kernel
    dilated = "dilation" in call.op.schema.positions
    dilations = call.integers("dilation", rank) if dilated else [1] * rank
    amounts = [
        padding.pool_amounts(k, s, d, p, call.boolean("ceil_mode"))
        for k, s, d, p in zip(
            kernel, strides, dilations, call.integers("padding", rank), strict=True
        )
    ]
    return kernel, strides, dilations, amounts


def least_value(element_type: Attribute) -> float | int:
    """What no element is less than."""
    if isa(element_type, IntegerType[int, Signedness]):
        unsigned = element_type.signedness.data == Signedness.UNSIGNED
        return 0 if unsigned else -(2 ** (element_type.width.data - 1))
    return -math.inf
