"""
Lowerings of ordinary ATen ops to linalg, by family.

Three files serve them: `linalg_call` is the call that a lowering takes, `lower_op`
finds the lowering of an op, and `tensors` has loops over operands. Every other file
holds the lowerings of a family.
"""

from padc.common.families import import_families
from padc.passes.to_linalg.aten.linalg_call import LOWERINGS, LinalgCall

__all__ = ["LOWERINGS", "LinalgCall"]

import_families(__name__, __path__)
