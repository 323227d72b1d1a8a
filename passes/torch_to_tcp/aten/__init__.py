"""
The lowerings of ATen ops to tcp.

`tcp_call` is the call that a lowering takes, and has the table of them all. Every other
file holds the lowerings of a family.
"""

from padc.common.families import import_families
from padc.passes.torch_to_tcp.aten.tcp_call import LOWERINGS, TcpCall

__all__ = ["LOWERINGS", "TcpCall"]

import_families(__name__, __path__)
