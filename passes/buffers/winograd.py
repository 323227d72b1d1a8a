"""Winograd's convolutions of buffers."""

from __future__ import annotations

from xdsl.ir import SSAValue

from padc.ir import tcp
from padc.passes.buffers.function_bufferizer import FunctionBufferizer, bufferizes


@bufferizes(tcp.WinogradConvOp)
def lower_winograd_conv(f: FunctionBufferizer, op: tcp.WinogradConvOp) -> SSAValue:
    target = f.target(op.init)
    x, filters = f.values[op.input], f.values[op.filters]
    tile, block = op.tile.value.data, op.block.value.data
    f.build.builder.insert(tcp.WinogradConvOp(x, filters, target, tile, block))
    return target
