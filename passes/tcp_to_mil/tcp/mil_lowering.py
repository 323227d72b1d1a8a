"""The table of lowerings from `tcp` to Core ML's ops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from xdsl.ir import Operation, SSAValue

from padc.passes.common.lowering import LoweringTable
from padc.passes.common.mil_builder import MilBuilder

MilLowering: TypeAlias = Callable[[MilBuilder, Any], SSAValue]
"""Builds what replaces an op's result."""

LOWERINGS = LoweringTable[type[Operation], MilLowering]()
"""By the classes of ops."""

lowers = LOWERINGS.lowers
