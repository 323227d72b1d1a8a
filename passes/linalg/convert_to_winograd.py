"""
Compute convolutions of packed tensors by Winograd's algorithm, where that is faster.

    %y = linalg.generic (3x3 convolution, stride 1) ins(%x, %kernel) outs(%init)

becomes

    %y = tcp.winograd_conv %x, %filters outs %init tile 4 block 14

where `%filters` is the kernel's filter transform, which is computed once, when the
weight is bound. The kernel must be a weight, all sizes static, and the type float32. A
cost model of the shapes chooses between tiles of 2 and of 4 results, and the direct
convolution.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter
from xdsl.utils.hints import isa

from padc.ir import tcp
from padc.ir.main_function import body_of, functions_of
from padc.ir.tcp import AnyTensor
from padc.ir.winograd import POINTS, TAPS
from padc.passes.common.options import check_option
from padc.passes.linalg.convolutions import multiplies_and_adds
from padc.passes.linalg.weights import WinogradFilters
from padc.passes.linalg.winograd_cost import Shape


def maps() -> Sequence[AffineMap]:
    """The indexing maps of the input, kernel and result of a packed 3x3 convolution."""
    n, k, y, x, c, i, j, lane, out = map(AffineDimExpr, range(9))
    operands = (n, c, y + i, x + j, lane), (k, c, i, j, lane, out), (n, k, y, x, out)
    return [AffineMap(9, 0, exprs) for exprs in operands]


def shape_of(op: linalg.GenericOp) -> Shape | None:
    """The sizes of `op` if it is a convolution that tiles can compute; else None."""
    if [map.data for map in op.get_indexing_maps()] != maps():
        return None
    if not multiplies_and_adds(op):
        return None
    types = [x.type for x in (*op.inputs, *op.outputs)]
    if not isa(types, list[AnyTensor]):
        return None  # buffers
    x, kernel, y = (type.get_shape() for type in types)
    if any(type.element_type != f32 for type in types) or min(*x, *kernel, *y) < 1:
        return None
    if kernel[2:4] != (TAPS, TAPS):
        return None
    return Shape(y[0], y[2], y[3], x[1] * x[4], y[1] * y[4], y[4])


@dataclass(frozen=True)
class ConvertToWinogradPass(ModulePass):
    """Compute packed 3x3 convolutions by Winograd's algorithm where that is faster."""

    name = "convert-to-winograd"

    tile: int | None = None
    """
    The size of all tiles: 2 or 4. (default: a cost model chooses for each convolution)
    """

    def __post_init__(self) -> None:
        check_option(self, "tile", (None, *POINTS), "2 or 4")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions_of(op):
            self.rewrite(function)

    def rewrite(self, function: func.FuncOp) -> None:
        filters = WinogradFilters(function)
        for op in list(body_of(function).ops):
            if isinstance(op, linalg.GenericOp) and op.inputs[1:]:
                kernel = op.inputs[1]
                if kernel in filters and (shape := shape_of(op)) is not None:
                    tile = self.tile or shape.best_tile()
                    if tile is not None:
                        rewrite(op, shape, tile, filters.transformed(kernel, tile))
        filters.declare()


def rewrite(op: linalg.GenericOp, shape: Shape, tile: int, filters: SSAValue) -> None:
    """Replace a convolution by that of tiles."""
    x, init = op.inputs[0], op.outputs[0]
    new = tcp.WinogradConvOp(x, filters, init, tile, shape.block(tile))
    assert new.result is not None
    new.location = op.location
    new.result.name_hint = op.results[0].name_hint
    Rewriter.replace_op(op, new)
