"""
What each `tcp` op computes, on PyTorch tensors of any rank and dtype.

Nothing here calls PyTorch's own pads, convolutions, pools or interpolation: these
are what it is compared with. Floats are accumulated in float64, integers in int64,
and rounded or wrapped once, at the end.
"""

from padc.backends.reference.tcp import convolutions, grid_sample, pads, pools, resample
from padc.backends.reference.tcp.evaluator import EVALUATORS, Evaluator, Value

__all__ = [
    "EVALUATORS",
    "Evaluator",
    "Value",
    "convolutions",
    "grid_sample",
    "pads",
    "pools",
    "resample",
]
