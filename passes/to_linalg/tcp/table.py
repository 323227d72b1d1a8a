"""The table of how each `tcp` op is written in linalg, and what they share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from xdsl.ir import Operation, SSAValue

from padc.passes.to_linalg.build.linalg_builder import LinalgBuilder

Lowering: TypeAlias = Callable[[LinalgBuilder, Any], SSAValue]
"""From a builder and an op to what replaces its result, sizes known as they may be."""

LOWERINGS: dict[type[Operation], Lowering] = {}


def lowers(op_type: type[Operation]) -> Callable[[Lowering], Lowering]:
    """Register how an op is written in linalg."""

    def register(lowering: Lowering) -> Lowering:
        LOWERINGS[op_type] = lowering
        return lowering

    return register
