# pyright: basic, reportMissingTypeStubs=false, reportAttributeAccessIssue=false
"""
Which tensors of a program may hold finite numbers that float16 does not have.

These come from constants, from inputs that are masks, and from buffers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from xdsl.dialects.builtin import Float16Type, Float32Type

from padc.backends.coreml import quiet
from padc.backends.coreml.blocks import operations_of
from padc.backends.coreml.float16.coordinates import operands, sources
from padc.backends.coreml.model_buffers import BufferFeature
from padc.ir.element_types import LARGEST_FINITE

with quiet():
    from coremltools.converters.mil.mil import Program

LARGEST_FLOAT16 = LARGEST_FINITE[Float16Type]
LARGEST_FLOAT32 = LARGEST_FINITE[Float32Type]

Range: TypeAlias = tuple[float, float]
"""The least and the greatest finite number that a tensor can hold."""

NARROW: Range = -LARGEST_FLOAT16, LARGEST_FLOAT16
"""The range that computed values are assumed to have: float16 is the user's choice."""

EVERYTHING: Range = -LARGEST_FLOAT32, LARGEST_FLOAT32


def is_wide(range: Range) -> bool:
    return range[0] < -LARGEST_FLOAT16 or range[1] > LARGEST_FLOAT16


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
"""Ops that pass a masking number on to a softmax unchanged."""

LEADS_FROM_MASK = LEADS_TO_SOFTMAX | {"add", "maximum", "minimum", "mul", "sub"}
"""These, and ops that turn one masking number into another."""


@dataclass
class Ranges:
    """The ranges of the float32 tensors of a program that are wide."""

    wide: dict[Any, Range] = field(default_factory=dict)

    @classmethod
    def of(cls, program: Program) -> Ranges:
        """The ranges in a program whose buffers keep their values between calls."""
        function = program.functions["main"]
        ranges = cls()
        for mask in mask_inputs(program):
            ranges.note(mask, EVERYTHING)
        waiting = buffers_of(program)
        for each in waiting:
            ranges.note(function.inputs[each.input], range_of(each.initial))
        ranges.visit(function)
        # What is in a buffer after a call is there at the start of the next.
        outputs = {output.name: output for output in function.outputs}
        while grown := [b for b in waiting if outputs[b.output] in ranges.wide]:
            for each in grown:
                ranges.note(function.inputs[each.input], EVERYTHING)
            waiting = [each for each in waiting if each not in grown]
            ranges.visit(function)
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
            # A range that grows twice may grow without end: it becomes unknown.
            carried = [
                b if is_first or a == b else EVERYTHING for a, b in zip(carried, grown)
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
        return NARROW if var.val is None else range_of(var.val)

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
    return NARROW if op.op_type in BOUNDED else EVERYTHING


def clipped(x: float) -> float:
    """A bound clipped to float32; beyond it, PyTorch's results are infinite too."""
    return 0.0 if math.isnan(x) else min(max(x, -LARGEST_FLOAT32), LARGEST_FLOAT32)


def range_of(value: Any) -> Range:
    """The range of the finite numbers of an array."""
    finite = np.asarray(value)[np.isfinite(value)]
    return (float(finite.min()), float(finite.max())) if finite.size else (0, 0)


# --- inputs of any range --------------------------------------------------------------


def buffers_of(program: Program) -> list[BufferFeature]:
    """The float32 buffers that are inputs and outputs of a program."""
    inputs = program.functions["main"].inputs
    return [
        each
        for each in getattr(program, "changed_buffers", ())
        if each.output is not None
        and inputs[each.input].is_tensor_or_scalar_of(dtype="fp32")
    ]


def mask_inputs(program: Program) -> set[Any]:
    """The inputs that are only added to what a softmax reads."""
    among = {op for op in operations_of(program) if op.op_type in LEADS_FROM_MASK}
    found: set[Any] = set()
    readers: set[Any] = set()
    for op in operations_of(program):
        if op.op_type == "softmax":
            sums = {each for each in sources([op.x], among) if adds_computed(each)}
            masks = [var for each in sums for var in operands(each)]
            readers |= sums
        elif op.op_type == "scaled_dot_product_attention" and op.attn_mask is not None:
            masks = [op.attn_mask]
            readers.add(op)
        else:
            continue
        before = sources(masks, among)
        found.update(masks, *(operands(each) for each in before))
        readers |= before
    inputs = found & set(program.functions["main"].inputs.values())
    return {var for var in inputs if readers.issuperset(var.child_ops)}


def adds_computed(op: Any) -> bool:
    """Whether an op adds two tensors, none of them constant."""
    return op.op_type in ("add", "sub") and op.x.val is None and op.y.val is None
