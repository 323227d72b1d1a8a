# pyright: basic, reportMissingTypeStubs=false
"""The ops of a program that compute coordinates of grids, indices and decisions."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

from padc.backends.coreml import quiet
from padc.backends.coreml.blocks import operations_of, origins

with quiet():
    from coremltools.converters.mil.mil import Program, types

WEIGHTED = frozenset(
    "conv conv_transpose einsum gru linear lstm matmul rnn "
    "scaled_dot_product_attention".split()
)
"""The ops where the search for coordinates ends: a network is before them."""

PLACES = frozenset(["argsort", "reduce_argmax", "reduce_argmin", "topk"])
"""Ops whose integers are places along a dimension of `x`."""

HOMOGENEOUS = 4
"""The most coordinates that a point has: three, and 1."""


def coordinates(program: Program) -> set[str]:
    """
    The names of the ops that sample grids, and of those that compute the coordinates.

    From 256 on, float16 is as coarse as 1/4 of a pixel.
    """
    samplers = {op for op in operations_of(program) if samples_grid(op)}
    images = sources([var for op in samplers for var in image_of(op)], samplers)
    positions = [
        var
        for op in samplers - images
        for var in operands(op)
        if var not in image_of(op)
    ]
    others = unweighted(program) - images
    return {op.name for op in samplers | sources(positions, others)}


def decisions(program: Program) -> set[str]:
    """
    The names of the ops that compute which branch is taken, or whether a loop goes on.

    A number that float16 rounds to 0 would change all that follows.
    """
    conditions = [op.pred for op in operations_of(program) if op.op_type == "cond"]
    for op in operations_of(program):
        if op.op_type == "while_loop":
            condition, body = op.blocks
            conditions += condition.outputs
            carried = (*op.loop_vars, *body.outputs)
            conditions += [var for var in carried if var.dtype == types.bool]
    return {op.name for op in sources(conditions, unweighted(program))}


def roundings(program: Program) -> set[str]:
    """
    The names of the ops that take floats apart into integers and the rest.

    So are those that compute these floats: a number next to an integer would be rounded
    to it, to another index, or to one too large.
    """
    rounding = {
        op
        for op in operations_of(program)
        if makes_integers(op) or (op.op_type == "mod" and types.is_float(op.x.dtype))
    }
    floats = [op.x for op in rounding]
    return {op.name for op in rounding | sources(floats, unweighted(program))}


def makes_integers(op: Any) -> bool:
    """Whether an op rounds floats to integers, of either type."""
    if op.op_type == "cast":
        return types.is_float(op.x.dtype) and types.is_int(op.outputs[0].dtype)
    return op.op_type in ("ceil", "floor", "round")


def unweighted(program: Program) -> set[Any]:
    return {
        op
        for op in operations_of(program)
        if op.op_type not in WEIGHTED or transforms_points(op)
    }


def transforms_points(op: Any) -> bool:
    """Whether an op multiplies points, of few coordinates, by a matrix."""
    if op.op_type not in ("linear", "matmul"):
        return False
    is_transposed = op.op_type == "matmul" and op.transpose_x.val
    size = op.x.shape[-2 if is_transposed and op.x.rank > 1 else -1]
    return isinstance(size, int) and size <= HOMOGENEOUS


def image_of(op: Any) -> list[Any]:
    """The operand that a gather or a resampling reads; none for other ops."""
    return [op.x] if op.op_type.startswith(("gather", "resample")) else []


def operands(op: Any) -> list[Any]:
    given = op.inputs.values()
    lists = [each if isinstance(each, list | tuple) else [each] for each in given]
    return [var for each in lists for var in each]


def sources(variables: Sequence[Any], among: Set[Any]) -> set[Any]:
    """The ops of `among` that variables depend on, by way of ops of `among` only."""
    found: set[Any] = set()
    waiting = list(variables)
    while waiting:
        op = waiting.pop().op
        if op in among and op not in found:
            found.add(op)
            waiting += operands(op)
    return found


def samples_grid(op: Any) -> bool:
    """Whether an op is part of the sampling or the making of a grid."""
    return any("grid" in name for name in origins(op))
