"""The negative amounts of pads as slices, in ATen's ops or in Core ML's."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from padc.ir.padding import Amounts
from padc.passes.aten.builder import AtenBuilder
from padc.passes.common.mil_builder import MilBuilder


def crop(
    build: AtenBuilder | MilBuilder, x: SSAValue, amounts: Sequence[Amounts]
) -> SSAValue:
    """Crop by the negative amounts, with slices."""
    for dim, amount in enumerate(amounts):
        x = crop_dimension(build, x, dim, amount)
    return x


def crop_dimension(
    build: AtenBuilder | MilBuilder, x: SSAValue, dim: int, amount: Amounts
) -> SSAValue:
    """Crop one dimension by the negative amounts, with a slice."""
    lower, upper = max(-amount.lower, 0), max(-amount.upper, 0)
    return build.slice(x, dim, lower, -upper or None) if lower or upper else x
