"""
Write transposed convolutions as convolutions, or as VALID ones and pads.

The forms and their formulas are those of `padc.passes.aten.conv_transpose`. No pipeline
of padc runs this pass: it is for users of padc-opt whose next tool lacks transposed
convolutions or their padding. `convert-tcp-to-linalg` decomposes them by itself, since
the kernel is an argument there, and `decompose-computed-kernels` for Core ML.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeAlias, get_args

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from padc.errors import resolve
from padc.ir import tcp
from padc.ir.weights import weights_of
from padc.passes.aten.conv_transpose import pad_result, zero_insert
from padc.passes.common.lowering import lower_all

Form: TypeAlias = Literal["zero-insert", "crop"]


@dataclass(frozen=True)
class DecomposeConvTransposePass(ModulePass):
    """Write transposed convolutions as convolutions or pads, for other compilers."""

    name = "decompose-conv-transpose"

    form: Form = "zero-insert"
    """
    zero-insert: a convolution of the padded input. A transposed convolution stays if
    its result is empty, or if its kernel's size, or features with groups, is dynamic.
    crop: a VALID transposed convolution, a pad, and the addition of the bias.
    """

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        resolve("form", self.form, get_args(Form))
        rule = pad_result
        if self.form == "zero-insert":
            rule = partial(zero_insert, weights=weights_of(ctx))
        lower_all(op, tcp.ConvTransposeOp, rule)
