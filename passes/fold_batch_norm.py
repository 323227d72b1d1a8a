"""
Fold batch normalization into the convolution before it.

In inference it multiplies each feature by a number and adds one: the kernel and the
bias can do that. They are constants, and new ones are computed from them here, in
float64. Halves stay as they are: their folded kernel would be rounded once more.
"""

from __future__ import annotations

from dataclasses import dataclass

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
from padc.ir.weights import Array, Weights, numpy_dtype, weights_of

NAMES = ("aten.batch_norm", "aten._native_batch_norm_legit_no_training")


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
    """`batch_norm(conv(x, w, b)) -> conv(x, w * f, b * f + s)`, where that can be."""
    conv = convolution_of(norm)
    if conv is None or any(x.first_use is not None for x in norm.results[1:]):
        return
    channels = Channels.of(norm, weights)
    kernel = literal(conv.kernel, weights)
    bias = None if conv.bias is None else literal(conv.bias, weights)
    if channels is None or kernel is None or (bias is None) != (conv.bias is None):
        return
    element_type = tensor_type(conv.kernel).element_type
    build = Builder(InsertPoint.before(conv))

    def constant(name: str, array: Array) -> SSAValue:
        array = array.astype(numpy_dtype(element_type))
        type = TensorType(element_type, array.shape)
        value = DenseResourceAttr.from_params(weights.add(name, array), type)
        made = build.insert(LiteralOp(value)).result
        return build.insert(ToBuiltinTensorOp(made)).result

    shift = channels.summand
    if bias is not None:
        shift = shift + bias * channels.factor
    scaled = kernel * factors_of(conv, kernel, channels.factor)
    operands = [
        conv.input,
        constant("folded.weight", scaled),
        constant("folded.bias", shift),
    ]
    folded = type(conv).create(
        operands=operands,
        result_types=[conv.result.type],
        properties=conv.properties,
        location=conv.location,
    )
    result = build.insert(folded).results[0]
    result.name_hint = conv.result.name_hint
    in_torch = build.insert(FromBuiltinTensorOp(result)).result
    norm.results[0].replace_all_uses_with(in_torch)
    Rewriter.erase_op(norm)


@dataclass(frozen=True)
class Channels:
    """What each channel is multiplied by, and what is added then, in float64."""

    factor: Array
    summand: Array

    @staticmethod
    def of(norm: AtenOp, weights: Weights) -> Channels | None:
        """What `norm` does; None unless that is constant."""
        given: dict[str, Array | float] = {}
        for name, default in (
            ("weight", 1.0),
            ("bias", 0.0),
            ("running_mean", None),
            ("running_var", None),
        ):
            operand = norm.arg(name)
            array = literal(operand, weights)
            if isinstance(operand.type, NoneType) and default is not None:
                given[name] = default
            elif array is None:
                return None
            else:
                given[name] = array
        if "training" in norm.schema.positions and norm.constant("training"):
            return None
        eps = norm.constant("eps")
        assert isinstance(eps, float)
        factor = given["weight"] / np.sqrt(given["running_var"] + eps)
        return Channels(factor, given["bias"] - given["running_mean"] * factor)


def convolution_of(norm: AtenOp) -> tcp.ConvOp | tcp.ConvTransposeOp | None:
    """The convolution whose result only `norm` uses, with its channels where it is."""
    tensor = norm.arg("input").owner
    if not isinstance(tensor, FromBuiltinTensorOp) or not tensor.result.has_one_use():
        return None
    conv = tensor.operand.owner
    if (
        not isinstance(conv, tcp.ConvOp | tcp.ConvTransposeOp)
        or not conv.result.has_one_use()
        or conv.dims.result.index("f") != 1
        or tensor_type(conv.result).element_type not in (f32, f64)
    ):
        return None
    return conv


def literal(x: SSAValue, weights: Weights) -> Array | None:
    """The data of a constant, in float64; None of what is none, or none of floats."""
    if isinstance(x.owner, ToBuiltinTensorOp):
        x = x.owner.operand
    if not isinstance(x.owner, LiteralOp):
        return None
    type = x.owner.value.get_type()
    assert isa(type, AnyTensor)
    if type.element_type not in (f32, f64):
        return None
    return weights.array(x.owner.value).astype(np.float64)


def factors_of(
    conv: tcp.ConvOp | tcp.ConvTransposeOp, kernel: Array, factor: Array
) -> Array:
    """What each element of the kernel is multiplied by: that of its output feature."""
    outputs, inputs = conv.dims.kernel.index("o"), conv.dims.kernel.index("i")
    shape = [1] * kernel.ndim
    if isinstance(conv, tcp.ConvOp):
        shape[outputs] = -1
        return factor.reshape(shape)
    # Input features are in groups, each of which has output features of its own.
    groups = conv.groups.value.data
    each = kernel.shape[inputs] // groups
    by_input = np.repeat(factor.reshape(groups, -1), each, axis=0)
    shape[inputs], shape[outputs] = by_input.shape
    return (by_input if inputs < outputs else by_input.T).reshape(shape)
