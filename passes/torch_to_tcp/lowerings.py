"""The table of all lowerings to `tcp`."""

from padc.passes.torch_to_tcp import (
    adaptive_pools,
    convolutions,
    grid_sample,
    pads,
    pools,
    shuffles,
    upsampling,
    windows,
)
from padc.passes.torch_to_tcp.tcp_call import LOWERINGS, TcpCall

__all__ = [
    "LOWERINGS",
    "TcpCall",
    "adaptive_pools",
    "convolutions",
    "grid_sample",
    "pads",
    "pools",
    "shuffles",
    "upsampling",
    "windows",
]
