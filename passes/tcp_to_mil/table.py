"""The table of lowerings from `tcp` to Core ML's ops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from xdsl.ir import Operation, SSAValue

from padc.passes.lowering import LoweringTable
from padc.passes.mil_builder import MilBuilder

Lowering: TypeAlias = Callable[[MilBuilder, Any], SSAValue]
"""Builds what replaces an op's result."""

LOWERINGS = LoweringTable[type[Operation], Lowering]()

lowers = LOWERINGS.lowers
