"""
Write transposed convolutions without cropping, or without transposed convolutions.

With stride s, dilation d, kernel k, and expansions l and u of the VALID result:

    zero-insert   conv(pad(x, [d(k - 1) + l, d(k - 1) + u], interior s - 1), w') + b
    crop          pad(conv_transpose(x, w), [l, u]) + b

w' is the kernel from its end to its start, with the features of each group that it
takes and those that it makes the other way round; the convolution has stride 1 and
dilation d. Negative amounts crop. Source: V. Dumoulin and F. Visin, "A guide to
convolution arithmetic for deep learning" (https://arxiv.org/abs/1603.07285), 4.

Zeros that were inserted are multiplied by the kernel: where that is not finite, the
first form has NaN where the op has none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseResourceAttr,
    ModuleOp,
    TensorType,
)
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.transforms.dead_code_elimination import region_dce
from xdsl.utils.exceptions import PassFailedException
from xdsl.utils.hints import isa

from padc.ir import padding, tcp
from padc.ir.padding import Amounts
from padc.ir.tcp import AnyTensor, ConvDimsAttr, tensor_type
from padc.ir.tcp.convolutions import Role
from padc.ir.torch import LiteralOp, ToBuiltinTensorOp
from padc.ir.weights import Array, Weights, weights_of
from padc.passes.aten.builder import AtenBuilder

FORMS = ("zero-insert", "crop")


@dataclass(frozen=True)
class DecomposeConvTransposePass(ModulePass):
    """Write transposed convolutions as convolutions, or as VALID ones and pads."""

    name = "decompose-conv-transpose"

    form: str = "zero-insert"
    """
    zero-insert: a convolution of the padded input; transposed convolutions stay whose
    result is empty, and by kernels whose size, or features if in groups, is dynamic.
    crop: a transposed convolution that is VALID, a pad, and the addition of the bias.
    """

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.form not in FORMS:
            raise PassFailedException(
                f"{self.name} has no form '{self.form}'; choose one of {FORMS}"
            )
        weights = weights_of(ctx)
        for old in [old for old in op.walk() if isinstance(old, tcp.ConvTransposeOp)]:
            if self.form == "crop":
                pad_behind(old)
            else:
                zero_insert(old, weights)
        region_dce(op.body)


def replace(op: tcp.ConvTransposeOp, new: SSAValue) -> None:
    new.name_hint = op.result.name_hint
    op.result.replace_all_uses_with(new)


def pad(
    build: AtenBuilder, x: SSAValue, dims: Sequence[int], amounts: Sequence[Amounts]
) -> SSAValue:
    """
    Dimensions `dims` of `x` padded with zeros; the lower amount of one may crop into
    what the upper one adds, and the other way round.
    """
    for part in split_amounts(x, dims, amounts):
        of_all = dict(zip(dims, part, strict=True))
        rank = tensor_type(x).get_num_dims()
        x = build.pad(x, [of_all.get(dim, Amounts(0, 0)) for dim in range(rank)], 0)
    return x


def split_amounts(
    x: SSAValue, dims: Sequence[int], amounts: Sequence[Amounts]
) -> list[list[Amounts]]:
    """The amounts of one pad, or of two where one would crop all there is."""
    first: list[Amounts] = []
    second: list[Amounts] = []
    for dim, amount in zip(dims, amounts, strict=True):
        size = tensor_type(x).get_shape()[dim]
        # Of a dynamic size no more is known than that it is not 0.
        size = 1 if size == DYNAMIC_INDEX else size
        cropped = Amounts(min(amount.lower, 0), min(amount.upper, 0))
        later = Amounts(0, 0)
        if padding.padded_size(size, cropped.lower, cropped.upper, amount.interior) < 1:
            added = max(amount.lower, 0), max(amount.upper, 0)
            amount, later = Amounts(*added, amount.interior), cropped
        first.append(amount)
        second.append(later)
    return [first, second]


# As a convolution.


def zero_insert(op: tcp.ConvTransposeOp, weights: Weights) -> None:
    """`conv_transpose(x, w, b) -> conv(pad(x), w', b)`, where there is such a one."""
    build = AtenBuilder(op)
    dims, sizes, spatial = op.dims, op.kernel_sizes, range(op.dims.spatial_rank)
    results = [op.result.type.get_shape()[i] for i in ConvDimsAttr.spatial(dims.result)]
    if DYNAMIC_INDEX in [sizes[number] for number in spatial] or 0 in results:
        return
    if (kernel := conv_kernel(build, op, weights)) is None:
        return
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
    replace(op, build.insert(conv))


def conv_kernel(
    build: AtenBuilder, op: tcp.ConvTransposeOp, weights: Weights
) -> tuple[SSAValue, tuple[Role, ...]] | None:
    """The kernel of the convolution, and its dimensions' roles; None if unknown."""
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
    # The window is one dimension: Core ML has no tensors of rank 6.
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
    """The weight that a kernel is; None where it is computed, or has no data."""
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
    """A new weight, of the element type of `like` and named after it."""
    type = like.get_type()
    assert isa(type, AnyTensor)
    name = weights.add(f"{like.resource_handle.data}_flipped", array)
    value = DenseResourceAttr.from_params(
        name, TensorType(type.element_type, array.shape)
    )
    return build.insert(ToBuiltinTensorOp(build.insert(LiteralOp(value))))


# As a transposed convolution of less, and a pad.


def pad_behind(op: tcp.ConvTransposeOp, kept: Sequence[Amounts] = ()) -> None:
    """`conv_transpose(x, w, b) -> pad(conv_transpose(x, w)) + b`, but for `kept`."""
    build, rank = AtenBuilder(op), op.dims.spatial_rank
    kept = kept or [Amounts(0, 0)] * rank
    amounts = [
        Amounts(all.lower - own.lower, all.upper - own.upper)
        for all, own in zip(op.expansions, kept, strict=True)
    ]
    if all(amount == Amounts(0, 0) for amount in amounts):
        return
    dims = ConvDimsAttr.spatial(op.dims.result)
    shape = list(op.result.type.get_shape())
    for dim, amount in zip(dims, amounts, strict=True):
        if shape[dim] != DYNAMIC_INDEX:
            shape[dim] -= amount.lower + amount.upper
    # The bias is for what is added too.
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
    replace(op, y)
