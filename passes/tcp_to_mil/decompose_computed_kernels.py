"""
Write convolutions by computed kernels as those that Core ML has.

Core ML dilates constant kernels only, and before iOS17 transposes convolutions by
constant kernels only (the documentation of its ops in coremltools); from then on with
constant biases only (its `conv_transpose` of coremltools 9.0):

    conv(x, w, dilation d)    conv(x, pad(w, interior d - 1))
    conv_transpose(x, w)      conv(pad(x), w'), as in decompose-conv-transpose

Zeros that are inserted into the kernel are multiplied by the input: where that is not
finite, the result has NaN where the op has none.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import DenseArrayBase, ModuleOp, i64
from xdsl.passes import ModulePass
from xdsl.transforms.dead_code_elimination import region_dce

from padc.ir import mil, tcp
from padc.ir.padding import Amounts
from padc.ir.tcp import ConvDimsAttr
from padc.ir.weights import weights_of
from padc.passes.aten.builder import AtenBuilder
from padc.passes.tcp_to_mil.convolutions import is_dilated, takes_kernel
from padc.passes.to_linalg.decompose_conv_transpose import pad, zero_insert


@dataclass(frozen=True)
class DecomposeComputedKernelsPass(ModulePass):
    """Write convolutions by computed kernels as those that Core ML has."""

    name = "decompose-computed-kernels"

    target: str = "iOS17"
    """The oldest system the program is to run on: iOS15, iOS16, iOS17, iOS18, ..."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = mil.resolve_target(self.target)
        for old in [old for old in op.walk() if isinstance(old, tcp.ConvTransposeOp)]:
            if not takes_kernel(old, target):
                zero_insert(old, weights_of(ctx))
        region_dce(op.body)
        for old in op.walk():
            if isinstance(old, tcp.ConvolutionOp) and not mil.is_constant(old.kernel):
                dilate_kernel(old)


def dilate_kernel(op: tcp.ConvolutionOp) -> None:
    """Insert what the op's dilation leaves out into the kernel itself."""
    if not is_dilated(op):
        return
    dims = ConvDimsAttr.spatial(op.dims.kernel)
    between = [Amounts(0, 0, dilation - 1) for dilation in op.dilations.get_values()]
    kernel = pad(AtenBuilder(op), op.kernel, dims, between)
    dilations = DenseArrayBase.from_list(i64, [1] * len(dims))
    op.operands[1] = kernel
    op.dilations = dilations
