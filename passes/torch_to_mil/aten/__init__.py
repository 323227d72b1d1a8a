"""
The rows of ATen ops: how each is computed with Core ML's ops, and for which dtypes.

`mil_call` is the call that a row takes, and has the table of all rows. `tensor` has
values whose operators insert Core ML's ops, `functions` what Core ML lacks of floats.
`movement`, `parts`, `indices`, `matrices` and `contraction` are what several families
share. Every other file holds the rows of a family.
"""

from padc.common.families import import_families
from padc.passes.torch_to_mil.aten.mil_call import LOWERINGS

__all__ = ["LOWERINGS"]

import_families(__name__, __path__)
