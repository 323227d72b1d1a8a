"""Convolutions and transposed convolutions, in the order `[n, c, *spatial]`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    IntegerType,
    Signedness,
    f16,
    f32,
    i32,
    i64,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.utils.hints import isa

from padc.errors import Obstacle
from padc.ir import mil, mil_types, padding, tcp
from padc.ir.padding import Amounts
from padc.ir.tcp import ConvDimsAttr, tensor_type
from padc.ir.tcp.convolutions import Role
from padc.passes.aten.conv_transpose import pad_result
from padc.passes.common.mil_builder import MilBuilder, product
from padc.passes.tcp_to_mil.legality import (
    is_dilated,
    is_integer,
    may_be_computed,
    takes_kernel,
)
from padc.passes.tcp_to_mil.tcp.folding import fold_pad
from padc.passes.tcp_to_mil.tcp.mil_lowering import lowers
from padc.passes.tcp_to_mil.tcp.taps import window_taps

DECOMPOSE = "run decompose-computed-kernels before"


@lowers(tcp.ConvOp)
def lower_conv(build: MilBuilder, op: tcp.ConvOp) -> SSAValue:
    """`conv`, always with `pad_type` custom: its `same` differs from other systems'."""
    check_window(op)
    if is_integer(op):
        return as_result(build, op, convolve_integers(build, op))
    check(op)
    padded = fold_pad(build, op, ConvDimsAttr.spatial(op.dims.input))
    y = convolve(build, op, padded.input, result_shape(op), padded.pad)
    return as_result(build, op, y)


def convolve_integers(build: MilBuilder, op: tcp.ConvOp) -> SSAValue:
    """
    A `matmul` of the kernel and the windows as columns: `conv` does not take int32.

    Narrower integers wrap around, as in PyTorch.
    """
    order = ConvDimsAttr.channels_first(op.dims.spatial_rank)
    x = build.as_int32(in_order(build, op.input, op.dims.input, order.input))
    kernel = build.as_int32(in_order(build, op.kernel, op.dims.kernel, order.kernel))
    outputs, inputs, *window = tensor_type(kernel).get_shape()
    groups, count = op.groups.value.data, product(result_shape(op)[2:])
    batch = build.sizes(x)[0]
    options = (window, op.strides.get_values(), op.dilations.get_values())
    for dim, (size, stride, dilation) in enumerate(zip(*options, strict=True), 2):
        # One dimension at a time: 2k slices for k x k elements.
        taps = window_taps(build, x, [dim], [size], [stride], [dilation])
        sizes = list(tensor_type(taps[0]).get_shape())
        sizes[1] *= size
        type = tensor_type(x)
        x = build.emit("concat", type, sizes, values=taps, axis=1, interleave=True)
    type, rows = tensor_type(x), inputs * product(window)
    columns = build.reshape(x, [batch, groups, rows, count])
    before, _, _, after = tensor_type(columns).get_shape()
    y = build.emit(
        "matmul",
        type,
        [before, groups, outputs // groups, after],
        x=build.reshape(kernel, [1, groups, outputs // groups, rows]),
        y=columns,
    )
    y = build.reshape(y, [batch, outputs, *build.sizes(x)[2:]])
    if op.bias is not None:
        y = add_bias(build, y, build.as_int32(op.bias))
    return wrapped(build, y, op.result.type.element_type)


def wrapped(build: MilBuilder, x: SSAValue, element_type: Attribute) -> SSAValue:
    """int32 as narrower integers: only the lowest bits are kept."""
    if element_type in (i32, i64):
        return x
    assert isa(element_type, IntegerType[int, Signedness])
    type, shape = tensor_type(x), tensor_type(x).get_shape()
    bits, name = element_type.width.data, mil_types.ELEMENT_TYPES[element_type]
    least = 0 if name.startswith("u") else -(2 ** (bits - 1))
    for op, number in ("sub", least), ("mod", 2**bits), ("add", least):
        if number:
            x = build.emit(op, type, shape, x=x, y=np.int32(number))
    return build.cast(x, element_type)


@lowers(tcp.ConvTransposeOp)
def lower_conv_transpose(build: MilBuilder, op: tcp.ConvTransposeOp) -> SSAValue:
    """`conv_transpose`, whose `pad` crops."""
    check_window(op)
    check(op)
    if not takes_kernel(op, build.target):
        raise Obstacle(
            "Core ML transposes convolutions by constant kernels, of dimensions in the "
            "order i, o, 0, 1, ..., and from iOS17 on by computed ones, with constant "
            "biases",
            DECOMPOSE,
        )
    pad = [-n for amount in op.expansions for n in (amount.lower, amount.upper)]
    y = convolve(build, op, op.input, result_shape(op), pad)
    return as_result(build, op, y)


def split_off_added(op: tcp.ConvTransposeOp) -> SSAValue | None:
    """`conv_transpose(x) -> pad(conv_transpose(x))`: Core ML's op can only crop."""
    is_float = tensor_type(op.input).element_type in (f16, f32)
    if not is_float or all(a.added == Amounts(0, 0) for a in op.expansions):
        return None
    return pad_result(
        op, [a.cropped for a in op.expansions] if may_crop_first(op) else ()
    )


def may_crop_first(op: tcp.ConvTransposeOp) -> bool:
    """Whether the VALID result has more elements than are cropped."""
    for number, dim in enumerate(ConvDimsAttr.spatial(op.dims.input)):
        sizes = tensor_type(op.input).get_shape()[dim], op.kernel_sizes[number]
        # A dynamic size is at least 1.
        size, kernel = (1 if n == DYNAMIC_INDEX else n for n in sizes)
        valid = padding.conv_transpose_output_size(
            size,
            kernel,
            op.strides.get_values()[number],
            op.dilations.get_values()[number],
        )
        amount = op.expansions[number]
        if valid + min(amount.lower, 0) + min(amount.upper, 0) < 1:
            return False
    return True


def check_window(op: tcp.ConvolutionOp) -> None:
    """Raise `Obstacle` if Core ML has no convolution with such windows."""
    if (rank := op.dims.spatial_rank) > 3:
        raise Obstacle(
            f"Core ML convolves 3 dimensions at most, not {rank}",
            "split the convolution into ones of fewer dimensions",
        )
    sizes = op.kernel_sizes
    fixed = sizes.values() if is_integer(op) else [sizes[dim] for dim in range(rank)]
    if DYNAMIC_INDEX in fixed:
        raise Obstacle("a kernel of dynamic size", "make the sizes of kernels static")


def check(op: tcp.ConvolutionOp) -> None:
    """Raise `Obstacle` if Core ML has no such convolution."""
    if tensor_type(op.input).element_type not in (f16, f32):
        raise Obstacle(
            "Core ML convolves floats only", "convert the tensors to float32 first"
        )
    if is_dilated(op) and not mil.is_constant(op.kernel):
        raise Obstacle("Core ML dilates constant kernels only", DECOMPOSE)


def result_shape(op: tcp.ConvolutionOp) -> list[int]:
    """The sizes of the result as `[n, c, *spatial]`."""
    sizes = dict(zip(op.dims.result, op.result.type.get_shape(), strict=True))
    roles = ConvDimsAttr.channels_first(op.dims.spatial_rank).result
    return [sizes.get(role, 1) for role in roles]


def convolve(
    build: MilBuilder,
    op: tcp.ConvolutionOp,
    x: SSAValue,
    shape: Sequence[int],
    pad: Sequence[int],
) -> SSAValue:
    """Core ML's convolution of `x` with the kernel and bias of `op`."""
    if isinstance(op, tcp.ConvTransposeOp):
        name, dims = "conv_transpose", ConvDimsAttr.transposed(op.dims.spatial_rank)
    else:
        name, dims = "conv", ConvDimsAttr.channels_first(op.dims.spatial_rank)
    added = op.bias
    # coremltools 9.0 needs the value of a transposed convolution's bias.
    may_be_any = name == "conv" and may_be_computed(name, "bias", build.target)
    is_native = added is not None and (mil.is_constant(added) or may_be_any)
    y = build.emit(
        name,
        op.result.type,
        shape,
        x=in_order(build, x, op.dims.input, dims.input),
        weight=in_order(build, op.kernel, op.dims.kernel, dims.kernel),
        bias=added if is_native else None,
        strides=list(op.strides.get_values()),
        pad_type="custom",
        pad=pad,
        dilations=list(op.dilations.get_values()),
        groups=op.groups.value.data,
    )
    return y if is_native or added is None else add_bias(build, y, added)


def add_bias(build: MilBuilder, y: SSAValue, bias: SSAValue) -> SSAValue:
    """`y`, `[n, c, *spatial]`, plus a bias for each channel."""
    (count,) = tensor_type(bias).get_shape()
    ones = [1] * (tensor_type(y).get_num_dims() - 2)
    return build.binary("add", y, build.reshape(bias, [count, *ones]))


def in_order(
    build: MilBuilder, x: SSAValue, roles: Sequence[Role], order: Sequence[Role]
) -> SSAValue:
    """`x` with its dimensions in this order, and a batch of one if it has no batch."""
    x = build.transpose(x, [roles.index(role) for role in order if role in roles])
    if "b" in roles or "b" not in order:
        return x
    type = tensor_type(x)
    return build.emit("expand_dims", type, [1, *type.get_shape()], x=x, axes=[0])


def as_result(build: MilBuilder, op: tcp.ConvolutionOp, y: SSAValue) -> SSAValue:
    """`y`, `[n, c, *spatial]`, with the dimensions of the op's result."""
    roles: Sequence[Role] = ConvDimsAttr.channels_first(op.dims.spatial_rank).result
    if "b" not in op.dims.result:
        type, roles = tensor_type(y), roles[1:]
        y = build.emit("squeeze", type, type.get_shape()[1:], x=y, axes=[0])
    return build.transpose(y, [roles.index(role) for role in op.dims.result])
