"""The table of all rules for tensors of more dimensions than Core ML has."""

from padc.passes.tcp_to_mil.ranks import (
    along,
    constants,
    einsum,
    elementwise,
    indexing,
    parts,
    permutes,
    products,
    repeats,
    updates,
    views,
)
from padc.passes.tcp_to_mil.ranks.constants import rewrite_literal
from padc.passes.tcp_to_mil.ranks.pads import rewrite_pad
from padc.passes.tcp_to_mil.ranks.rank_call import RULES

__all__ = [
    "RULES",
    "along",
    "constants",
    "einsum",
    "elementwise",
    "indexing",
    "parts",
    "permutes",
    "products",
    "repeats",
    "rewrite_literal",
    "rewrite_pad",
    "updates",
    "views",
]
