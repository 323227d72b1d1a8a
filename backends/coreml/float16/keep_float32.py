# pyright: basic, reportMissingTypeStubs=false
"""
Which ops of a float16 program the user keeps in float32.

They are named by kinds ("norms", "softmax"), by the paths of the model's modules
("layers.0.norm"), or chosen by a function of coremltools' ops, as coremltools' own
`FP16ComputePrecision(op_selector=...)` takes it, which says what to keep.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from padc.backends.coreml import quiet
from padc.backends.coreml.blocks import modules, operations_of, origins
from padc.backends.coreml.float16.coordinates import coordinates
from padc.backends.coreml.numerics import Keep, OpPredicate
from padc.errors import UsageError

with quiet():
    from coremltools.converters.mil.mil import Program

TYPES: Mapping[str, frozenset[str]] = {
    "activations": frozenset(
        "clamped_relu elu erf gelu leaky_relu prelu relu relu6 scaled_tanh sigmoid "
        "sigmoid_hard silu softplus softplus_parametric softsign tanh".split()
    ),
    "convolutions": frozenset(["conv", "conv_transpose"]),
    "exponentials": frozenset("exp exp2 log pow rsqrt sqrt square inverse".split()),
    "matmuls": frozenset("einsum linear matmul scaled_dot_product_attention".split()),
    "norms": frozenset(
        "batch_norm instance_norm l2_norm layer_norm local_response_norm".split()
    ),
    "recurrent": frozenset(["gru", "lstm", "rnn"]),
    "reductions": frozenset(
        "avg_pool cumsum reduce_l1_norm reduce_l2_norm reduce_log_sum reduce_mean "
        "reduce_log_sum_exp reduce_prod reduce_sum reduce_sum_square".split()
    ),
    "softmax": frozenset(["softmax"]),
    "trigonometry": frozenset("acos asin atan atanh cos cosh sin sinh tan".split()),
    "arithmetic": frozenset("add floor_div mod mul real_div sub".split()),
}
"""The types of the ops of each kind."""

ORIGINS: Mapping[str, re.Pattern[str]] = {
    "norms": re.compile(r"aten\.\w*norm"),
    "softmax": re.compile(r"aten\.\w*softmax"),
}
"""The ops of PyTorch whose parts are of a kind as well."""

COORDINATES = "coordinates"
"""The kind of the ops that compute coordinates, which are in float32 in any case."""

KINDS = (COORDINATES, *TYPES)
"""The names of kinds of ops."""


def kept_ops(program: Program, keep: Keep) -> OpPredicate:
    """
    Whether an op of the program stays in float32.

    Raises UsageError for a name that is no kind, and no module whose ops the program
    has.
    """
    ops = [op for op in operations_of(program) if op.op_type != "const"]
    chosen: set[str] = set()
    for each in keep:
        found = [op.name for op in ops if predicate_of(each, program)(op)]
        if not found and isinstance(each, str) and each not in KINDS:
            raise unknown(each, ops)
        chosen.update(found)
    return lambda op: op.name in chosen


def kinds_of(program: Program) -> list[str]:
    """The kinds of the ops that float16 programs compute in float16 by default."""
    positions = coordinates(program)
    ops = [
        op
        for op in operations_of(program)
        if op.op_type != "const" and op.name not in positions
    ]
    return [kind for kind in TYPES if any(is_of_kind(op, kind) for op in ops)]


def predicate_of(keep: str | OpPredicate, program: Program) -> OpPredicate:
    """The ops that a kind, or the path of a module, names."""
    if not isinstance(keep, str):
        return keep
    if keep == COORDINATES:
        names = coordinates(program)
        return lambda op: op.name in names
    if keep in TYPES:
        return lambda op: is_of_kind(op, keep)
    patterns = (keep, f"{keep}.*")
    return lambda op: any(
        fnmatchcase(path, pattern) for path in modules(op) for pattern in patterns
    )


def is_of_kind(op: Any, kind: str) -> bool:
    """Whether an op is of a kind, or part of an op of PyTorch of that kind."""
    origin = ORIGINS.get(kind)
    return op.op_type in TYPES[kind] or (
        origin is not None and any(origin.search(name) for name in origins(op))
    )


def unknown(name: str, ops: Sequence[Any]) -> UsageError:
    """The error for a name that is no kind and no module."""
    top = {path.split(".")[0] for op in ops for path in modules(op) if path}
    listed = f", and the modules {', '.join(sorted(top))}" if top else ""
    return UsageError(
        f"keep_float32: no op is of '{name}'",
        hint=f"there are the kinds {', '.join(KINDS)}{listed}",
    )
