"""Grid sampling and affine grids."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import DYNAMIC_INDEX, f32, f64
from xdsl.ir import SSAValue

from padc.errors import Obstacle
from padc.ir import tcp
from padc.ir.tcp import GridPadding, ResampleMode
from padc.passes.aten.builder import AtenBuilder
from padc.passes.aten.symbolic_tensor import SymbolicTensor, constant
from padc.passes.torch_to_tcp.aten.tcp_call import TcpCall, lowers

MODES = (ResampleMode.LINEAR, ResampleMode.NEAREST, ResampleMode.CUBIC)
PADDINGS = (GridPadding.ZEROS, GridPadding.BORDER, GridPadding.REFLECTION)


@lowers("aten.grid_sampler", "aten.grid_sampler_2d", "aten.grid_sampler_3d")
def lower_grid_sampler(call: TcpCall) -> SSAValue:
    """`grid_sampler(x, grid, mode, padding, align_corners) -> tcp.grid_sample`."""
    mode = call.constant("interpolation_mode")
    padding = call.constant("padding_mode")
    assert isinstance(mode, int) and isinstance(padding, int)
    if mode not in range(len(MODES)) or padding not in range(len(PADDINGS)):
        raise Obstacle(
            f"PyTorch has no interpolation_mode {mode} with padding_mode {padding}",
            "both are 0, 1 or 2",
        )
    return call.insert(
        tcp.GridSampleOp(
            call.tensor("input"),
            call.tensor("grid"),
            MODES[mode],
            PADDINGS[padding],
            call.boolean("align_corners"),
            call.result_type(),
        )
    )


@lowers("aten.affine_grid_generator")
def lower_affine_grid(call: TcpCall) -> SSAValue | None:
    """
    `theta` [N, D, D + 1] times the points (.., y, x, 1) of an image, from -1 to 1.

    The summand of each dimension is computed separately, and broadcast. Along S
    elements the points are `linspace(-1, 1, S)`, or 0 if S is 1, times (S - 1) / S
    without `align_corners`: `linspace_from_neg_one` of PyTorch's
    AffineGridGenerator.cpp. They have the result's type; sums are at least float32.
    """
    theta, type = call.tensor("theta"), call.result_type()
    batch, *sizes, rank = type.get_shape()
    if DYNAMIC_INDEX in sizes:
        return None
    build = AtenBuilder(call.op)
    real = f64 if type.element_type == f64 else f32
    theta = build.cast(theta, real)

    def column(number: int) -> SymbolicTensor:
        part = build.slice(theta, 2, number, number + 1)
        return SymbolicTensor(build.reshape(part, [batch, *[1] * rank, rank]), build)

    grid = column(rank)
    for number in range(rank):
        dim = rank - 1 - number
        along = linspace(sizes[dim], call.boolean("align_corners"))
        along = along.reshape([-1 if d == dim else 1 for d in range(rank)] + [1])
        points = SymbolicTensor(constant(build, along, type.element_type), build)
        grid = column(number) * points.cast(real) + grid
    return build.refined(grid.cast(type.element_type).value, type)


def linspace(size: int, align_corners: bool) -> npt.NDArray[np.float64]:
    if size == 1:
        return np.zeros(1)
    return np.linspace(-1, 1, size) * (1 if align_corners else (size - 1) / size)
