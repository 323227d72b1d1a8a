# pyright: basic, reportMissingTypeStubs=false, reportAttributeAccessIssue=false
"""
Which ops of a float16 program compute in float32.

Finite numbers that float16 does not have, as in masks of -1e9 or torch.finfo.min, would
become infinite: then 0 * inf, and a softmax of nothing but -inf, are NaN. An op that
reads or makes such a number computes in float32. Where only a softmax reads it, it is
the largest number of float16 instead: the weights are the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from xdsl.dialects.builtin import Float16Type, Float32Type

from padc.backends.coreml import IMAGE_ORIGIN, quiet
from padc.backends.coreml.blocks import blocks_of, operations_of, origins
from padc.backends.coreml.coordinates import coordinates
from padc.ir.element_types import LARGEST_FINITE

with quiet():
    from coremltools.converters.mil.mil import Builder, Program

LARGEST_FLOAT16 = LARGEST_FINITE[Float16Type]

Range: TypeAlias = tuple[float, float]
"""The least and the greatest finite number that a tensor can hold."""

NARROW: Range = -LARGEST_FLOAT16, LARGEST_FLOAT16
"""The range that computed values are assumed to have: float16 is the user's choice."""


def is_wide(range: Range) -> bool:
    return range[0] < -LARGEST_FLOAT16 or range[1] > LARGEST_FLOAT16


# --- ranges of results ----------------------------------------------------------------


def hull(*ranges: Range) -> Range:
    return min(low for low, _ in ranges), max(high for _, high in ranges)


def product(a: Range, b: Range) -> Range:
    ends = [x * y for x in a for y in b]
    return min(ends), max(ends)


def quotient(a: Range, b: Range) -> Range:
    """The divisor is taken to be 1 at least, unless it is a known number."""
    return product(a, (1 / b[0], 1 / b[0])) if b[0] == b[1] != 0 else a


RANGES: Mapping[str, Callable[..., Range]] = {
    "abs": lambda x: (0, max(-x[0], x[1])),
    "add": lambda x, y: (x[0] + y[0], x[1] + y[1]),
    "maximum": lambda x, y: (max(x[0], y[0]), max(x[1], y[1])),
    "minimum": lambda x, y: (min(x[0], y[0]), min(x[1], y[1])),
    "mul": product,
    "real_div": quotient,
    "relu": lambda x: (max(x[0], 0), max(x[1], 0)),
    "select": lambda a, b: hull(a, b),
    "square": lambda x: (0, max(x[0] ** 2, x[1] ** 2)),
    "sub": lambda x, y: (x[0] - y[1], x[1] - y[0]),
}
"""The range of a result, from those of the operands `x` and `y`, or `a` and `b`."""

KEEPING = frozenset(
    "avg_pool band_part ceil concat crop elu expand_dims fill floor gather "
    "gather_along_axis gather_nd gelu identity leaky_relu max_pool pad prelu "
    "reduce_log_sum_exp reduce_max reduce_mean reduce_min reshape resize_bilinear "
    "resize_nearest_neighbor reverse round scatter scatter_along_axis scatter_nd silu "
    "slice_by_index slice_by_size sliding_windows softplus split squeeze stack tile "
    "topk transpose upsample_bilinear upsample_nearest_neighbor".split()
)
"""Ops whose results are in the range of all their operands together."""

BOUNDED = frozenset(
    "atan cos erf instance_norm inverse l2_norm layer_norm local_response_norm log "
    "relu6 rsqrt scaled_dot_product_attention sigmoid sigmoid_hard sign sin softmax "
    "softsign tanh".split()
)
"""Ops whose results are small, however large a mask or another operand is."""

LEADS_TO_SOFTMAX = frozenset(
    "concat expand_dims fill reshape select slice_by_index slice_by_size squeeze tile "
    "transpose".split()
)
"""Ops that hand a masking number on to a softmax as it is."""


@dataclass
class Ranges:
    """The ranges of the float32 tensors of a program that are wide."""

    wide: dict[Any, Range] = field(default_factory=dict)

    @classmethod
    def of(cls, program: Program) -> Ranges:
        ranges = cls()
        ranges.visit(program.functions["main"])
        return ranges

    def visit(self, block: Any) -> None:
        """Note the range of each result in a block."""
        for op in block.operations:
            if op.op_type == "cond":
                self.visit_branches(op)
            elif op.op_type == "while_loop":
                self.visit_loop(op)
            elif op.op_type != "const":
                self.visit_op(op)

    def visit_op(self, op: Any) -> None:
        given: dict[str, Range] = {}
        for name, var in floats(op):
            given[name] = hull(self.at(var), *filter(None, [given.get(name)]))
        if any(is_wide(range) for range in given.values()):
            range = result_range(op, given)
            for output in op.outputs:
                self.note(output, range)

    def visit_branches(self, op: Any) -> None:
        for block in op.blocks:
            self.visit(block)
        for output, *results in zip(op.outputs, *(b.outputs for b in op.blocks)):
            self.note(output, hull(*map(self.at, results)))

    def visit_loop(self, op: Any) -> None:
        """The ranges of carried values grow until an iteration changes nothing."""
        test, body = op.blocks
        carried = [self.at(var) for var in op.loop_vars]
        is_first = True
        while True:
            for inputs in (test.inputs, body.inputs):
                for var, range in zip(inputs, carried):
                    self.note(var, range)
            self.visit(test)
            self.visit(body)
            grown = [hull(a, self.at(b)) for a, b in zip(carried, body.outputs)]
            if grown == carried:
                break
            # Of one that has grown twice, nothing is known.
            carried = [
                b if is_first or a == b else (clipped(-math.inf), clipped(math.inf))
                for a, b in zip(carried, grown)
            ]
            is_first = False
        for output, range in zip(op.outputs, carried):
            self.note(output, range)

    def note(self, var: Any, range: Range) -> None:
        if is_wide(range) and var.is_tensor_or_scalar_of(dtype="fp32"):
            self.wide[var] = range

    def at(self, var: Any) -> Range:
        if var in self.wide:
            return self.wide[var]
        if var.val is None:
            return NARROW
        finite = np.asarray(var.val)[np.isfinite(var.val)]
        return (float(finite.min()), float(finite.max())) if finite.size else (0, 0)

    def has_wide(self, op: Any) -> bool:
        """Whether an op reads or makes a finite number that float16 does not have."""
        operands = any(is_wide(self.at(var)) for _, var in floats(op))
        return operands or any(output in self.wide for output in op.outputs)


def floats(op: Any) -> Iterator[tuple[str, Any]]:
    """The float32 operands of an op, by the names of its inputs."""
    for name, value in op.inputs.items():
        for var in value if isinstance(value, list | tuple) else [value]:
            if var.is_tensor_or_scalar_of(dtype="fp32"):
                yield name, var


def result_range(op: Any, given: Mapping[str, Range]) -> Range:
    """The range of the results: all of float32 if the op is not known to have less."""
    if op.op_type in RANGES:
        operands = [given[name] for name in ("x", "y", "a", "b") if name in given]
        range = RANGES[op.op_type](*operands)
        return clipped(range[0]), clipped(range[1])
    if op.op_type == "clip":
        low, high = float(op.alpha.val), float(op.beta.val)
        return max(given["x"][0], low), min(given["x"][1], high)
    if op.op_type in KEEPING:
        return hull(*given.values())
    return NARROW if op.op_type in BOUNDED else (clipped(-math.inf), clipped(math.inf))


def clipped(x: float) -> float:
    """A bound clipped to float32; beyond it, PyTorch's results are infinite too."""
    most = LARGEST_FINITE[Float32Type]
    return 0.0 if math.isnan(x) else min(max(x, -most), most)


# --- what the pass to float16 asks ----------------------------------------------------


def keep_masks_finite(program: Program) -> None:
    """Replace masking numbers that only a softmax reads by float16's largest."""
    ranges = Ranges.of(program)
    results = {var for block in blocks_of(program) for var in block.outputs}
    for op in list(operations_of(program)):
        if op.op_type not in ("select", "fill"):
            continue
        for name, var in floats(op):
            numbers = masking_numbers(var)
            if len(numbers) == 1 and feeds_softmax(op, ranges, results, numbers):
                replace_constant(op, name, var)


def masking_numbers(var: Any) -> set[float]:
    """The finite numbers of a constant that float16 does not have."""
    if var.val is None:
        return set()
    values = np.unique(var.val)
    return set(values[np.isfinite(values) & (abs(values) > LARGEST_FLOAT16)].tolist())


def feeds_softmax(op: Any, ranges: Ranges, results: Any, numbers: set[float]) -> bool:
    """
    Whether only softmaxes read an op, after ops that make no number larger.

    Other masks on the way have the same number: of two, the softmax ignores the larger.
    """
    if op.op_type == "softmax":
        return True
    (output, *others) = op.outputs
    return (
        op.op_type in LEADS_TO_SOFTMAX
        and not others
        and output not in results
        and not any(has_other_source(var, ranges, numbers) for _, var in floats(op))
        and all(
            feeds_softmax(user, ranges, results, numbers) for user in output.child_ops
        )
    )


def has_other_source(var: Any, ranges: Ranges, numbers: set[float]) -> bool:
    """Whether a wide tensor is made by arithmetic, or has other wide numbers."""
    if var.val is not None:
        return not masking_numbers(var) <= numbers
    if var not in ranges.wide:
        return False
    op = var.op
    return (
        op is None
        or op.op_type not in LEADS_TO_SOFTMAX
        or any(has_other_source(each, ranges, numbers) for _, each in floats(op))
    )


def replace_constant(op: Any, name: str, var: Any) -> None:
    finite = np.clip(var.val, -LARGEST_FLOAT16, LARGEST_FLOAT16)
    value = np.where(np.isfinite(var.val), finite, var.val).astype(np.float32)
    with op.enclosing_block:
        new = Builder.const(val=value[()], before_op=op)
        op.enclosing_block.replace_uses_of_var_after_op(
            anchor_op=new.op, old_var=var, new_var=new, end_op=op
        )


def selector(
    program: Program, keep: Callable[[Any], bool] = lambda op: False
) -> Callable[[Any], bool]:
    """Whether an op of the program computes in float16: not if `keep` says so."""
    ranges, positions = Ranges.of(program), coordinates(program)
    # The pass replaces variables as it goes: what it asks of is decided before.
    kept = {
        op.name
        for op in operations_of(program)
        if op.op_type != "const"
        and (ranges.has_wide(op) or op.name in positions or is_of_image(op) or keep(op))
    }
    return lambda op: op.name not in kept


def is_of_image(op: Any) -> bool:
    """
    Whether an op is between pixels and the model's tensors.

    Scales of pixels can be too small for float16. No cast is added: the inputs and
    outputs are of float32.
    """
    return IMAGE_ORIGIN in origins(op)
