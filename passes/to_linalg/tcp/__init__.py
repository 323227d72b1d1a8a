"""How each `tcp` op is written in upstream's tensor ops."""

from padc.passes.to_linalg.tcp import (
    convolutions,
    grid_sample,
    pads,
    pools,
    resample,
    transposed,
)
from padc.passes.to_linalg.tcp.table import LOWERINGS

__all__ = [
    "LOWERINGS",
    "convolutions",
    "grid_sample",
    "pads",
    "pools",
    "resample",
    "transposed",
]
