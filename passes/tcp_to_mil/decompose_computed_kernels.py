"""
Rewrite convolutions with computed kernels as those that Core ML has.

In Core ML, dilation needs a constant kernel, and so does `conv_transpose` before iOS17
(the documentation of these ops in coremltools). From iOS17 on, a `conv_transpose` with
a computed kernel needs a constant bias (coremltools 9.0).

    conv(x, w, dilation d)    conv(x, pad(w, interior d - 1))
    conv_transpose(x, w)      conv(pad(x), w'), as in decompose-conv-transpose

The zeros inserted into a kernel are multiplied by the input: where the input is not
finite, the result is NaN, unlike that of the op.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import DenseArrayBase, ModuleOp, i64
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from padc.ir import mil, tcp
from padc.ir.padding import Amounts
from padc.ir.targets import DEFAULT_TARGET, resolve_target
from padc.ir.tcp import ConvDimsAttr
from padc.ir.weights import weights_of
from padc.passes.aten.builder import AtenBuilder
from padc.passes.aten.conv_transpose import pad, zero_insert
from padc.passes.common.lowering import lower_all
from padc.passes.tcp_to_mil.legality import takes_kernel


@dataclass(frozen=True)
class DecomposeComputedKernelsPass(ModulePass):
    """Rewrite convolutions with computed kernels as those that Core ML has."""

    name = "decompose-computed-kernels"

    target: str = DEFAULT_TARGET
    """The oldest system that runs the program: iOS15, iOS16, iOS17, iOS18, ..."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = resolve_target(self.target)
        weights = weights_of(ctx)

        def as_convolution(old: tcp.ConvTransposeOp) -> SSAValue | None:
            return None if takes_kernel(old, target) else zero_insert(old, weights)

        lower_all(op, tcp.ConvTransposeOp, as_convolution)
        for old in op.walk():
            if isinstance(old, tcp.ConvolutionOp) and not mil.is_constant(old.kernel):
                dilate_kernel(old)


def dilate_kernel(op: tcp.ConvolutionOp) -> None:
    """Replace the op's dilation by zeros between the elements of its kernel."""
    dims = ConvDimsAttr.spatial(op.dims.kernel)
    between = [Amounts(0, 0, dilation - 1) for dilation in op.dilations.get_values()]
    kernel = pad(AtenBuilder(op), op.kernel, dims, between)
    dilations = DenseArrayBase.from_list(i64, [1] * len(dims))
    op.operands[1] = kernel
    op.dilations = dilations
