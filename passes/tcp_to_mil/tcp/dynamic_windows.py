"""
Averages over windows whose length is known only at run time.

Area resampling and antialiasing, in ATen's ops, by the formulas of
`padc.ir.resampling`.
"""

from __future__ import annotations

from xdsl.dialects.builtin import TensorType, f32
from xdsl.ir import Operation, SSAValue

from padc.ir import resampling
from padc.ir.tcp import Sampling
from padc.passes.aten.builder import AtenBuilder, Integer
from padc.passes.aten.symbolic_tensor import SymbolicTensor, make_real
from padc.passes.aten.windows import Windows, adaptive_windows
from padc.passes.tcp_to_mil.tcp.dynamic_resample import grid_of


def resample_windows(
    op: Operation, x: SSAValue, dim: int, new_size: Integer, sampling: Sampling
) -> SSAValue:
    """Resample one dimension of `x`, of float32."""
    build, grid = AtenBuilder(op), grid_of(op)
    size = build.size(x, dim)
    if sampling.antialias:
        windows, weights = antialiased(grid, size, new_size, sampling)
    else:
        windows = adaptive_windows(grid, size, new_size)
        weights = (1 / windows.lengths.cast(f32)).unsqueeze(1)
    counts, weights = is_counted(windows).unsqueeze(2), weights.unsqueeze(2)
    elements = SymbolicTensor(windows.gather(build, x, dim), build)
    before, count, _, after = elements.type.get_shape()
    # An infinite element times a weight of 0 would be NaN.
    terms = counts.select(elements, 0.0) * weights
    result = TensorType(f32, [before, count, after])
    total = build.call("sum.dim_IntList", result, self=terms.value, dim=[2])
    return windows.restore(build, total, x, dim)


def is_counted(windows: Windows) -> SymbolicTensor:
    """The elements that each window has, `[windows, elements]`."""
    return windows.lengths.unsqueeze(1) > windows.elements()


def antialiased(
    build: AtenBuilder, size: Integer, new_size: Integer, sampling: Sampling
) -> tuple[Windows, SymbolicTensor]:
    """The windows of a filter as wide as the step, and their elements' weights."""
    sizes, real = (build.wrap(size), build.wrap(new_size)), make_real(build, f32)
    j = SymbolicTensor(build.arange(0, new_size), build)
    starts, ends, centers = resampling.antialiased_window(j, *sizes, sampling, real)
    longest = build.wrap(0) + resampling.longest_antialiased(*sizes, sampling)
    windows = Windows(starts, ends - starts, longest.value)
    places = (starts.unsqueeze(1) + windows.elements()).cast(f32)
    stretch = resampling.stretch(resampling.step(*sizes, sampling, real))
    weights = resampling.antialiased_weight(
        sampling.mode, places, centers.unsqueeze(1), stretch
    )
    weights = is_counted(windows).select(weights, 0.0)
    return windows, weights / weights.reduced("sum").unsqueeze(1)
