"""Grid sampling by Core ML's `resample`."""

from __future__ import annotations

from xdsl.dialects.builtin import TensorType, f32
from xdsl.ir import SSAValue

from padc.errors import Obstacle
from padc.ir.tcp import GridPadding, GridSampleOp, tensor_type
from padc.passes.common.mil_builder import MilBuilder
from padc.passes.tcp_to_mil.legality import GRID_SAMPLING_MODES, can_resample
from padc.passes.tcp_to_mil.tcp.mil_lowering import lowers


@lowers(GridSampleOp)
def lower_grid_sample(build: MilBuilder, op: GridSampleOp) -> SSAValue:
    """
    `grid_sample(x, grid) -> resample(x, coordinates=grid)`.

    A reflection at the outer edges of the outermost pixels repeats them: "symmetric".
    With a border, coordinates are clipped to -1 and 1, outside of which all samples are
    equal: it is not documented how far out `resample` can compute.
    """
    if not can_resample(op):
        raise Obstacle(
            "Core ML resamples images only, bilinearly or to the nearest pixel",
            "lower it before: -p decompose-grid-sample",
        )
    align_corners = op.align_corners is not None
    padding_modes = {
        GridPadding.ZEROS: "constant",
        GridPadding.BORDER: "border",
        GridPadding.REFLECTION: "reflection" if align_corners else "symmetric",
    }
    grid = op.grid
    if op.grid_type.element_type != f32:
        shape = op.grid_type.get_shape()
        grid = build.emit("cast", TensorType(f32, shape), shape, x=grid, dtype="fp32")
    if op.padding.data is GridPadding.BORDER:
        type = tensor_type(grid)
        grid = build.emit("clip", type, type.get_shape(), x=grid, alpha=-1.0, beta=1.0)
    return build.emit(
        "resample",
        op.input_type,
        op.result.type.get_shape(),
        x=op.input,
        coordinates=grid,
        sampling_mode=GRID_SAMPLING_MODES[op.mode.data],
        padding_mode=padding_modes[op.padding.data],
        padding_value=0.0,
        coordinates_mode="normalized_minus_one_to_one",
        align_corners=align_corners,
    )
