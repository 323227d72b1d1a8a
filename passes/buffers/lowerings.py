"""How functions of tensors become functions of buffers."""

from padc.passes.buffers import border_pads, tensor_ops
from padc.passes.buffers.bufferization import LOWERINGS, Bufferization

__all__ = ["LOWERINGS", "Bufferization", "border_pads", "tensor_ops"]
