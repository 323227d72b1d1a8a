"""How each `tcp` op is lowered to Core ML, by family."""

from padc.passes.tcp_to_mil import convolutions, grid_sample, pads, pools, resample
from padc.passes.tcp_to_mil.mil_lowering import LOWERINGS

__all__ = ["LOWERINGS", "convolutions", "grid_sample", "pads", "pools", "resample"]
