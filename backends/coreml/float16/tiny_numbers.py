# pyright: basic, reportMissingTypeStubs=false, reportAttributeAccessIssue=false
"""
Which ops of a float16 program compute with numbers that are too small for float16.

Constants tell: x + 1e-8 is about an x that can be as small, so the ops that compute it,
and those that read the sum, are in float32.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from padc.backends.coreml import quiet
from padc.backends.coreml.float16.coordinates import sources
from padc.backends.coreml.float16.ranges import KEEPING, floats

with quiet():
    from coremltools.converters.mil.mil import Program

LEAST_FLOAT16 = 2.0**-24
"""The smallest positive float16."""

LEAST_FACTOR = 2.0**-14
"""The smallest positive float16 that has 11 bits."""

LEAST_TERM = 2.0**-20
"""The smallest number that float16 has within 3 %, as it has the usual 1e-6."""

FACTORS = frozenset(["mul", "real_div"])
"""Ops for which a constant is a factor."""

TERMS = frozenset(["add", "clip", "maximum", "minimum", "select", "sub"])
"""Ops for which a constant is a term, or a bound."""

CARRYING = KEEPING | frozenset(
    "abs cast clip maximum minimum mul reduce_sum reduce_sum_square relu select "
    "square".split()
)
"""Ops whose results are tiny if an operand is."""

BEFORE = frozenset(
    "abs mul pow reduce_l2_norm reduce_max reduce_mean reduce_sum reduce_sum_square "
    "sqrt square sub".split()
)
"""Ops that compute a value to which a tiny one is added."""


@dataclass
class TinyNumbers:
    """The float32 tensors of a program that may hold numbers too small for float16."""

    values: set[Any] = field(default_factory=set)
    ops: set[str] = field(default_factory=set)
    """The names of the ops that read or make them."""

    @classmethod
    def of(cls, program: Program) -> TinyNumbers:
        numbers = cls()
        numbers.visit(program.functions["main"])
        return numbers

    def visit(self, block: Any) -> None:
        before = {op for op in block.operations if op.op_type in BEFORE}
        for op in block.operations:
            for inner in op.blocks:
                self.visit(inner)
            if op.op_type != "const":
                self.visit_op(op, before)

    def visit_op(self, op: Any, before: set[Any]) -> None:
        operands = dict(floats(op))
        constants = {name for name, var in operands.items() if is_tiny(var, op)}
        tiny = constants | {n for n, var in operands.items() if var in self.values}
        if not tiny:
            return
        self.ops.add(op.name)
        if constants and op.op_type in TERMS:
            found = sources([*operands.values()], before)
            self.ops.update(each.name for each in found)
        if makes_tiny(op, tiny, constants, set(operands)):
            self.values.update(op.outputs)


def makes_tiny(
    op: Any, tiny: set[str], constants: set[str], operands: set[str]
) -> bool:
    """Whether the results of an op that has tiny operands are tiny, too."""
    if op.op_type in ("add", "sub"):
        return bool(constants) or tiny == operands
    if op.op_type == "real_div":
        return "x" in tiny
    return op.op_type in CARRYING


def is_tiny(var: Any, op: Any) -> bool:
    """Whether an operand is a constant whose numbers are all too small."""
    if var.val is None or op.op_type not in FACTORS | TERMS:
        return False
    least = LEAST_FACTOR if op.op_type in FACTORS else LEAST_TERM
    largest = np.max(np.abs(var.val), initial=0)
    return bool(0 < largest < least)
