"""Pools: their padding, and the overhang of ceil mode, become a pad before them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import SSAValue

from padc.ir import padding, tcp
from padc.ir.element_types import least_value
from padc.ir.padding import Amounts
from padc.ir.tcp import tensor_type
from padc.passes.aten.builder import AtenBuilder
from padc.passes.torch_to_tcp.aten.tcp_call import TcpCall, last_dims, lowers


@lowers(*(f"aten.max_pool{rank}d" for rank in (1, 2, 3)))
def lower_max_pool(call: TcpCall) -> SSAValue:
    """`max_pool(x, padding=p) -> tcp.max_pool(tcp.pad(x, least value, p))`."""
    return padded_max_pool(call)[0]


@lowers(*(f"aten.max_pool{rank}d_with_indices" for rank in (1, 2, 3)))
def lower_max_pool_with_indices(call: TcpCall) -> list[SSAValue]:
    """`tcp.max_pool`, and `tcp.arg_max_pool`, whose positions do not count padding."""
    return padded_max_pool(call)


def padded_max_pool(call: TcpCall) -> list[SSAValue]:
    """The results of a max pool: the largest elements and their positions."""
    x = call.tensor("self")
    kernel, strides, dilations, amounts = window(call)
    padded = call.pad(x, least_value(tensor_type(x).element_type), amounts)
    return max_pool(call, padded, kernel, strides, dilations, amounts)


def max_pool(
    call: TcpCall,
    x: SSAValue,
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    uncounted: Sequence[Amounts],
) -> list[SSAValue]:
    """The largest element of each window, and its position if that result is used."""
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
def lower_max_pool_backward(call: TcpCall) -> SSAValue | None:
    """Add each gradient to zeros at its index; sizes must be static."""
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


@lowers(*(f"aten.avg_pool{rank}d" for rank in (1, 2, 3)))
def lower_avg_pool(call: TcpCall) -> SSAValue:
    """`avg_pool(x, padding=p) -> tcp.avg_pool(tcp.pad(x, 0, p))`."""
    x = call.tensor("self")
    kernel, strides, dilations, amounts = window(call)
    # With ceil mode, windows reach past the padding. What is there never counts.
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


def window(call: TcpCall) -> tuple[list[int], list[int], list[int], list[Amounts]]:
    """Kernel, strides, dilations and padding of a pool, for each of its dimensions."""
    name = call.name
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
