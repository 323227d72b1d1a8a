"""Convolutions: their own padding becomes a pad before them."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import DYNAMIC_INDEX, i1
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from padc.errors import Obstacle
from padc.ir import padding, tcp
from padc.ir.padding import Amounts
from padc.ir.tcp import tensor_type
from padc.passes.torch_to_tcp.aten.tcp_call import TcpCall, lowers


@lowers(
    *(f"aten.conv{rank}d" for rank in (1, 2, 3)),
    *(f"aten.conv{rank}d.padding" for rank in (1, 2, 3)),
    *("aten.convolution", "aten._convolution", "aten._convolution.deprecated"),
)
def lower_convolution(call: TcpCall) -> SSAValue:
    """`conv(x, w, b, padding=p) -> tcp.conv(tcp.pad(x, 0, p), w, b)`."""
    names = [argument.name for argument in call.op.schema.arguments]
    if "transposed" in names and call.boolean("transposed"):
        return conv_transpose(call)
    x, kernel, rank = operands(call)
    outputs, inputs, *sizes = tensor_type(kernel).get_shape()
    if 0 in (outputs, *sizes):
        raise Obstacle(f"PyTorch has no convolution by {kernel.type}")
    if inputs == 0:
        return without_features(call, x)
    strides = call.integers("stride", rank)
    dilations = call.integers("dilation", rank)
    match call.constant("padding"):
        case "valid":
            amounts = [Amounts(0, 0)] * rank
        case "same":
            if any(stride != 1 for stride in strides):
                raise Obstacle(f"padding='same' with stride {strides}")
            if DYNAMIC_INDEX in sizes:
                raise VerifyException(
                    f"padding='same' for a kernel of dynamic size, {kernel.type}"
                )
            amounts = [
                padding.same_pytorch(size, dilation)
                for size, dilation in zip(sizes, dilations, strict=True)
            ]
        case _:
            amounts = [Amounts(p, p) for p in not_negative(call, "padding", rank)]
    return call.insert_valid(
        tcp.ConvOp(
            call.pad(x, 0, amounts),
            kernel,
            call.optional_tensor("bias"),
            strides,
            dilations,
            groups(call),
            tcp.ConvDimsAttr.channels_first(rank, is_batched(x, rank)),
            call.result_type(),
        ),
    )


@lowers(
    "aten.conv_transpose1d",
    "aten.conv_transpose2d.input",
    "aten.conv_transpose3d.input",
)
def lower_conv_transpose(call: TcpCall) -> SSAValue:
    return conv_transpose(call)


def conv_transpose(call: TcpCall) -> SSAValue:
    """`tcp.conv_transpose`: `padding` crops, `output_padding` is kept above."""
    x, kernel, rank = operands(call)
    if 0 in tensor_type(kernel).get_shape():
        raise Obstacle(f"PyTorch has no transposed convolution by {kernel.type}")
    strides = call.integers("stride", rank)
    dilations = call.integers("dilation", rank)
    added = not_negative(call, "output_padding", rank)
    for most, amount in zip(map(max, strides, dilations), added, strict=True):
        if amount >= most:
            raise Obstacle(
                f"output_padding {added} must be smaller than either the stride "
                f"{strides} or the dilation {dilations}"
            )
    expansions = [
        Amounts(-amount, more - amount)
        for amount, more in zip(not_negative(call, "padding", rank), added, strict=True)
    ]
    return call.insert_valid(
        tcp.ConvTransposeOp(
            x,
            kernel,
            call.optional_tensor("bias"),
            strides,
            dilations,
            groups(call),
            tcp.ConvDimsAttr.transposed(rank, is_batched(x, rank)),
            call.result_type(),
            expansions,
        ),
    )


@lowers("aten.conv_tbc")
def lower_conv_tbc(call: TcpCall) -> SSAValue:
    """A convolution of (time, batch, feature) by (time, input, output)."""
    x, pad = call.tensor("self"), call.constant("pad")
    if not isinstance(pad, int) or pad < 0:
        raise Obstacle(f"pad {pad}")
    activation = (0, "b", "f")
    return call.insert_valid(
        tcp.ConvOp(
            call.pad(x, 0, [Amounts(pad, pad), Amounts(0, 0), Amounts(0, 0)]),
            call.tensor("weight"),
            call.tensor("bias"),
            [1],
            [1],
            1,
            tcp.ConvDimsAttr((activation, (0, "i", "o"), activation)),
            call.result_type(),
        ),
    )


def operands(call: TcpCall) -> tuple[SSAValue, SSAValue, int]:
    """The input, the weight, and the number of spatial dimensions."""
    x, kernel = call.tensor("input"), call.tensor("weight")
    type = tensor_type(kernel)
    if type.element_type == i1:
        raise Obstacle("PyTorch has no convolution of bool")
    return x, kernel, type.get_num_dims() - 2


def without_features(call: TcpCall, x: SSAValue) -> SSAValue:
    """
    A convolution without input features; PyTorch gives it no output features.

    Source: `ConvBackend::Empty` of PyTorch's aten/src/ATen/native/Convolution.cpp.
    """
    result, shape = call.result_type(), tensor_type(x).get_shape()
    if DYNAMIC_INDEX in (*shape, *result.get_shape()):
        raise Obstacle(f"no input features, and a dynamic size, in {x.type}")
    sizes = zip(shape, result.get_shape(), strict=True)
    return call.pad(x, 0, [Amounts(0, new - size) for size, new in sizes])


def is_batched(x: SSAValue, rank: int) -> bool:
    return tensor_type(x).get_num_dims() == rank + 2


def groups(call: TcpCall) -> int:
    count = call.constant("groups")
    assert isinstance(count, int)
    return count


def not_negative(call: TcpCall, name: str, rank: int) -> Sequence[int]:
    """A list of integers; Obstacle if one is negative, as in PyTorch."""
    values = call.integers(name, rank)
    if any(value < 0 for value in values):
        raise Obstacle(f"negative {name} {values}")
    return values
