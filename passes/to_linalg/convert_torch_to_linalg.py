"""
Lower ATen ops to upstream's tensor ops, and functions to functions of tensors.

Functions take signless tensors and 64-bit integers. After its own arguments, a function
takes the weights that it uses, each with its name in the attribute `padc.weight`: no
weight is a constant in code.
"""

from __future__ import annotations

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseResourceAttr,
    DictionaryAttr,
    FunctionType,
    ModuleOp,
    StringAttr,
    UnrealizedConversionCastOp,
    i64,
)
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.transforms.canonicalize import CanonicalizePass
from xdsl.transforms.dead_code_elimination import region_dce
from xdsl.utils.hints import isa

from padc.errors import Problem, UnsupportedError
from padc.ir.main_function import body_of, functions_of
from padc.ir.tcp import AnyTensor
from padc.ir.torch import (
    AtenOp,
    BindSymbolicShapeOp,
    FromBuiltinTensorOp,
    IntType,
    LiteralOp,
    SymbolicIntOp,
    ToBuiltinTensorOp,
    ToI64Op,
    VTensorType,
    builtin_type,
)
from padc.ir.weights import Weights, weights_of
from padc.passes.common.linalg_builder import (
    LinalgBuilder,
    signless_type,
)
from padc.passes.common.lowering import lower_all
from padc.passes.to_linalg.aten.lower_op import in_torch, lower_op


class ConvertTorchToLinalgPass(ModulePass):
    """Lower ATen ops, and the rest of the torch dialect, to upstream's ops."""

    name = "convert-torch-to-linalg"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        lower_all(op, AtenOp, lower_op, cast=in_torch)
        # Canonicalization creates literals, so it runs before these become arguments.
        CanonicalizePass().apply(ctx, op)
        weights = weights_of(ctx)
        for function in functions_of(op):
            close(function, weights)


def close(function: func.FuncOp, weights: Weights) -> None:
    """Make the values of `function` builtin tensors, and its weights arguments."""
    block = body_of(function)
    attributes = list(function.arg_attrs or [DictionaryAttr({}) for _ in block.args])
    # Symbols are there only to be bound to sizes.
    for kind in (BindSymbolicShapeOp, SymbolicIntOp):
        for op in list(block.ops):
            if isinstance(op, kind):
                erase_symbol(op)
    region_dce(function.body)
    for op in list(block.ops):
        if isinstance(op, LiteralOp):
            arg = block.insert_arg(op.results[0].type, len(block.args))
            arg.name_hint = op.results[0].name_hint
            name = StringAttr(weight_name(op, weights))
            attributes.append(DictionaryAttr({"padc.weight": name}))
            op.results[0].replace_all_uses_with(arg)
            Rewriter.erase_op(op)
    for arg in list(block.args):
        retype(block, arg)
    for op in list(block.ops):
        if isinstance(op, ToI64Op):
            Rewriter.replace_op(op, [], [as_i64(op.operands[0])])
    returned = block.last_op
    assert isinstance(returned, func.ReturnOp)
    build = LinalgBuilder(Builder(InsertPoint.before(returned)))
    results = [as_tensor(build, value) for value in returned.operands]
    Rewriter.replace_op(returned, func.ReturnOp(*results))
    function.arg_attrs = ArrayAttr(attributes)
    function.function_type = FunctionType.from_lists(
        list(block.arg_types), [result.type for result in results]
    )
    region_dce(function.body)


def erase_symbol(op: Operation) -> None:
    """Erase an op that only tells sizes; UnsupportedError if it is a number, too."""
    if any(result.first_use is not None for result in op.results):
        raise UnsupportedError([Problem(f"a use of '{op.name}' as a number")])
    Rewriter.erase_op(op)


def weight_name(op: LiteralOp, weights: Weights) -> str:
    """The name that the data of a literal has among the weights."""
    if isinstance(op.value, DenseResourceAttr):
        return op.value.resource_handle.data
    return weights.add("literal", weights.array(op.value))


def retype(block: Block, arg: BlockArgument) -> None:
    """Make an argument of the torch dialect a tensor, or an integer."""
    if isinstance(arg.type, IntType):
        Rewriter.replace_value_with_new_type(arg, i64)
    if not isinstance(type := arg.type, VTensorType):
        return
    wanted = builtin_type(type)
    new = Rewriter.replace_value_with_new_type(arg, signless_type(wanted))
    first = block.first_op
    assert first is not None
    build = LinalgBuilder(Builder(InsertPoint.before(first)))
    x = new
    if x.type != wanted:
        x = build.insert(UnrealizedConversionCastOp.get([x], [wanted]))
    for use in list(new.uses):
        if isinstance(use.operation, ToBuiltinTensorOp):
            Rewriter.replace_op(use.operation, [], [x])


def as_i64(value: SSAValue) -> SSAValue:
    """An integer of the torch dialect as the i64 that it was cast from."""
    if isinstance(value.owner, UnrealizedConversionCastOp):
        return value.owner.inputs[0]
    return value


def as_tensor(build: LinalgBuilder, value: SSAValue) -> SSAValue:
    """A value that a function returns, as a signless tensor or an integer."""
    if isinstance(value.type, IntType):
        return as_i64(value)
    if isinstance(value.owner, FromBuiltinTensorOp):
        value = value.owner.operand
    return build.signless(value) if isa(value.type, AnyTensor) else value
