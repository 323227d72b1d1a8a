"""How each ATen op is lowered to `tcp`, by family."""

from padc.passes.torch_to_tcp import (
    adaptive_pools,
    convolutions,
    grid_sample,
    pads,
    pools,
    rearrange,
    shuffles,
    upsampling,
    windows,
)
from padc.passes.torch_to_tcp.call import LOWERINGS, TcpCall

__all__ = [
    "LOWERINGS",
    "TcpCall",
    "adaptive_pools",
    "convolutions",
    "grid_sample",
    "pads",
    "pools",
    "rearrange",
    "shuffles",
    "upsampling",
    "windows",
]
