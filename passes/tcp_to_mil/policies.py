"""The policies: which pads and grid samples become Core ML's own ops."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

from padc.errors import resolve

PadPolicy: TypeAlias = Literal["auto", "native", "decompose"]
"""
Which pads become Core ML's `pad`. It pads floats with a constant, and the last two
dimensions, by at most their size, by replication and reflection.

auto: those that Core ML has. native: all; padded dimensions are transposed to be the
last, and if that does not help it is an error. decompose: constant pads only.
"""
GridSamplePolicy: TypeAlias = Literal["auto", "native", "decompose"]
"""
Which grid samples become Core ML's `resample`.

auto: those that it computes as PyTorch does. native: all; an error for those that it
does not have. decompose: none.
"""

DEFAULT_PAD_POLICY: PadPolicy = "auto"
DEFAULT_GRID_SAMPLE_POLICY: GridSamplePolicy = "auto"


def resolve_pad_policy(name: str) -> str:
    """The policy of this name; UsageError for another name."""
    return resolve("pad policy", name, get_args(PadPolicy))


def resolve_grid_sample_policy(name: str) -> str:
    """The policy of this name; UsageError for another name."""
    return resolve("grid sample policy", name, get_args(GridSamplePolicy))
