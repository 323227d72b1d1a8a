"""
The `tcp` dialect: explicit pads, and ops without padding.

A pad op gives, for each dimension, how far the tensor expands below and above, and
where the new elements come from: a fill, or the tensor itself through an index map
(clamp, mirror, wrap). Convolutions and pools are VALID: no window leaves the input.
Every op takes any rank; attributes give the roles of dimensions, so no op assumes
NCHW. The reference semantics of each op is its implementation in
`padc.backends.reference`.
"""

from xdsl.ir import Dialect

from padc.ir.tcp.convolutions import (
    ConvDimsAttr,
    ConvolutionOp,
    ConvOp,
    ConvTransposeOp,
)
from padc.ir.tcp.grid_sample import GridPadding, GridPaddingAttr, GridSampleOp
from padc.ir.tcp.pads import (
    BORDER_PADS,
    Border,
    BorderPadOp,
    CircularPadOp,
    ExpandOp,
    PadOp,
    ReflectionPadOp,
    ReplicationPadOp,
    padded_type,
)
from padc.ir.tcp.pools import ArgMaxPoolOp, AvgPoolOp, MaxPoolOp, PoolOp
from padc.ir.tcp.resample import (
    Coordinates,
    CoordinatesAttr,
    ResampleMode,
    ResampleModeAttr,
    ResampleOp,
    Sampling,
)
from padc.ir.tcp.tensors import (
    Amount,
    AnyTensor,
    Check,
    fill_constant,
    fill_type,
    tensor_type,
)

Tcp = Dialect(
    "tcp",
    [
        ArgMaxPoolOp,
        AvgPoolOp,
        ConvOp,
        ConvTransposeOp,
        GridSampleOp,
        MaxPoolOp,
        PadOp,
        ResampleOp,
        *BORDER_PADS,
    ],
    [ConvDimsAttr, CoordinatesAttr, GridPaddingAttr, ResampleModeAttr],
)

__all__ = [
    "BORDER_PADS",
    "Amount",
    "AnyTensor",
    "ArgMaxPoolOp",
    "AvgPoolOp",
    "Border",
    "BorderPadOp",
    "Check",
    "CircularPadOp",
    "ConvDimsAttr",
    "ConvOp",
    "ConvTransposeOp",
    "ConvolutionOp",
    "Coordinates",
    "CoordinatesAttr",
    "ExpandOp",
    "GridPadding",
    "GridPaddingAttr",
    "GridSampleOp",
    "MaxPoolOp",
    "PadOp",
    "PoolOp",
    "ReflectionPadOp",
    "ReplicationPadOp",
    "ResampleMode",
    "ResampleModeAttr",
    "ResampleOp",
    "Sampling",
    "Tcp",
    "fill_constant",
    "fill_type",
    "padded_type",
    "tensor_type",
]
