"""
How each `tcp` op is written in upstream's tensor ops.

`linalg_lowering` is the table of them, in which every other file registers the ops of
a family.
"""

from padc.common.families import import_families
from padc.passes.to_linalg.tcp.linalg_lowering import LOWERINGS

__all__ = ["LOWERINGS"]

import_families(__name__, __path__)
