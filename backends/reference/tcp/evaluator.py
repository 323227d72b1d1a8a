"""The table of evaluators: what each `tcp` op computes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from xdsl.ir import Operation

Value: TypeAlias = Any
"""A `torch.Tensor`, a Python scalar, a string, None, or a list of these."""
Evaluator: TypeAlias = Callable[[Any, Sequence[Value]], Sequence[Value]]
"""Computes an op's results from the op and its operands."""

EVALUATORS: dict[type[Operation], Evaluator] = {}


def evaluates(*op_types: type[Operation]) -> Callable[[Evaluator], Evaluator]:
    """Register the evaluator of ops."""

    def register(evaluator: Evaluator) -> Evaluator:
        EVALUATORS.update(dict.fromkeys(op_types, evaluator))
        return evaluator

    return register
