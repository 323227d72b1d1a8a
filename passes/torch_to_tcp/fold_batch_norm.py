"""
Fold batch normalization into the convolution before it.

In inference it multiplies each feature by a number and adds another; a kernel and a
bias can do the same. This pass computes them from the constants of both ops, in
float64. Convolutions in float16 and bfloat16 stay: a folded kernel would be rounded
twice.
"""

from __future__ import annotations

import numpy as np
from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects.builtin import DenseResourceAttr, ModuleOp, TensorType, f32, f64
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.transforms.dead_code_elimination import region_dce
from xdsl.utils.hints import isa

from padc.ir import tcp
from padc.ir.tcp import AnyTensor, tensor_type
from padc.ir.torch import (
    AtenOp,
    FromBuiltinTensorOp,
    LiteralOp,
    NoneType,
    ToBuiltinTensorOp,
)
from padc.ir.weights import Weights, weights_of
from padc.passes.aten.folded_norm import FoldedNorm

NAMES = ("aten.batch_norm", "aten._native_batch_norm_legit_no_training")
STATISTICS = ("weight", "bias", "running_mean", "running_var")


class FoldBatchNormPass(ModulePass):
    """Fold batch normalization in inference into convolutions with constant kernels."""

    name = "fold-batch-norm"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        weights = weights_of(ctx)
        for each in list(op.walk()):
            if isinstance(each, AtenOp) and each.schema.name in NAMES:
                fold(each, weights)
        region_dce(op.body)


def fold(norm: AtenOp, weights: Weights) -> None:
    """`batch_norm(conv(x, w, b)) -> conv(x, w * f, b * f + s)`, if all are constant."""
    conv = convolution_of(norm)
    if conv is None or any(x.first_use is not None for x in norm.results[1:]):
        return
    if "training" in norm.schema.positions and norm.constant("training"):
        return
    statistics = [norm.arg(name) for name in STATISTICS]
    values = [x if is_given(x) else None for x in (conv.kernel, conv.bias, *statistics)]
    names = [None if x is None else weight_name(x, weights) for x in values]
    if any(name is None and x is not None for name, x in zip(names, values)):
        return
    kernel, bias, scale, shift, mean, variance = names
    if mean is None or variance is None:
        return
    assert kernel is not None
    eps = norm.constant("eps")
    assert isinstance(eps, float)
    folded = FoldedNorm(
        weights.add("folded.weight", np.empty(0)),
        weights.add("folded.bias", np.empty(0)),
        kernel,
        bias,
        scale,
        shift,
        mean,
        variance,
        eps,
        conv.groups.value.data,
        conv.dims.kernel.index("o"),
        conv.dims.kernel.index("i"),
        isinstance(conv, tcp.ConvTransposeOp),
    )
    folded.apply(weights)
    weights.derivations.append(folded)
    element_type = tensor_type(conv.kernel).element_type
    build = Builder(InsertPoint.before(conv))

    def constant(name: str) -> SSAValue:
        type = TensorType(element_type, weights[name].shape)
        value = DenseResourceAttr.from_params(name, type)
        made = build.insert(LiteralOp(value)).result
        return build.insert(ToBuiltinTensorOp(made)).result

    made = type(conv).create(
        operands=[conv.input, constant(folded.weight), constant(folded.bias)],
        result_types=[conv.result.type],
        properties=conv.properties,
        location=conv.location,
    )
    result = build.insert(made).results[0]
    result.name_hint = conv.result.name_hint
    in_torch = build.insert(FromBuiltinTensorOp(result)).result
    norm.results[0].replace_all_uses_with(in_torch)
    Rewriter.erase_op(norm)


def convolution_of(norm: AtenOp) -> tcp.ConvOp | tcp.ConvTransposeOp | None:
    """The convolution whose only user is `norm`, if their channels agree."""
    tensor = norm.arg("input").owner
    if not isinstance(tensor, FromBuiltinTensorOp) or not tensor.result.has_one_use():
        return None
    conv = tensor.operand.owner
    if (
        not isinstance(conv, tcp.ConvOp | tcp.ConvTransposeOp)
        or not conv.result.has_one_use()
        or conv.dims.result.index("f") != 1
    ):
        return None
    return conv


def is_given(x: SSAValue | None) -> bool:
    return x is not None and not isinstance(x.type, NoneType)


def weight_name(x: SSAValue, weights: Weights) -> str | None:
    """The name of a constant's data; None if it is computed, or not in f32 or f64."""
    if isinstance(x.owner, ToBuiltinTensorOp):
        x = x.owner.operand
    if not isinstance(x.owner, LiteralOp):
        return None
    value = x.owner.value
    type = value.get_type()
    assert isa(type, AnyTensor)
    if type.element_type not in (f32, f64):
        return None
    data = weights.array(value)
    if isinstance(value, DenseResourceAttr):
        return value.resource_handle.data
    return weights.add("literal", data)
