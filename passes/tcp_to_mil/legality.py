"""
Which `tcp` ops Core ML has as they are.

The passes that decompose ops keep these, and `convert-tcp-to-mil` takes them. The rules
come from coremltools' documentation of each op, and from refusals of Core ML's runtime.
"""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    f16,
    f32,
)

from padc.errors import Obstacle
from padc.ir import mil, tcp
from padc.ir.padding import Amounts
from padc.ir.tcp import (
    ConvDimsAttr,
    GridPadding,
    GridSampleOp,
    ResampleMode,
    tensor_type,
)

# Pads.


def fill_of(op: tcp.PadOp) -> float | int:
    """The constant that a pad fills with; Obstacle if it is computed."""
    owner = op.fill.owner
    if not isinstance(owner, ConstantOp):
        raise Obstacle(
            "the fill is computed; Core ML fills with constants only",
            "make it a number",
        )
    assert isinstance(owner.value, FloatAttr | IntegerAttr)
    fill = owner.value.value.data
    pools = (tcp.MaxPoolOp, tcp.ArgMaxPoolOp)
    if fill == -(2**63) and all(isinstance(u.operation, pools) for u in op.result.uses):
        # The least int64 pads maxima; in Core ML these are of int32.
        return -(2**31)
    return fill


def can_pad_natively(op: tcp.BorderPadOp, dim: int, amount: Amounts) -> bool:
    """
    Whether Core ML's `pad`, or a slice, does what the op does to this dimension.

    The runtime refuses modes other than constant off the last two dimensions
    (https://github.com/apple/coremltools/issues/2701); `pad` takes floats.
    """
    if op.MIL_MODE is None:
        return False
    if amount.added == Amounts(0, 0):
        return True
    is_last = dim >= op.input_type.get_num_dims() - 2
    is_float = isinstance(op.input_type.element_type, AnyFloat)
    return is_last and is_float and is_within(op, dim, amount)


def is_within(op: tcp.BorderPadOp, dim: int, amount: Amounts) -> bool:
    """
    Whether an amount is not too large for Core ML's `pad`, in the mode of the op.

    It is at most the size (the documentation of `pad` in coremltools).
    """
    size = op.input_type.get_shape()[dim]
    most = max(amount.lower, amount.upper, 0)
    # A border that shows an element only once is never larger than the input.
    # DYNAMIC_INDEX is less than any amount.
    return op.BORDER.step == 1 or most == 0 or most <= size


# Convolutions.


def is_integer(op: tcp.ConvolutionOp) -> bool:
    return isinstance(tensor_type(op.input).element_type, IntegerType)


def is_dilated(op: tcp.ConvolutionOp) -> bool:
    return any(dilation != 1 for dilation in op.dilations.get_values())


def takes_kernel(op: tcp.ConvTransposeOp, target: str) -> bool:
    """
    Whether the `conv_transpose` of `target` takes this kernel. It takes no integers.

    From iOS17 on the kernel may be computed, with a constant bias: coremltools 9.0
    needs the bias's value, and a bias that is added afterwards is rounded twice.
    """
    if is_integer(op):
        return False
    order = ConvDimsAttr.transposed(op.dims.spatial_rank).kernel
    if mil.is_constant(op.kernel) and op.dims.kernel == order:
        return True
    has_constant_bias = op.bias is None or mil.is_constant(op.bias)
    return has_constant_bias and may_be_computed("conv_transpose", "weight", target)


def may_be_computed(name: str, input: str, target: str) -> bool:
    """Whether an input of Core ML's op `name` need not be a constant."""
    form = mil.OPS[name].form(target)
    return form is not None and not form.inputs[input].constant


# Grid sampling.

GRID_SAMPLING_MODES: Mapping[ResampleMode, str] = {
    ResampleMode.LINEAR: "bilinear",
    ResampleMode.NEAREST: "nearest",
}


def can_resample(op: GridSampleOp) -> bool:
    """Whether Core ML's `resample` has the op: images of floats, not cubic."""
    return (
        op.spatial_rank == 2
        and op.mode.data in GRID_SAMPLING_MODES
        and op.input_type.element_type in (f16, f32)
    )


def is_exact(op: GridSampleOp) -> bool:
    """
    Whether Core ML's `resample` computes exactly what PyTorch does.

    Of two equally near pixels it takes the later one, PyTorch the even one. Reflection
    of a single pixel is not documented.
    """
    sizes = op.input_type.get_shape()[2:]
    mirrors = op.padding.data is GridPadding.REFLECTION and op.align_corners is not None
    return op.mode.data is ResampleMode.LINEAR and not (
        mirrors and any(size in (1, DYNAMIC_INDEX) for size in sizes)
    )
