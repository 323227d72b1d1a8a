"""
Transposed convolutions without cropping, or without transposed convolutions.

With stride s, dilation d, kernel k, and expansions l and u of the VALID result:

    zero_insert   conv(pad(x, [d(k - 1) + l, d(k - 1) + u], interior s - 1), w') + b
    pad_result    pad(conv_transpose(x, w), [l, u]) + b

w' is the kernel reversed in each spatial dimension, with the input and output features
of each group swapped. The convolution has stride 1 and dilation d. Negative amounts
crop. Source: V. Dumoulin and F. Visin, "A guide to convolution arithmetic for deep
learning" (https://arxiv.org/abs/1603.07285), 4.

The first form multiplies the inserted zeros by the kernel: where the kernel is not
finite, it gives NaN and the op does not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.dialects.builtin import DYNAMIC_INDEX, DenseResourceAttr, TensorType
from xdsl.ir import SSAValue
from xdsl.utils.hints import isa

from padc.ir import padding, tcp
from padc.ir.padding import Amounts
from padc.ir.tcp import AnyTensor, ConvDimsAttr, tensor_type
from padc.ir.tcp.convolutions import Role
from padc.ir.torch import LiteralOp, ToBuiltinTensorOp
from padc.ir.weights import Array, Weights
from padc.passes.aten.builder import AtenBuilder


def zero_insert(op: tcp.ConvTransposeOp, weights: Weights) -> SSAValue | None:
    """
    `conv_transpose(x, w, b) -> conv(pad(x), w', b)`.

    None if the result is empty, or if the kernel's size, or its number of features
    with groups, is dynamic.
    """
    build = AtenBuilder(op)
    dims, sizes, spatial = op.dims, op.kernel_sizes, range(op.dims.spatial_rank)
    results = [op.result.type.get_shape()[i] for i in ConvDimsAttr.spatial(dims.result)]
    if DYNAMIC_INDEX in [sizes[number] for number in spatial] or 0 in results:
        return None
    if (kernel := conv_kernel(build, op, weights)) is None:
        return None
    value, roles = kernel
    amounts = [
        padding.conv_transpose_amounts(
            sizes[number], stride, dilation, -amount.lower, amount.upper - amount.lower
        )
        for number, stride, dilation, amount in zip(
            spatial,
            op.strides.get_values(),
            op.dilations.get_values(),
            op.expansions,
            strict=True,
        )
    ]
    conv = tcp.ConvOp(
        pad(build, op.input, ConvDimsAttr.spatial(dims.input), amounts),
        value,
        op.bias,
        [1] * dims.spatial_rank,
        op.dilations.get_values(),
        op.groups.value.data,
        ConvDimsAttr((dims.input, roles, dims.result)),
        op.result.type,
    )
    return build.insert(conv)


def pad_result(
    op: tcp.ConvTransposeOp, kept: Sequence[Amounts] = ()
) -> SSAValue | None:
    """
    `conv_transpose(x, w, b) -> pad(conv_transpose(x, w)) + b`.

    The new op keeps the expansions `kept`, by default none. None if the pad would add
    and crop nothing.
    """
    build, rank = AtenBuilder(op), op.dims.spatial_rank
    kept = kept or [Amounts(0, 0)] * rank
    amounts = [
        Amounts(all.lower - own.lower, all.upper - own.upper)
        for all, own in zip(op.expansions, kept, strict=True)
    ]
    if all(amount == Amounts(0, 0) for amount in amounts):
        return None
    dims = ConvDimsAttr.spatial(op.dims.result)
    shape = list(op.result.type.get_shape())
    for dim, amount in zip(dims, amounts, strict=True):
        if shape[dim] != DYNAMIC_INDEX:
            shape[dim] -= amount.lower + amount.upper
    # The bias is added to the pad's elements too.
    adds = any(max(amount.lower, amount.upper) > 0 for amount in amounts)
    less = tcp.ConvTransposeOp(
        op.input,
        op.kernel,
        None if adds else op.bias,
        op.strides.get_values(),
        op.dilations.get_values(),
        op.groups.value.data,
        op.dims,
        TensorType(op.result.type.element_type, shape),
        kept,
    )
    y = pad(build, build.insert(less), dims, amounts)
    if adds and op.bias is not None:
        ones = len(op.dims.result) - op.dims.result.index("f") - 1
        (count,) = tensor_type(op.bias).get_shape()
        bias = build.reshape(op.bias, [count, *[1] * ones])
        y = build.call("add.Tensor", op.result.type, self=y, other=bias)
    return y


def pad(
    build: AtenBuilder, x: SSAValue, dims: Sequence[int], amounts: Sequence[Amounts]
) -> SSAValue:
    """
    Pad dimensions `dims` of `x` with zeros.

    One amount of a dimension may crop into what the other one adds.
    """
    for part in split_amounts(x, dims, amounts):
        of_all = dict(zip(dims, part, strict=True))
        rank = tensor_type(x).get_num_dims()
        x = build.pad(x, [of_all.get(dim, Amounts(0, 0)) for dim in range(rank)], 0)
    return x


def split_amounts(
    x: SSAValue, dims: Sequence[int], amounts: Sequence[Amounts]
) -> list[list[Amounts]]:
    """The amounts of two pads; the second crops where the first could not."""
    first: list[Amounts] = []
    second: list[Amounts] = []
    for dim, amount in zip(dims, amounts, strict=True):
        size = tensor_type(x).get_shape()[dim]
        # A dynamic size is at least 1.
        size = 1 if size == DYNAMIC_INDEX else size
        cropped = amount.cropped
        later = Amounts(0, 0)
        if padding.padded_size(size, cropped.lower, cropped.upper, amount.interior) < 1:
            added = amount.added
            amount = Amounts(added.lower, added.upper, amount.interior)
            later = cropped
        first.append(amount)
        second.append(later)
    return [first, second]


def conv_kernel(
    build: AtenBuilder, op: tcp.ConvTransposeOp, weights: Weights
) -> tuple[SSAValue, tuple[Role, ...]] | None:
    """The kernel of the convolution and the roles of its dimensions."""
    sizes, roles, groups = op.kernel_sizes, op.dims.kernel, op.groups.value.data
    literal = weight(op.kernel, weights)
    if groups == 1 and literal is None:
        return build.flip(op.kernel, ConvDimsAttr.spatial(roles)), roles
    old = ConvDimsAttr.transposed(op.dims.spatial_rank).kernel
    new = ConvDimsAttr.channels_first(op.dims.spatial_rank).kernel
    inputs, outputs, *window = (sizes[role] for role in old)
    if DYNAMIC_INDEX in (inputs, outputs):
        return None
    order = [roles.index(role) for role in old]
    # The window is flattened: Core ML has no tensors of rank 6.
    split = [groups, inputs // groups, outputs, math.prod(window)]
    joined = [groups * outputs, inputs // groups, *window]
    if literal is not None:
        array = weights.array(literal).transpose(order).reshape(split)
        array = array[..., ::-1].swapaxes(1, 2).reshape(joined)
        return insert_weight(build, literal, array, weights), new
    x = build.reshape(build.permute(op.kernel, order), split)
    x = build.permute(build.flip(x, [3]), [0, 2, 1, 3])
    return build.reshape(x, joined), new


def weight(kernel: SSAValue, weights: Weights) -> DenseResourceAttr | None:
    """The weight used as the kernel; None if it is computed or its data is missing."""
    match kernel.owner:
        case ToBuiltinTensorOp(
            operand=SSAValue(owner=LiteralOp(value=DenseResourceAttr() as value))
        ) if value.resource_handle.data in weights:
            return value
        case _:
            return None


def insert_weight(
    build: AtenBuilder, like: DenseResourceAttr, array: Array, weights: Weights
) -> SSAValue:
    """A new weight with the element type of `like`, named after it."""
    type = like.get_type()
    assert isa(type, AnyTensor)
    name = weights.add(f"{like.resource_handle.data}_flipped", array)
    value = DenseResourceAttr.from_params(
        name, TensorType(type.element_type, array.shape)
    )
    return build.insert(ToBuiltinTensorOp(build.insert(LiteralOp(value))))
