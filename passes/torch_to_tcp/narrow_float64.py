"""
Compute float64 values inside a program in float32, for targets without float64.

Programs that take or return float64 are left alone: their users need its accuracy.
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, f64
from xdsl.passes import ModulePass

from padc.ir.weights import weights_of
from padc.passes.torch_to_tcp.in_float32 import compute_in_float32


class NarrowFloat64Pass(ModulePass):
    """Compute float64 values inside a program in float32."""

    name = "narrow-float64"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        compute_in_float32(op, weights_of(ctx), f64)
