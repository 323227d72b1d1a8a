"""
The arguments, constants and results of a Core ML program, as builtin tensors.

They have PyTorch's tensor types before, and none remains after.
"""

from __future__ import annotations

from typing import Any

from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    DictionaryAttr,
    ModuleOp,
    StringAttr,
    UnrealizedConversionCastOp,
)
from xdsl.dialects.func import FuncOp
from xdsl.rewriter import Rewriter
from xdsl.transforms.dead_code_elimination import region_dce

from padc.ir.torch import (
    BindSymbolicShapeOp,
    FromBuiltinTensorOp,
    LiteralOp,
    ToBuiltinTensorOp,
    VTensorType,
    builtin_type,
)
from padc.ir.torch.size_ranges import ATTRIBUTE, bound_ranges


def lower_signatures(module: ModuleOp) -> None:
    """Give arguments, constants and results of functions builtin tensor types."""
    for op in list(module.walk()):
        match op:
            case FuncOp() if not op.is_declaration:
                lower_arguments(op)
            case LiteralOp():
                Rewriter.replace_op(op, constant_of(op))
            case BindSymbolicShapeOp():
                Rewriter.erase_op(op)
            case (
                ToBuiltinTensorOp()
                | FromBuiltinTensorOp()
                | UnrealizedConversionCastOp()
            ):
                Rewriter.replace_op(op, [], op.operands)
            case _:
                pass
    region_dce(module.body)
    for op in module.walk():
        if isinstance(op, FuncOp) and not op.is_declaration:
            op.update_function_type()


def lower_arguments(function: FuncOp) -> None:
    """Builtin types, and the ranges of dynamic sizes as attributes."""
    attributes = function.arg_attrs or ArrayAttr(
        DictionaryAttr({}) for _ in function.args
    )
    entries = [dict(each.data) for each in attributes]
    for argument, entry in zip(list(function.args), entries, strict=True):
        if ranges := bound_ranges(argument):
            entry[ATTRIBUTE] = ArrayAttr(StringAttr(str(each)) for each in ranges)
        if isinstance(type := argument.type, VTensorType):
            Rewriter.replace_value_with_new_type(argument, builtin_type(type))
    function.arg_attrs = ArrayAttr(map(DictionaryAttr, entries))


def constant_of(op: LiteralOp) -> ConstantOp:
    """The same data as a builtin tensor; the name of a weight stays."""
    assert isinstance(op.result.type, VTensorType)
    value, builtin = op.value, builtin_type(op.result.type)
    if isinstance(value, DenseResourceAttr):
        made = DenseResourceAttr(value.resource_handle, builtin)
    else:
        made = DenseIntOrFPElementsAttr[Any](builtin, value.data)
    constant = ConstantOp(made)
    constant.location = op.location
    return constant
