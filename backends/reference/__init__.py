"""
The reference interpreter: what a program at the `torch` or `tcp` level computes.

Every pass and every other backend is tested against this oracle. PyTorch defines what
an ATen op means, `padc.backends.reference.tcp` what a `tcp` op means. It is written to
be read, and optimises nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import torch
from xdsl.dialects import arith, func, tensor
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    FloatAttr,
    IntegerAttr,
    ModuleOp,
    TensorType,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.traits import SymbolTable
from xdsl.utils.hints import isa

from padc.backends.reference import tcp
from padc.backends.reference.tcp import Evaluator, Value
from padc.errors import (
    InvalidProgramError,
    Problem,
    SourceLocation,
    UnsupportedError,
    UsageError,
)
from padc.ir import torch as torch_dialect
from padc.ir.torch.calls import (
    TorchRefusalError,
    applied,
    call_checked,
    function_named,
)
from padc.ir.torch.tensors import torch_dtype, weight_tensor
from padc.ir.weights import Weights


def run(
    module: ModuleOp,
    *inputs: Value,
    weights: Weights | None = None,
    entry: str = "main",
    is_trusted: bool = True,
) -> tuple[torch.Tensor, ...]:
    """
    Evaluate function `entry` of `module` on tensors of any dtype.

    An input of type index is an int. `weights` holds what `dense_resource<...>` names.
    A module that is not trusted may have ops of PyTorch with any operands: those that
    PyTorch's kernels would not check are refused.
    Raises `InvalidProgramError` if the module does not have the function or a weight is
    missing, `UsageError` if the inputs do not fit or an op refuses its operands, and
    `UnsupportedError` for ops of other levels.
    """
    function = SymbolTable.lookup_symbol(module, entry)
    if not isinstance(function, func.FuncOp):
        raise InvalidProgramError(f"the module has no function @{entry} to run")
    _check_inputs(function, inputs)
    unknown = [op for op in function.body.walk() if not _is_known(op)]
    if unknown:
        raise UnsupportedError(
            [
                Problem(
                    f"the reference cannot run '{op.name}'",
                    SourceLocation.of(op.location),
                    "run the module as it is before the pass that made this op",
                )
                for op in unknown
            ]
        )
    values: dict[SSAValue, Value] = dict(zip(function.args, inputs, strict=True))
    call = _call_aten if is_trusted else call_checked
    running = _Run(values, Weights() if weights is None else weights, call)
    results = running.block(function.body.block)
    if not isinstance(function.body.block.last_op, func.ReturnOp):
        raise InvalidProgramError(f"@{entry} does not return")
    return tuple(results)


@dataclass(frozen=True)
class _Run:
    """One evaluation of a function."""

    values: dict[SSAValue, Value]
    weights: Weights
    call: Callable[[torch_dialect.AtenOp, Sequence[Value]], Sequence[Value]]
    """Computes an op of PyTorch."""

    def block(self, block: Block) -> Sequence[Value]:
        """Run the ops of a block; returns the operands of the last one."""
        operands: Sequence[Value] = []
        for op in block.ops:
            operands = [self.values[operand] for operand in op.operands]
            if isinstance(op, TERMINATORS):
                break
            try:
                results = self.evaluate(op, operands)
            # PyTorch and the checks of pads raise these for sizes known only at run
            # time.
            except (ValueError, IndexError, RuntimeError, TorchRefusalError) as error:
                is_aten = isinstance(op, torch_dialect.AtenOp)
                name = f"torch.{op.schema.name}" if is_aten else op.name
                raise UsageError(
                    f"'{name}': {error}", location=SourceLocation.of(op.location)
                ) from error
            self.values.update(zip(op.results, results, strict=True))
        return operands

    def loop(self, op: torch_dialect.LoopOp) -> Sequence[Value]:
        block = op.body.block
        most, condition, *carried = (self.values[operand] for operand in op.operands)
        number = 0
        while condition and number < most:
            self.values.update(zip(block.args, [number, *carried], strict=True))
            condition, *carried = self.block(block)
            number += 1
        return carried

    def evaluate(self, op: Operation, operands: Sequence[Value]) -> Sequence[Value]:
        match op:
            case torch_dialect.IfOp():
                region = op.on_true if operands[0] else op.on_false
                return self.block(region.block)
            case torch_dialect.LoopOp():
                return self.loop(op)
            case torch_dialect.AtenOp():
                if op.schema.name == "aten.view":  # Strides may not be the model's.
                    operands = [operands[0].contiguous(), *operands[1:]]
                return self.call(op, operands)
            case torch_dialect.LiteralOp() | arith.ConstantOp():
                return [_constant(op.value, self.weights)]
            case _:
                return EVALUATORS[type(op)](op, operands)


def _check_inputs(function: func.FuncOp, inputs: Sequence[Value]) -> None:
    """Raise `UsageError` unless number, dtypes and sizes fit `function`."""
    if len(inputs) != len(function.args):
        raise UsageError(
            f"@{function.sym_name.data} takes {len(function.args)} inputs, "
            f"got {len(inputs)}"
        )
    for i, (argument, value) in enumerate(zip(function.args, inputs, strict=True)):
        type = argument.type
        if not isinstance(type, TensorType | torch_dialect.VTensorType):
            continue
        type = cast(TensorType[Attribute] | torch_dialect.VTensorType, type)
        dtype, shape = torch_dtype(type.element_type), type.get_shape()
        if (
            value.dtype != dtype
            or value.dim() != len(shape)
            or any(
                expected not in (DYNAMIC_INDEX, size)
                for expected, size in zip(shape, value.shape, strict=True)
            )
        ):
            raise UsageError(
                f"input {i} of @{function.sym_name.data} is {type}, "
                f"got {value.dtype} of shape {list(value.shape)}"
            )


def _is_known(op: Operation) -> bool:
    known = (
        torch_dialect.AtenOp,
        torch_dialect.LiteralOp,
        torch_dialect.IfOp,
        torch_dialect.LoopOp,
        arith.ConstantOp,
        *TERMINATORS,
    )
    return isinstance(op, known) or type(op) in EVALUATORS


def _call_aten(op: torch_dialect.AtenOp, operands: Sequence[Value]) -> Sequence[Value]:
    return applied(function_named(op.schema.name), op, operands)


def _constant(value: Attribute, weights: Weights) -> Value:
    match value:
        case DenseResourceAttr() | DenseIntOrFPElementsAttr():
            array, type = weights.array(value), value.get_type()
            assert isa(type, TensorType[Attribute])
            return weight_tensor(array, type.element_type)
        case FloatAttr() | IntegerAttr():
            return value.value.data
        case _:
            raise InvalidProgramError(f"no value for constant {value}")


TERMINATORS = (
    func.ReturnOp,
    torch_dialect.IfYieldOp,
    torch_dialect.LoopConditionOp,
)

EVALUATORS: Mapping[type[Operation], Evaluator] = {
    arith.IndexCastOp: lambda op, args: args,
    arith.FPToSIOp: lambda op, args: [int(args[0])],
    arith.MuliOp: lambda op, args: [args[0] * args[1]],
    arith.MulfOp: lambda op, args: [args[0] * args[1]],
    arith.SIToFPOp: lambda op, args: [float(args[0])],
    **tcp.EVALUATORS,
    tensor.DimOp: lambda op, args: [args[0].shape[args[1]]],
    torch_dialect.BindSymbolicShapeOp: lambda op, args: [],
    torch_dialect.ConstantBoolOp: lambda op, args: [bool(op.value.value.data)],
    torch_dialect.ConstantDeviceOp: lambda op, args: [torch.device(op.value.data)],
    torch_dialect.ConstantFloatOp: lambda op, args: [op.value.value.data],
    torch_dialect.ConstantIntOp: lambda op, args: [op.value.value.data],
    torch_dialect.ConstantNoneOp: lambda op, args: [None],
    torch_dialect.ConstantStrOp: lambda op, args: [op.value.data],
    torch_dialect.FromBuiltinTensorOp: lambda op, args: args,
    torch_dialect.ListConstructOp: lambda op, args: [list(args)],
    torch_dialect.ListUnpackOp: lambda op, args: args[0],
    # Symbols only bind shapes, which tensors have here.
    torch_dialect.SymbolicIntOp: lambda op, args: [None],
    torch_dialect.ToBuiltinTensorOp: lambda op, args: args,
    torch_dialect.ToI64Op: lambda op, args: args,
    torch_dialect.TupleConstructOp: lambda op, args: [tuple(args)],
}
