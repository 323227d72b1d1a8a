"""The complete table of lowerings: importing its files fills it."""

from padc.passes.buffers import border_pads, tensor_ops, winograd
from padc.passes.buffers.function_bufferizer import LOWERINGS, FunctionBufferizer

__all__ = ["LOWERINGS", "FunctionBufferizer", "border_pads", "tensor_ops", "winograd"]
