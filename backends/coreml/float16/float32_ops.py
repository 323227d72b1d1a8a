# pyright: basic, reportMissingTypeStubs=false, reportAttributeAccessIssue=false
"""
Which ops of a float16 program compute in float32.

Finite numbers that float16 does not have, as in masks of -1e9 or torch.finfo.min, would
become infinite: then 0 * inf, and a softmax of nothing but -inf, are NaN. An op that
reads or makes such a number computes in float32. Where only a softmax reads it, it is
the largest number of float16 instead: the weights are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from padc.backends.coreml import IMAGE_ORIGIN, quiet
from padc.backends.coreml.blocks import blocks_of, line_of, operations_of, origins
from padc.backends.coreml.float16.coordinates import coordinates, decisions, roundings
from padc.backends.coreml.float16.integers import ops_on_integers
from padc.backends.coreml.float16.ranges import (
    LARGEST_FLOAT16,
    LEADS_TO_SOFTMAX,
    Ranges,
    floats,
    is_wide,
)
from padc.backends.coreml.float16.squares import ops_on_squares
from padc.backends.coreml.float16.tiny_numbers import LEAST_FLOAT16, TinyNumbers
from padc.errors import Problem, UnsupportedError

with quiet():
    from coremltools.converters.mil.mil import Builder, Program


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
    ranges, tiny = Ranges.of(program), TinyNumbers.of(program)
    check_states(program, ranges, tiny)
    names = coordinates(program) | roundings(program) | decisions(program)
    names |= ops_on_integers(program) | ops_on_squares(program) | tiny.ops
    # The pass replaces variables as it goes, so all ops are judged before it starts.
    kept = {
        op.name
        for op in operations_of(program)
        if op.op_type != "const"
        and (op.name in names or ranges.has_wide(op) or is_of_image(op) or keep(op))
    }
    return lambda op: op.name not in kept


def check_states(program: Program, ranges: Ranges, tiny: TinyNumbers) -> None:
    """Raise UnsupportedError if a state is given numbers that float16 does not have."""
    changed = getattr(program, "changed_buffers", ())
    buffers = {each.input: each.buffer for each in changed}
    problems: list[Problem] = []
    for op in operations_of(program):
        if op.op_type != "coreml_update_state":
            continue
        cast = op.value.op
        var = cast.x if cast is not None and cast.op_type == "cast" else op.value
        if is_wide(ranges.at(var)):
            numbers = f"values above {LARGEST_FLOAT16:g}"
        elif var in tiny.values:
            numbers = f"values below {LEAST_FLOAT16:.0e}"
        else:
            continue
        name = buffers.get(op.state.name, op.state.name)
        message = f"the buffer '{name}' is given {numbers}, and states are float16"
        where = next(filter(None, map(line_of, (op, var.op))), None)
        problems.append(Problem(message, where, "set states='inputs'"))
    if problems:
        raise UnsupportedError(problems)


def is_of_image(op: Any) -> bool:
    """
    Whether an op is between pixels and the model's tensors.

    Scales of pixels can be too small for float16. No cast is added: the inputs and
    outputs are of float32.
    """
    return IMAGE_ORIGIN in origins(op)
