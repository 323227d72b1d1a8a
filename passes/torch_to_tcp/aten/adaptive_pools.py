"""
Adaptive pools: ordinary pools if all windows have the same size and stride.

Otherwise the windows are gathered side by side first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType, i64
from xdsl.ir import SSAValue

from padc.errors import Obstacle
from padc.ir import resampling, tcp
from padc.ir.padding import Amounts
from padc.ir.tcp import Coordinates, ResampleMode, tensor_type
from padc.passes.aten.builder import AtenBuilder, Integer
from padc.passes.aten.operand_checks import check_length
from padc.passes.aten.symbolic_tensor import SymbolicTensor
from padc.passes.aten.windows import adaptive_windows
from padc.passes.torch_to_tcp.aten.pools import max_pool
from padc.passes.torch_to_tcp.aten.tcp_call import TcpCall, last_dims, lowers

MOST_WINDOWS = 2**20
"""The most windows of a dimension, whose elements are listed."""


@lowers(*(f"aten.adaptive_max_pool{rank}d" for rank in (1, 2, 3)))
def lower_adaptive_max_pool(call: TcpCall) -> list[SSAValue] | None:
    """`tcp.max_pool`; with dynamic windows, a maximum over gathered windows."""
    x, new_sizes = call.tensor("self"), call.integers("output_size", 1)
    check_length(new_sizes, int(call.name[-2]), "output_size")
    if 0 in new_sizes:
        return None
    if (largest := max(new_sizes)) > MOST_WINDOWS:
        raise Obstacle(f"{largest} windows", f"pool to at most {MOST_WINDOWS}")
    dims = last_dims(x, len(new_sizes))
    shape = tensor_type(x).get_shape()
    is_even = all(
        shape[dim] != DYNAMIC_INDEX and even_windows(shape[dim], new_size)
        for dim, new_size in zip(dims, new_sizes, strict=True)
    )
    if not is_even and DYNAMIC_INDEX in shape:
        return dynamic_max_pool(call, x, dims, new_sizes)
    return static_max_pool(call, x, dims, new_sizes)


def static_max_pool(
    call: TcpCall, x: SSAValue, dims: Sequence[int], new_sizes: Sequence[int]
) -> list[SSAValue]:
    build = AtenBuilder(call.op)
    sizes = [tensor_type(x).get_shape()[dim] for dim in dims]
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


def dynamic_max_pool(
    call: TcpCall, x: SSAValue, dims: Sequence[int], new_sizes: Sequence[int]
) -> list[SSAValue]:
    """The largest element of each window; its position too, if that result is used."""
    build, result = AtenBuilder(call.op), call.result_type()
    wants_indices = call.op.results[1].first_use is not None
    if not wants_indices and math.prod(new_sizes) == 1:
        return [build.call("amax", result, self=x, dim=dims, keepdim=True)]
    # The position of each element of `x` in the input, row-major over `dims`.
    indices: SSAValue | None = None
    step: Integer = 1
    rank = tensor_type(x).get_num_dims()
    for dim, new_size in reversed(list(zip(dims, new_sizes, strict=True))):
        size = build.size(x, dim)
        windows = adaptive_windows(build, size, new_size)
        elements = windows.gather(build, x, dim)
        peak = largest(build, elements)
        if wants_indices:
            along = [size if d == dim else 1 for d in range(rank)]
            places = build.elementwise("mul.Scalar", build.arange(0, size), other=step)
            places = build.reshape(places, along)
            if indices is not None:
                places = (
                    SymbolicTensor(indices, build) + SymbolicTensor(places, build)
                ).value
            places = SymbolicTensor(windows.gather(build, places, dim), build)
            chosen = is_chosen(
                SymbolicTensor(elements, build), SymbolicTensor(peak, build)
            )
            place = largest(build, (chosen.cast(i64) * (places + 1)).value)
            place = (SymbolicTensor(place, build) - 1).value
            indices = windows.restore(build, place, x, dim)
            step = build.mul(size, step)
        x = windows.restore(build, peak, x, dim)
    results = [build.refined(x, result)]
    if indices is not None:
        results.append(build.refined(indices, call.result_type(1)))
    return results


def largest(build: AtenBuilder, elements: SSAValue) -> SSAValue:
    """The largest element of each window of `elements`, or NaN."""
    type = tensor_type(elements)
    before, count, _, after = type.get_shape()
    result = TensorType(type.element_type, [before, count, 1, after])
    return build.call("amax", result, self=elements, dim=[2], keepdim=True)


def is_chosen(elements: SymbolicTensor, peak: SymbolicTensor) -> SymbolicTensor:
    """A mask of the first largest element of each window, or the last NaN."""
    build = elements.build
    count = build.size(elements.value, 2)
    forwards = SymbolicTensor(build.arange(0, count), build)
    # Position i of n scores n - i if it is a largest element, n + 1 + i if it is NaN.
    backwards = build.wrap(count) - forwards
    numbers = forwards + (build.wrap(count) + 1)
    is_nan = elements.equals(elements).unary("logical_not")
    score = elements.equals(peak).cast(i64) * backwards.unsqueeze(1)
    score += is_nan.cast(i64) * numbers.unsqueeze(1)
    return score.equals(score.like(largest(build, score.value)))


def side_by_side(windows: Sequence[range]) -> list[int]:
    """
    The positions in each window, concatenated, with windows of equal length.

    A shorter window repeats its last position, which does not change its maximum.
    """
    longest = max(map(len, windows))
    return [w[min(k, len(w) - 1)] for w in windows for k in range(longest)]


def even_windows(size: int, new_size: int) -> tuple[int, int] | None:
    """
    Size and stride of an adaptive pool's windows; None if windows differ.

    Window j begins at `j size / new_size`, rounded down, and ends where the next one
    does not round: with `size = stride new_size + rest`, all begin at `j stride` if
    `(new_size - 1) rest < new_size`, so if the rest is 0 or 1.
    """
    stride, rest = divmod(size, new_size)
    if not stride or rest > 1:
        return None
    return stride + rest, stride if new_size > 1 else 1


def look_up(build: AtenBuilder, table: Sequence[int], indices: SSAValue) -> SSAValue:
    """`table[indices]`; at most one size of `indices` is dynamic."""
    shape = tensor_type(indices).get_shape()
    is_dynamic = DYNAMIC_INDEX in shape
    row = build.reshape(indices, [DYNAMIC_INDEX if is_dynamic else math.prod(shape)])
    return build.reshape(build.index_select(build.literal(table), 0, row), shape)


@lowers(
    *(f"aten.adaptive_avg_pool{rank}d" for rank in (1, 2, 3)),
    *(f"aten._adaptive_avg_pool{rank}d" for rank in (2, 3)),
)
def lower_adaptive_avg_pool(call: TcpCall) -> SSAValue | None:
    """`tcp.avg_pool` if all windows are equal, otherwise `tcp.resample` by area."""
    x, new_sizes = call.tensor("self"), call.amounts("output_size")
    check_length(new_sizes, int(call.name[-2]), "output_size")
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
