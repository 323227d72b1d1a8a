"""Outputs that a model never fills, for which PyTorch gives arbitrary numbers."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from padc.ir.torch import AtenOp

EMPTY = frozenset(
    f"aten.{name}"
    for name in (
        *("empty.memory_format", "empty_like", "empty_permuted", "empty_strided"),
        *("new_empty", "new_empty_strided"),
    )
)
"""Ops that allocate a tensor and leave its elements arbitrary."""

MOVING = frozenset(
    f"aten.{name}"
    for name in (
        *("_reshape_alias", "_to_copy", "_unsafe_view", "alias", "clone", "contiguous"),
        *("detach", "diagonal", "expand", "expand_as", "flatten.using_ints", "flip"),
        *(
            "lift_fresh",
            "lift_fresh_copy",
            "movedim.int",
            "narrow",
            "permute",
            "repeat",
        ),
        *("reshape", "select.int", "slice.Tensor", "squeeze", "squeeze.dim"),
        *("squeeze.dims", "swapaxes", "swapdims", "t", "to.dtype", "transpose.int"),
        *("unfold", "unflatten.int", "unsqueeze", "view", "view_as"),
    )
)
"""Ops that only move elements of the first operand, or cast them."""


def unfilled(value: SSAValue) -> AtenOp | None:
    """The op that allocated a tensor, if all elements are still arbitrary."""
    owner: Operation | object = value.owner
    while isinstance(owner, AtenOp):
        if owner.schema.name in EMPTY:
            return owner
        if owner.schema.name not in MOVING:
            return None
        owner = owner.operands[0].owner
    return None
