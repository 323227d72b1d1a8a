"""
Resampling from and to dynamic sizes, in ATen's ops.

One dimension at a time: positions and weights by the formulas of
`padc.ir.resampling`, then a gather and a product for each tap.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any, TypeAlias

import numpy.typing as npt
from xdsl.dialects.builtin import f32
from xdsl.ir import Operation, SSAValue

from padc.errors import origin
from padc.ir import resampling
from padc.ir.tcp import Sampling, tensor_type
from padc.passes.aten.builder import AtenBuilder, Integer
from padc.passes.aten.symbolic_tensor import SymbolicTensor, constant, make_real

Taps: TypeAlias = Sequence[tuple[SymbolicTensor, SymbolicTensor | None]]


def resample_dynamic(
    op: Operation, x: SSAValue, dim: int, new_size: Integer, sampling: Sampling
) -> SSAValue:
    """Resample one dimension of `x`, of float32 unless the mode is nearest."""
    build = AtenBuilder(op)
    size = build.size(x, dim)
    grid = grid_of(op)
    if isinstance(size, int) and isinstance(new_size, int):
        taps = static_taps(grid, size, new_size, sampling)
    else:
        sizes = grid.wrap(size), grid.wrap(new_size)
        j = SymbolicTensor(grid.arange(0, new_size), grid)
        taps = resampling.interpolation(j, *sizes, sampling, make_real(grid, f32))
    trailing = [1] * (tensor_type(x).get_num_dims() - dim - 1)
    terms: list[SymbolicTensor] = []
    for places, weights in taps:
        terms.append(SymbolicTensor(build.index_select(x, dim, places.value), build))
        if weights is not None:
            shape = [*weights.type.get_shape(), *trailing]
            column = build.reshape(weights.value, shape)
            terms[-1] *= SymbolicTensor(column, build)
    return reduce(lambda a, b: a + b, terms).value


def grid_of(op: Operation) -> AtenBuilder:
    """
    A builder of ops on the coordinates that `op` samples.

    They need float32, as those of a grid do: ops with this name are not converted to
    float16.
    """
    return AtenBuilder(op, f"the grid of {origin(op)}")


def static_taps(
    build: AtenBuilder, size: int, new_size: int, sampling: Sampling
) -> Taps:
    """`resampling.taps` as constants."""

    def tensor(values: npt.NDArray[Any]) -> SymbolicTensor:
        return SymbolicTensor(constant(build, values, f32), build)

    return [
        (tensor(places), None if weights is None else tensor(weights))
        for places, weights in resampling.taps(size, new_size, sampling)
    ]
