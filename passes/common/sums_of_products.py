"""Which linalg ops are sums of products: convolutions and matrix products."""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.linalg import ops as linalg
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation


def multiplies_and_adds(op: LinalgStructuredOperation) -> bool:
    """Whether the body of `op` is `a * b + c`, of two inputs and the output."""
    block = op.body.block
    match list(block.ops):
        case [
            arith.MulfOp() as product,
            arith.AddfOp() as sum,
            linalg.YieldOp() as end,
        ]:
            return (
                {product.lhs, product.rhs} == set(block.args[:2])
                and {sum.lhs, sum.rhs} == {product.result, block.args[2]}
                and end.operands[0] is sum.result
            )
        case _:
            return False
