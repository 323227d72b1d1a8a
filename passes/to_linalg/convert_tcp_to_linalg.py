"""
Write `tcp` ops in upstream's tensor ops: linalg, tensor, arith.

Pads become tensor.pad, or loops that read where their index map says; convolutions,
pools and samplings become linalg ops, halves summed in f32. Unsigned tensors are
computed as signless ones, between casts.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, UnrealizedConversionCastOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from padc.ir import tcp
from padc.ir.tcp import tensor_type
from padc.passes.common.linalg_builder import (
    builder_before,
    signless_type,
)
from padc.passes.common.lowering import lower_all
from padc.passes.to_linalg.tcp import LOWERINGS, transposed


@dataclass(frozen=True)
class ConvertTcpToLinalgPass(ModulePass):
    """Lower `tcp` ops to upstream's tensor ops."""

    name = "convert-tcp-to-linalg"

    border_pads: bool = True
    """Whether to lower border pads too, which `bufferize-tcp` takes as they are."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        # First, since they become pads and convolutions.
        lower_all(op, tcp.ConvTransposeOp, decompose)
        lower_all(op, Operation, self.lower, cast=with_sign)

    def lower(self, op: Operation) -> SSAValue | None:
        """Build what replaces the result of `op`; None if it stays."""
        if isinstance(op, tcp.BorderPadOp) and not self.border_pads:
            return None
        lowering = LOWERINGS.get(type(op))
        return None if lowering is None else lowering(builder_before(op), op)


def decompose(op: tcp.ConvTransposeOp) -> SSAValue:
    return transposed.decompose(builder_before(op), op)


def with_sign(op: Operation, new: SSAValue, old: SSAValue) -> SSAValue:
    """Cast a tensor of signless elements to the type of `old`."""
    build, wanted = builder_before(op), tensor_type(old)
    signless = signless_type(wanted)
    new = build.cast(new, signless)
    if signless == wanted:
        return new
    return build.insert(UnrealizedConversionCastOp.get([new], [wanted]))
