"""How each `tcp` op is written in upstream's tensor ops."""

from padc.passes.tcp_to_linalg import (
    convolutions,
    grid_sample,
    pads,
    pools,
    resample,
    transposed,
)
from padc.passes.tcp_to_linalg.table import LOWERINGS

__all__ = [
    "LOWERINGS",
    "convolutions",
    "grid_sample",
    "pads",
    "pools",
    "resample",
    "transposed",
]
