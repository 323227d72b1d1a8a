"""The table of lowerings from `tcp` to linalg."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from xdsl.ir import Operation, SSAValue

from padc.passes.common.linalg_builder import LinalgBuilder
from padc.passes.common.lowering import LoweringTable

LinalgLowering: TypeAlias = Callable[[LinalgBuilder, Any], SSAValue]
"""Builds what replaces an op's result; its sizes may be less static."""

LOWERINGS = LoweringTable[type[Operation], LinalgLowering]()
"""By the classes of ops."""

lowers = LOWERINGS.lowers
