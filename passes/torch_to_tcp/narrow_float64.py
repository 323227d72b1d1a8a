"""
Compute float64 values inside a program in float32, where that is all there is.

Programs that take or return float64 are left alone: their users need its accuracy.
"""

from __future__ import annotations

import warnings

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, f32, f64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from padc.errors import SourceLocation
from padc.ir.torch import AtenOp, ConstantIntOp, VTensorType
from padc.ir.weights import weights_of
from padc.passes.common.retyping import retype

FLOAT32, FLOAT64 = 6, 7
"""The numbers of PyTorch's dtypes (c10/core/ScalarType.h)."""


class NarrowFloat64Pass(ModulePass):
    """Compute float64 values inside a program in float32."""

    name = "narrow-float64"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        functions = [each for each in op.walk() if isinstance(each, FuncOp)]
        types = [function.function_type for function in functions]
        if any(is_double(x) for type in types for x in (*type.inputs, *type.outputs)):
            return
        ops = [each for each in op.walk() if isinstance(each, AtenOp)]
        computed = [each for each in ops if any(map(is_double, each.result_types))]
        if computed:
            first = computed[0]
            where = SourceLocation.of(first.location)
            warnings.warn(
                "Core ML has no float64: values inside the model are computed in "
                f"float32, first by {first.schema.name}"
                + ("" if where is None else f" at {where.file}:{where.line}"),
                stacklevel=2,
            )
        retype(op, weights_of(ctx), f64, f32)
        for each in ops:
            narrow_dtypes(each)


def is_double(type: Attribute) -> bool:
    return isinstance(type, VTensorType) and type.element_type == f64


def narrow_dtypes(op: AtenOp) -> None:
    """Replace the dtype float64 among the arguments of `op` by float32."""
    for index, argument in enumerate(op.schema.arguments):
        if argument.type.rstrip("?") != "ScalarType":
            continue
        match op.operands[index].owner:
            case ConstantIntOp() as number if number.value.value.data == FLOAT64:
                narrow = ConstantIntOp(FLOAT32)
                Rewriter.insert_op(narrow, InsertPoint.before(op))
                op.operands[index] = narrow.result
            case _:
                pass
