"""
Pack the weights of linear layers into panels of columns, once, when they are bound.

    linalg.generic (m, n, k): y[m, n] += x[m, k] * w[n, k]

becomes, with N columns in panels of P,

    linalg.generic (m, p, c, k): y[m, p * P + c] += x[m, k] * packed[p, k, c]

The kernel of matrix products then loads contiguous vectors, and packs nothing itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import (
    AffineMapAttr,
    ModuleOp,
)
from xdsl.dialects.linalg import ops as linalg
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.dialects.linalg.attrs import IteratorType, IteratorTypeAttr
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from padc.ir.main_function import body_of, functions_of
from padc.passes.common.kernel_tiles import FEW_ROWS
from padc.passes.common.options import check_vector_bytes
from padc.passes.linalg.convolutions import multiplies_and_adds
from padc.passes.linalg.packing import Tile
from padc.passes.linalg.panels import column_of, panel_of, rows
from padc.passes.linalg.weights import PackedWeights


@dataclass(frozen=True)
class Linear:
    """A linear layer: a product with a weight, of rows of the other input."""

    weight: int
    """The number of the input that is the weight."""
    columns: int
    """The loop through the columns of the result."""
    panel: int
    """The number of columns in a panel."""


def linear_of(
    op: LinalgStructuredOperation, weights: PackedWeights, vector_bytes: int
) -> Linear | None:
    """`op` as a linear layer whose weight is worth packing; None if it is not."""
    if len(op.inputs) != 2 or len(op.results) != 1 or not multiplies_and_adds(op):
        return None
    maps = [map.data for map in op.get_indexing_maps()]
    rank, result = maps[2].num_dims, maps[2].results
    kinds = [kind.data for kind in op.get_iterator_types()]
    if kinds.count(IteratorType.REDUCTION) != 1 or not 0 < len(result) == rank - 1:
        return None
    products = AffineDimExpr(kinds.index(IteratorType.REDUCTION))
    columns = result[-1]
    if not isinstance(columns, AffineDimExpr):
        return None
    for number, x in enumerate(op.inputs):
        others = maps[1 - number].results
        if (
            x in weights
            and maps[number].results == (columns, products)
            and others == (*result[:-1], products)
            and (panel := panel_of(x, vector_bytes)) is not None
            and rows(op.inputs[1 - number]) >= FEW_ROWS
        ):
            return Linear(number, columns.position, panel)
    return None


def packed(
    op: LinalgStructuredOperation, linear: Linear, weights: PackedWeights
) -> linalg.GenericOp:
    """`op` with a packed weight, and a loop through panels around that of columns."""
    maps = [map.data for map in op.get_indexing_maps()]
    rank, split = maps[2].num_dims, linear.columns
    dims = [AffineDimExpr(i + (i > split)) for i in range(rank)]
    panel, column = AffineDimExpr(split), AffineDimExpr(split + 1)
    whole: list[AffineExpr] = [*dims]
    whole[split] = column_of(panel, column, linear.panel)
    new = [map.replace_dims_and_symbols(whole, [], rank + 1, 0) for map in maps]
    (_, products) = maps[linear.weight].results
    assert isinstance(products, AffineDimExpr)
    of_weight = [panel, dims[products.position], column]
    new[linear.weight] = AffineMap(rank + 1, 0, tuple(of_weight))
    inputs = list(op.inputs)
    tiles = (Tile(0, linear.panel),)
    inputs[linear.weight] = weights.packed(inputs[linear.weight], tiles)
    kinds = list(op.get_iterator_types())
    kinds.insert(split, IteratorTypeAttr(IteratorType.PARALLEL))
    return linalg.GenericOp(
        inputs,
        list(op.outputs),
        op.body.clone(),
        [AffineMapAttr(map) for map in new],
        kinds,
        list(op.result_types),
    )


@dataclass(frozen=True)
class PackWeightsPass(ModulePass):
    """Pack the weights of linear layers into panels, once, when they are bound."""

    name = "pack-weights"

    vector_bytes: int = 32
    """The bytes of a vector of this CPU: 16, 32 or 64."""

    def __post_init__(self) -> None:
        check_vector_bytes(self)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions_of(op):
            weights = PackedWeights(function)
            for inner in list(body_of(function).ops):
                if not isinstance(inner, LinalgStructuredOperation):
                    continue
                linear = linear_of(inner, weights, self.vector_bytes)
                if linear is not None:
                    new = packed(inner, linear, weights)
                    new.location = inner.location
                    new.results[0].name_hint = inner.results[0].name_hint
                    Rewriter.replace_op(inner, new)
            weights.declare()
