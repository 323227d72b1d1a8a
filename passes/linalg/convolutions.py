"""Which linalg ops are convolutions, and what their loops are."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.dialects.linalg.attrs import IteratorType
from xdsl.ir.affine import AffineDimExpr, AffineMap

from padc.ir.tcp import tensor_type
from padc.passes.common.sums_of_products import multiplies_and_adds


@dataclass(frozen=True)
class Channels:
    """A loop through channels; its size is negative if it is dynamic."""

    number: int
    size: int


@dataclass(frozen=True)
class Convolution:
    """The loops of a convolution through the channels of its input and output."""

    inputs: Channels
    outputs: Channels


def convolution_of(op: LinalgStructuredOperation) -> Convolution | None:
    """The loops of `op` if it is a convolution with one group, else None."""
    if len(op.inputs) != 2 or len(op.results) != 1 or not multiplies_and_adds(op):
        return None
    x, kernel, y = (map.data for map in op.get_indexing_maps())
    if len(x.results) < 3:
        return None
    reduces = [kind.data is IteratorType.REDUCTION for kind in op.get_iterator_types()]
    in_x, in_kernel, in_y = bare(x), bare(kernel), bare(y)
    inputs = [i for i in in_x if i in in_kernel and reduces[i] and i not in in_y]
    outputs = [i for i in in_kernel if i in in_y and i not in used(x)]
    if len(inputs) != 1 or len(outputs) != 1 or not moves(x):
        return None
    shape = tensor_type(op.inputs[1]).get_shape()
    return Convolution(
        Channels(inputs[0], shape[in_kernel[inputs[0]]]),
        Channels(outputs[0], shape[in_kernel[outputs[0]]]),
    )


def bare(map: AffineMap) -> dict[int, int]:
    """The dimension of an operand that each loop indexes by itself."""
    return {
        expr.position: dim
        for dim, expr in enumerate(map.results)
        if isinstance(expr, AffineDimExpr)
    }


def used(map: AffineMap) -> set[int]:
    return {loop for expr in map.results for loop in expr.used_dims()}


def moves(map: AffineMap) -> bool:
    """Whether some dimension is indexed by a window's position and tap."""
    return any(len(expr.used_dims()) == 2 for expr in map.results)


def row_stride(op: LinalgStructuredOperation) -> int:
    """The stride of a convolution along the rows of its input."""
    along = op.get_indexing_maps().data[0].data
    rank, row = along.num_dims, along.results[-1]
    kinds = [kind.data for kind in op.get_iterator_types()]
    origin = row.eval([0] * rank, [])
    steps = [
        row.eval([int(i == loop) for i in range(rank)], []) - origin
        for loop in row.used_dims()
        if kinds[loop] is IteratorType.PARALLEL
    ]
    return max(steps, default=1)
