"""
What each `tcp` op computes, on PyTorch tensors of any rank and dtype.

It is an oracle, independent on purpose: it shares no formulas with the passes, except
the matrices of `padc.ir.winograd`, which say what the op is. It does not call PyTorch's
pads, convolutions, pools or interpolation, with which it is compared. Floats are
accumulated in float64, integers in int64, and rounded or wrapped once, at the end.
`evaluator` finds the function of an op, `taps` and `windows` serve several; every other
file holds a family of ops.
"""

from padc.backends.reference.tcp.evaluator import EVALUATORS, Evaluator, Value
from padc.common.families import import_families

__all__ = ["EVALUATORS", "Evaluator", "Value"]

import_families(__name__, __path__)
