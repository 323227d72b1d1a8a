"""
Split transposed convolutions with constant kernels into convolutions.

Each phase of the result is a convolution of stride 1: see `padc.ir.phases`. Together
they multiply as often as a transposed convolution has products; a convolution of an
input with inserted zeros multiplies `stride` times as often in each dimension.

    conv_transpose(x, w, b)  ->  interleave(conv(part of pad(x), w_0, b), ...)

Some transposed convolutions stay: those with more than `MOST_PHASES` phases, or with a
phase that no tap reaches, or whose kernel is computed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseResourceAttr,
    ModuleOp,
    TensorType,
)
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from padc.ir import tcp
from padc.ir.padding import Amounts
from padc.ir.phases import PhaseTaps, conv_transpose_phase
from padc.ir.tcp import ConvDimsAttr, tensor_type
from padc.ir.torch import LiteralOp, ToBuiltinTensorOp
from padc.ir.weights import Weights, weights_of
from padc.passes.aten.builder import AtenBuilder
from padc.passes.aten.conv_transpose import weight
from padc.passes.aten.phase_kernel import PhaseKernel
from padc.passes.common.lowering import lower_all

MOST_PHASES = 16
"""Each phase is code of its own."""


@dataclass(frozen=True)
class Phase:
    """One phase of the result along one dimension."""

    taps: PhaseTaps
    pad: Amounts
    """The padding of its convolution's input; negative amounts crop."""
    count: int
    """Its size, minus that of the input."""


def phases_of(op: tcp.ConvTransposeOp, number: int) -> list[Phase] | None:
    """The phases of spatial dimension `number`; None if one has no taps or no size."""
    size = tensor_type(op.input).get_shape()[op.dims.input.index(number)]
    kernel = op.kernel_sizes[number]
    stride, dilation = (
        op.strides.get_values()[number],
        op.dilations.get_values()[number],
    )
    amounts = op.expansions[number]
    found: list[Phase] = []
    for phase in range(stride):
        made = phase_of(kernel, stride, dilation, amounts, phase)
        # A dynamic size is at least 1.
        least = 1 if size == DYNAMIC_INDEX else size
        if made is None or least + made.count < 1:
            return None
        found.append(made)
    return found


def phase_of(
    kernel: int, stride: int, dilation: int, amounts: Amounts, phase: int
) -> Phase | None:
    """
    The positions `stride * q + phase` of the result; None if no tap reaches them.

    For an input of size D the result has size `stride * D + rest`. Its position t is
    position `t - amounts.lower` of the VALID result.
    """
    whole, residue = divmod(phase - amounts.lower, stride)
    taps = conv_transpose_phase(kernel, stride, dilation, residue)
    if taps is None:
        return None
    rest = dilation * (kernel - 1) + 1 - stride + amounts.lower + amounts.upper
    count = -((phase - rest) // stride)
    first = whole + taps.start
    upper = first + (taps.number - 1) * taps.dilation + count
    return Phase(taps, Amounts(-first, upper), count)


def split(op: tcp.ConvTransposeOp, weights: Weights) -> SSAValue | None:
    """`conv_transpose(x, w, b)`, by phases; None if it stays."""
    dims, strides = op.dims, op.strides.get_values()
    kernel = weight(op.kernel, weights)
    if kernel is None or math.prod(strides) > MOST_PHASES:
        return None
    weights.array(kernel)
    along: list[list[Phase]] = []
    for number in range(dims.spatial_rank):
        phases = phases_of(op, number)
        if phases is None:
            return None
        along.append(phases)
    build = AtenBuilder(op)
    padded = Padded.of(build, op, along)
    parts = [
        convolution(build, op, phases, padded, kernel, weights)
        for phases in itertools.product(*along)
    ]
    if len(parts) == 1:
        return parts[0]
    result = ConvDimsAttr.spatial(dims.result)
    return build.insert(tcp.InterleaveOp(parts, strides, result, op.result.type))


@dataclass(frozen=True)
class Padded:
    """The input, padded by the most that a phase needs on each side."""

    tensor: SSAValue
    dims: Sequence[int]
    amounts: Sequence[Amounts]

    @staticmethod
    def of(
        build: AtenBuilder, op: tcp.ConvTransposeOp, along: Sequence[Sequence[Phase]]
    ) -> Padded:
        dims = ConvDimsAttr.spatial(op.dims.input)
        most = [
            Amounts(
                max(0, *(phase.pad.lower for phase in phases)),
                max(0, *(phase.pad.upper for phase in phases)),
            )
            for phases in along
        ]
        all = [Amounts(0, 0)] * len(op.dims.input)
        for dim, amounts in zip(dims, most, strict=True):
            all[dim] = amounts
        return Padded(build.pad(op.input, all, 0), dims, most)

    def part(self, build: AtenBuilder, phases: Sequence[Phase]) -> SSAValue:
        """The input as the convolution of `phases` needs it: padded by less."""
        x = self.tensor
        for dim, most, phase in zip(self.dims, self.amounts, phases, strict=True):
            start, end = most.lower - phase.pad.lower, phase.pad.upper - most.upper
            x = build.slice(x, dim, start, end or None)
        return x


def convolution(
    build: AtenBuilder,
    op: tcp.ConvTransposeOp,
    phases: Sequence[Phase],
    padded: Padded,
    kernel: DenseResourceAttr,
    weights: Weights,
) -> SSAValue:
    """The convolution that computes one part of the result."""
    dims, shape = op.dims, list(op.result.type.get_shape())
    for number, phase in enumerate(phases):
        size = tensor_type(op.input).get_shape()[dims.input.index(number)]
        if size != DYNAMIC_INDEX:
            size += phase.count
        shape[dims.result.index(number)] = size
    roles = ConvDimsAttr.channels_first(dims.spatial_rank).kernel
    conv = tcp.ConvOp(
        padded.part(build, phases),
        phase_kernel(build, op, phases, kernel, weights),
        op.bias,
        [1] * dims.spatial_rank,
        [phase.taps.dilation for phase in phases],
        op.groups.value.data,
        ConvDimsAttr((dims.input, roles, dims.result)),
        TensorType(op.result.type.element_type, shape),
    )
    return build.insert(conv)


def phase_kernel(
    build: AtenBuilder,
    op: tcp.ConvTransposeOp,
    phases: Sequence[Phase],
    kernel: DenseResourceAttr,
    weights: Weights,
) -> SSAValue:
    """A weight with the taps of one part."""
    name = kernel.resource_handle.data
    order = ConvDimsAttr.transposed(op.dims.spatial_rank).kernel
    derived = PhaseKernel(
        weights.add(f"{name}.phase", np.empty(0)),
        name,
        [op.dims.kernel.index(role) for role in order],
        op.groups.value.data,
        [(phase.taps.first, phase.taps.step) for phase in phases],
    )
    derived.apply(weights)
    weights.derivations.append(derived)
    type = TensorType(
        tensor_type(op.kernel).element_type, weights[derived.weight].shape
    )
    value = DenseResourceAttr.from_params(derived.weight, type)
    return build.insert(ToBuiltinTensorOp(build.insert(LiteralOp(value))))


class SplitConvTransposePass(ModulePass):
    """Split transposed convolutions with constant kernels into convolutions."""

    name = "split-conv-transpose"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        lower_all(op, tcp.ConvTransposeOp, partial(split, weights=weights_of(ctx)))
