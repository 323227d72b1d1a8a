"""
The `tcp` dialect: explicit pads, and ops without padding.

A pad op gives, for each dimension, how far the tensor expands below and above, and
where the new elements come from: a fill, or the tensor itself through an index map
(clamp, mirror, wrap). Convolutions and pools are VALID: no window leaves the input.
Every op takes any rank; attributes give the roles of dimensions, so no op assumes
NCHW. `tensors` has what all ops share, `pad_patterns` and `pool_patterns` have
canonicalizations; every other file holds a family of ops. The reference semantics of
each op is its implementation in `padc.backends.reference`.
"""

from xdsl.ir import Dialect

from padc.ir.tcp.convolutions import *
from padc.ir.tcp.grid_sample import *
from padc.ir.tcp.interleave import *
from padc.ir.tcp.pads import *
from padc.ir.tcp.pools import *
from padc.ir.tcp.resample import *
from padc.ir.tcp.tensors import *
from padc.ir.tcp.winograd import *

Tcp = Dialect(
    "tcp",
    [
        ArgMaxPoolOp,
        AvgPoolOp,
        ConvOp,
        ConvTransposeOp,
        GridSampleOp,
        InterleaveOp,
        MaxPoolOp,
        PadOp,
        ResampleOp,
        WinogradConvOp,
        *BORDER_PADS,
    ],
    [ConvDimsAttr, CoordinatesAttr, GridPaddingAttr, ResampleModeAttr],
)
