"""
How `reduce-ranks` rewrites each op on tensors of more dimensions than Core ML has.

`grouping` and `permutations` are the algebra, on dimensions only. `carrier` says what
carries a tensor, and `rank_call` how ops are built on carriers. Every other file holds
the rules of a family of ops.
"""

from padc.common.families import import_families
from padc.passes.tcp_to_mil.ranks.rank_call import RULES

__all__ = ["RULES"]

import_families(__name__, __path__)
