"""
Write `tcp` ops in upstream's tensor ops: linalg, tensor, arith.

Pads become tensor.pad, or loops that read where their index map says; convolutions,
pools and samplings become linalg ops, halves summed in f32. Unsigned tensors are
computed as signless ones, between casts.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, UnrealizedConversionCastOp
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint
from xdsl.transforms.dead_code_elimination import region_dce

from padc.ir import tcp
from padc.ir.tcp import tensor_type
from padc.ir.weights import Weights, weights_of
from padc.passes.to_linalg.build.linalg_builder import LinalgBuilder, signless_type
from padc.passes.to_linalg.decompose_conv_transpose import (
    DecomposeConvTransposePass,
    weight,
)
from padc.passes.to_linalg.tcp import LOWERINGS, transposed


@dataclass(frozen=True)
class ConvertTcpToLinalgPass(ModulePass):
    """Lower `tcp` ops to upstream's tensor ops."""

    name = "convert-tcp-to-linalg"

    border_pads: bool = True
    """Whether to lower border pads too, which `bufferize-tcp` takes as they are."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        decompose_computed(op, weights_of(ctx))
        DecomposeConvTransposePass().apply(ctx, op)
        for old in [old for old in op.walk() if type(old) in LOWERINGS]:
            if isinstance(old, tcp.BorderPadOp) and not self.border_pads:
                continue
            build = LinalgBuilder(Builder(InsertPoint.before(old)))
            new = LOWERINGS[type(old)](build, old)
            result = old.results[0]
            type_wanted = tensor_type(result)
            signless = signless_type(type_wanted)
            new = build.cast(new, signless)
            if signless != type_wanted:
                new = build.insert(UnrealizedConversionCastOp.get([new], [type_wanted]))
            new.name_hint = result.name_hint
            result.replace_all_uses_with(new)
            old.detach()
            old.erase()
        region_dce(op.body)


def decompose_computed(module: ModuleOp, weights: Weights) -> None:
    """Decompose transposed convolutions that `decompose-conv-transpose` leaves.

    Those whose kernel is no weight it would flip by ATen's ops.
    """
    for op in [op for op in module.walk() if isinstance(op, tcp.ConvTransposeOp)]:
        if transposed.is_empty(op) or weight(op.kernel, weights) is None:
            build = LinalgBuilder(Builder(InsertPoint.before(op)))
            new = transposed.decompose(build, op)
            new.name_hint = op.result.name_hint
            op.result.replace_all_uses_with(new)
            op.detach()
            op.erase()
