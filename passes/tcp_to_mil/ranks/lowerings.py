"""The table of all rules for tensors of more dimensions than Core ML has."""

from padc.passes.tcp_to_mil.ranks import (
    constants,
    elementwise,
    indexing,
    permutes,
    repeats,
    views,
)
from padc.passes.tcp_to_mil.ranks.rank_call import RULES

__all__ = [
    "RULES",
    "constants",
    "elementwise",
    "indexing",
    "permutes",
    "repeats",
    "views",
]
