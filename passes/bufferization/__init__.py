"""How functions of tensors become functions of buffers."""

from padc.passes.bufferization import pads, shapes
from padc.passes.bufferization.function import LOWERINGS, Bufferization

__all__ = ["LOWERINGS", "Bufferization", "pads", "shapes"]
