"""Transposed convolutions with computed kernels, as pads and convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType, UnrealizedConversionCastOp
from xdsl.ir import SSAValue

from padc.ir import tcp
from padc.ir.arithmetic import SymbolicInteger
from padc.ir.padding import conv_transpose_amounts, conv_transpose_output_size
from padc.ir.tcp import Amount, ConvDimsAttr, tensor_type
from padc.ir.tcp.convolutions import Role
from padc.passes.common.linalg_builder import (
    LinalgBuilder,
    element_type,
)


def decompose(build: LinalgBuilder, op: tcp.ConvTransposeOp) -> SSAValue:
    """
    `conv_transpose(x, w, b) -> conv(pad(x), w', b)`, w' computed at run time.

    `decompose-conv-transpose` does the same for a kernel that is a weight.
    """
    dims, spatial = op.dims, range(op.dims.spatial_rank)
    if is_empty(op):
        # No window of a convolution has room in the pad's result.
        return empty(build, op)
    kernel_sizes = [
        build.size(op.kernel, dims.kernel.index(number)) for number in spatial
    ]
    rank = len(dims.input)
    lower: list[Amount] = [0] * rank
    upper: list[Amount] = [0] * rank
    interior: list[Amount] = [0] * rank
    for number, size in zip(spatial, kernel_sizes, strict=True):
        # Declared as integers, but of the same type as the size.
        amounts: Any = conv_transpose_amounts(
            build.wrap(size),
            op.strides.get_values()[number],
            op.dilations.get_values()[number],
        )
        dim = dims.input.index(number)
        lower[dim] = (amounts.lower + op.expansions[number].lower).value
        upper[dim] = (amounts.upper + op.expansions[number].upper).value
        interior[dim] = amounts.interior
    x = op.input
    zero = build.constant(0, element_type(x))
    # One side may crop what the other adds: crop last.
    x = pad(build, x, zero, build.added(lower), build.added(upper), interior)
    x = pad(build, x, zero, build.removed(lower), build.removed(upper), [0] * rank)
    conv = tcp.ConvOp(
        x,
        flipped(build, op),
        op.bias,
        [1] * len(spatial),
        op.dilations.get_values(),
        op.groups.value.data,
        ConvDimsAttr(
            (dims.input, ConvDimsAttr.channels_first(len(spatial)).kernel, dims.result)
        ),
        op.result.type,
    )
    return build.insert(conv)


def is_empty(op: tcp.ConvTransposeOp) -> bool:
    """Whether the whole result is cropped."""
    shape = op.result.type.get_shape()
    return any(shape[dim] == 0 for dim in ConvDimsAttr.spatial(op.dims.result))


def empty(build: LinalgBuilder, op: tcp.ConvTransposeOp) -> SSAValue:
    """A result without elements."""
    dims, sizes = op.dims, list[Amount](op.result.type.get_shape())
    for dim, role in enumerate(dims.result):
        if sizes[dim] == DYNAMIC_INDEX:
            sizes[dim] = result_size(build, op, role)
    return build.empty(sizes, op.result.type.element_type)


def result_size(build: LinalgBuilder, op: tcp.ConvTransposeOp, role: Role) -> Amount:
    """The result's size in the dimension of this role."""
    if role == "f":
        outputs = build.wrap(build.size(op.kernel, op.dims.kernel.index("o")))
        return (outputs * op.groups.value.data).value
    size = build.size(op.input, op.dims.input.index(role))
    if isinstance(role, str):
        return size
    taps = build.wrap(build.size(op.kernel, op.dims.kernel.index(role)))
    step = op.strides.get_values()[role], op.dilations.get_values()[role]
    amount = op.expansions[role]
    valid = conv_transpose_output_size(build.wrap(size), taps, *step)
    return (valid + (amount.lower + amount.upper)).value


def pad(
    build: LinalgBuilder,
    x: SSAValue,
    fill: SSAValue,
    lower: Sequence[Amount],
    upper: Sequence[Amount],
    interior: Sequence[Amount],
) -> SSAValue:
    if all(amount == 0 for amount in (*lower, *upper, *interior)):
        return x
    return build.insert(tcp.PadOp(x, fill, lower, upper, interior))


def flipped(build: LinalgBuilder, op: tcp.ConvTransposeOp) -> SSAValue:
    """The convolution's kernel `[o, i, ...]`: from its end, and regrouped."""
    roles, groups = op.dims.kernel, op.groups.value.data
    kernel = build.signless(op.kernel)
    sizes = dict(zip(roles, build.sizes(kernel), strict=True))
    inputs, outputs = build.wrap(sizes["i"]) // groups, build.wrap(sizes["o"])
    spatial = range(op.dims.spatial_rank)

    def element(inner: LinalgBuilder, _: Sequence[SSAValue]) -> SSAValue:
        feature, input = (
            inner.wrap(inner.loop_index(0)),
            inner.wrap(inner.loop_index(1)),
        )
        indices: dict[str | int, SymbolicInteger] = {"o": feature, "i": input}
        if groups != 1:
            group = feature // outputs
            indices["o"] = feature - group * outputs
            indices["i"] = input + group * inputs
        for number in spatial:
            index = inner.wrap(inner.loop_index(2 + number))
            indices[number] = build.wrap(sizes[number]) - 1 - index
        return inner.extract(kernel, [indices[role].value for role in roles])

    new_sizes = [
        (outputs * groups).value,
        inputs.value,
        *(sizes[number] for number in spatial),
    ]
    new = build.compute(new_sizes, element_type(kernel), element)
    shape = tensor_type(new).get_shape()
    type = TensorType(tensor_type(op.kernel).element_type, shape)
    if type == new.type:
        return new
    return build.insert(UnrealizedConversionCastOp.get([new], [type]))
