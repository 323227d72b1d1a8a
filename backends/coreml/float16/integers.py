# pyright: basic, reportMissingTypeStubs=false, reportAttributeAccessIssue=false
"""
Which ops of a float16 program compute on integers that were cast to floats, or that
floats were rounded to.

Float16 has all integers up to 2048 only, and products have its 11 bits: positions, time
steps and their products with frequencies stay in float32 until they meet a network's
activations. So they do in a PyTorch model of float16, where `positions.float()` is
float32. Integers of 8 bits are pixels, not positions.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from padc.backends.coreml import quiet
from padc.backends.coreml.float16.coordinates import (
    PLACES,
    WEIGHTED,
    makes_integers,
)
from padc.backends.coreml.float16.ranges import BOUNDED, floats

with quiet():
    from coremltools.converters.mil.mil import Program, types

LARGEST_SMALL = 2**8
"""The largest integer that is computed with in float16."""

SELECTIONS = frozenset(
    "concat expand_dims gather gather_along_axis gather_nd identity one_hot "
    "reduce_max reduce_min reshape reverse select slice_by_index slice_by_size split "
    "squeeze stack tile transpose".split()
)
"""Ops whose results are elements of their operands."""

SELECTED = frozenset(["x", "values", "a", "b", "on_value", "off_value"])
"""The operands that the elements are from."""


def ops_on_integers(program: Program) -> set[str]:
    """The names of the ops that read floats that are computed from integers."""
    integers = Integers()
    integers.visit(program.functions["main"])
    return integers.ops


@dataclass
class Integers:
    """The floats of a program that are integers, or computed from integers only."""

    floats: set[Any] = field(default_factory=set)
    ops: set[str] = field(default_factory=set)
    """The names of the ops that read them."""
    small: dict[Any, bool] = field(default_factory=dict)
    """Whether an integer tensor has small numbers only."""

    def visit(self, block: Any) -> None:
        for op in block.operations:
            for inner in op.blocks:
                self.visit(inner)
            if op.op_type == "cast":
                self.visit_cast(op)
            elif op.op_type != "const":
                self.visit_op(op)

    def visit_cast(self, op: Any) -> None:
        is_small = not types.is_int(op.x.dtype) or self.is_small(op.x)
        if not is_small and op.outputs[0].is_tensor_or_scalar_of(dtype="fp32"):
            self.floats.add(op.outputs[0])

    def visit_op(self, op: Any) -> None:
        computed = {var for _, var in floats(op) if var.val is None}
        if makes_integers(op):
            self.floats.update(op.outputs)
        if not computed & self.floats:
            return
        self.ops.add(op.name)
        if computed <= self.floats and not makes_activations(op):
            self.floats.update(op.outputs)

    def is_small(self, var: Any) -> bool:
        """Whether a tensor can hold small integers only."""
        if var not in self.small:
            self.small[var] = False
            self.small[var] = self.has_small(var)
        return self.small[var]

    def has_small(self, var: Any) -> bool:
        if var.val is not None:
            values = np.abs(np.asarray(var.val, np.int64))
            return bool((values <= LARGEST_SMALL).all())
        if types.builtin_to_string(var.dtype) in ("bool", "int8", "uint8"):
            return True
        op = var.op
        if op is None:
            return False
        if op.op_type in PLACES:
            return all(isinstance(n, int) and n <= LARGEST_SMALL for n in op.x.shape)
        if op.op_type == "cast":
            return not types.is_float(op.x.dtype) and self.is_small(op.x)
        if op.op_type == "mod":
            return self.is_small(op.y) and op.y.val is not None
        return op.op_type in SELECTIONS and all(
            self.is_small(each)
            for name, value in op.inputs.items()
            if name in SELECTED
            for each in (value if isinstance(value, list | tuple) else [value])
        )


def makes_activations(op: Any) -> bool:
    """Whether the results of an op are activations, of the range that they have."""
    return op.op_type in BOUNDED or (op.op_type in WEIGHTED and not is_outer(op))


def is_outer(op: Any) -> bool:
    """Whether a matrix product multiplies single elements, as those of frequencies."""
    if op.op_type == "linear":
        return op.x.shape[-1] == 1
    if op.op_type != "matmul":
        return False
    is_transposed = op.transpose_x is not None and bool(op.transpose_x.val)
    return op.x.shape[-2 if is_transposed else -1] == 1
