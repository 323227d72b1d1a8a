"""Which linalg ops are elementwise."""

from __future__ import annotations

from xdsl.dialects.linalg import ops as linalg
from xdsl.dialects.linalg.attrs import IteratorType
from xdsl.ir.affine import AffineMap


def is_elementwise(op: linalg.GenericOp) -> bool:
    """Whether `op` computes each element of one tensor, all loops in order."""
    kinds = op.get_iterator_types()
    return (
        len(op.results) == 1
        and all(kind.data is IteratorType.PARALLEL for kind in kinds)
        and is_identity(op, len(op.inputs))
        and op.body.block.args[-1].first_use is None
    )


def is_identity(op: linalg.GenericOp, operand: int) -> bool:
    """Whether the loops of `op` index an operand in their order."""
    maps, rank = op.get_indexing_maps().data, len(op.get_iterator_types())
    return maps[operand].data == AffineMap.identity(rank)
