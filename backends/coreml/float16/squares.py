# pyright: basic, reportMissingTypeStubs=false, reportAttributeAccessIssue=false
"""
Which ops of a float16 program compute sums of squares and of other powers.

The squares of numbers above 255 are infinite in float16, while their mean may fit, and
its root is a number of the size of the operands: variances, standard deviations, and
the RMS norms of language models. PyTorch models of float16 use float32 for them, too.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

from padc.backends.coreml import quiet
from padc.backends.coreml.blocks import operations_of, origins
from padc.backends.coreml.float16.coordinates import PLACES, operands, sources

with quiet():
    from coremltools.converters.mil.mil import Program

REDUCTIONS = frozenset(["reduce_mean", "reduce_sum"])
SCALING = frozenset(["add", "maximum", "mul", "real_div"])
"""Ops that may be between a mean and its root, with a constant as other operand."""
MOVES = frozenset("expand_dims reshape squeeze transpose".split())
"""Ops that may be before a choice, too."""
DISTANCES = "cdist", "euclidean_dist"
"""Parts of the names of the ops that subtract products from sums of squares."""


def ops_on_squares(program: Program) -> set[str]:
    """The names of powers and sums of them, of their roots, and of ops between."""
    ops = [op for op in operations_of(program) if op.op_type != "const"]
    between = {op for op in ops if op.op_type in REDUCTIONS or scales(op)}
    found = {op for op in ops if is_part_of_distance(op)}
    for op in ops:
        if op.op_type == "reduce_sum_square":
            found.add(op)
        elif op.op_type in REDUCTIONS and op.x.op and is_power(op.x.op):
            found |= {op, op.x.op}
    for root in filter(is_root, ops):
        path, before = path_to(root.x, between)
        if powers := set(filter(is_power, before)):
            found |= {root} | path | powers
    return {op.name for op in found | choices(ops, found, between)}


def choices(ops: Sequence[Any], among: Set[Any], between: Set[Any]) -> set[Any]:
    """
    The ops that choose among results of `among`, and the ops between.

    Distances that differ in float32 may be equal in float16.
    """
    between = between | {op for op in ops if op.op_type in MOVES}
    found: set[Any] = set()
    for choice in ops:
        if choice.op_type in PLACES:
            path, before = path_to(choice.x, between)
            if before & among:
                found |= {choice} | path
    return found


def path_to(var: Any, between: Set[Any]) -> tuple[set[Any], set[Any]]:
    """The ops of `between` that lead to `var`, and all ops whose results these read."""
    path = sources([var], between)
    read = [var, *(each for op in path for each in operands(op))]
    return path, {each.op for each in read if each.op is not None}


def is_part_of_distance(op: Any) -> bool:
    return any(part in name for name in origins(op) for part in DISTANCES)


def scales(op: Any) -> bool:
    if op.op_type not in SCALING:
        return False
    return op.x.val is not None or op.y.val is not None


def is_root(op: Any) -> bool:
    return has_known_exponent(op) or op.op_type in ("rsqrt", "sqrt")


def is_power(op: Any) -> bool:
    """Whether an op takes a power of its operand, alone or in a sum."""
    if op.op_type == "mul":
        return op.x is op.y
    return has_known_exponent(op) or op.op_type in ("reduce_sum_square", "square")


def has_known_exponent(op: Any) -> bool:
    return op.op_type == "pow" and op.y.val is not None and op.y.val.shape == ()
