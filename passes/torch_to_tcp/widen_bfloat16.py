"""
Compute bfloat16 values inside a program in float32, which has all of them.

Results are not rounded to bfloat16 on the way: they are closer to exact ones than
PyTorch's. Programs that take or return bfloat16 are left alone.
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, bf16
from xdsl.passes import ModulePass

from padc.ir.weights import weights_of
from padc.passes.torch_to_tcp.in_float32 import compute_in_float32


class WidenBfloat16Pass(ModulePass):
    """Compute bfloat16 values inside a program in float32."""

    name = "widen-bfloat16"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        compute_in_float32(op, weights_of(ctx), bf16)
