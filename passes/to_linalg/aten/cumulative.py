"""Cumulative sums and products: one loop along the dimension, in order."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import f32, f64
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr

from padc.ir.element_types import wide
from padc.passes.common.linalg_builder import LinalgBuilder
from padc.passes.to_linalg.aten.linalg_call import LinalgCall, lowers
from padc.passes.to_linalg.aten.tensors import Operand, spread
from padc.passes.to_linalg.build.numbers import Number, constant


@lowers("aten.cumsum")
def lower_cumulative_sum(call: LinalgCall) -> SSAValue:
    return scan(call, 0, operator.add)


@lowers("aten.cumprod")
def lower_cumulative_product(call: LinalgCall) -> SSAValue:
    return scan(call, 1, operator.mul)


def scan(
    call: LinalgCall, start: float, combine: Callable[[Number, Number], Number]
) -> SSAValue:
    """
    Each element of `self`, combined with all before it.

    The op has two results: the elements, and the last one of each row, which is reduced
    in order. PyTorch accumulates float32 in float64.
    """
    build, x, type = call.build, call.operand("self"), call.result_element_type()
    sizes = build.sizes(x.tensor)
    x = Operand(spread(build, x, type, sizes), type)
    if not sizes:
        return x.tensor
    (dim,) = call.dims("dim", len(sizes))
    accumulator = f64 if type == f32 else wide(type)
    exprs = [AffineExpr.dimension(i) for i in range(len(sizes))]
    others = [i for i in range(len(sizes)) if i != dim]
    total = build.filled(
        [sizes[i] for i in others], constant(build, start, accumulator).value
    )

    def body(inner: LinalgBuilder, args: Sequence[SSAValue]) -> list[SSAValue]:
        element, _, so_far = args
        total = combine(
            Number(inner, so_far, accumulator),
            Number(inner, element, type).to(accumulator),
        )
        return [total.to(type).value, total.value]

    elements = build.empty(sizes, call.signless_result_type())
    return build.generic(
        [(x.tensor, exprs)],
        [(elements, exprs), (total, [exprs[i] for i in others])],
        [i == dim for i in range(len(sizes))],
        body,
    )[0]
