"""
Make padding explicit: ATen's convolutions, pads, pools and upsampling become `tcp`.

Afterwards no convolution and no pool pads its input: a pad op does so before it. ATen
ops without a counterpart in `tcp` stay, and so do those whose results `tcp` does not
compute, such as unusual indices.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from padc.ir.torch import AtenOp, FromBuiltinTensorOp, IfOp, LoopOp
from padc.passes.common.lowering import Replacement, lower_all
from padc.passes.torch_to_tcp.aten import LOWERINGS, TcpCall


@dataclass(frozen=True)
class ConvertTorchToTcpPass(ModulePass):
    """Make the padding of ATen ops explicit, in `tcp` ops."""

    name = "convert-torch-to-tcp"

    nested: bool = True
    """Whether ops in branches and loops are lowered, too."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        lower_all(op, AtenOp, partial(lower, nested=self.nested), cast=in_torch)


def lower(op: AtenOp, nested: bool = True) -> Replacement:
    """Build what replaces the results of `op`; None if it stays."""
    if not nested and isinstance(op.parent_op(), IfOp | LoopOp):
        return None
    lowering = LOWERINGS.get(op.schema.name)
    return None if lowering is None else lowering(TcpCall(op))


def in_torch(op: AtenOp, new: SSAValue, old: SSAValue) -> SSAValue:
    """A builtin tensor as one of the torch dialect."""
    return TcpCall(op).insert(FromBuiltinTensorOp(new))
