"""A program whose ATen ops are lowered, each once, where a lowering exists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.builder import Builder
from xdsl.dialects import func
from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint

from padc.errors import Problem
from padc.ir.main_function import main
from padc.ir.torch import (
    AtenOp,
    BoolType,
    FloatType,
    IfOp,
    LoopOp,
    NumberType,
    is_any_tensor,
)
from padc.passes.common.lowering import Replacement, lower_ops, problem
from padc.passes.to_linalg.aten.lower_op import in_torch, lower_op


@dataclass(frozen=True)
class LoweredProgram:
    """The native form of a program at the torch and tcp levels."""

    problems: Mapping[Operation, Problem]
    """The ATen ops of the program that cannot be lowered, each with the reason."""
    values: Mapping[SSAValue, SSAValue]
    """The value in the native form for each value of the program."""

    def function(
        self, inputs: Sequence[SSAValue], outputs: Sequence[SSAValue]
    ) -> ModuleOp:
        """A module whose function `main` computes values of the program from others."""
        block = Block(arg_types=[x.type for x in inputs])
        mapped: dict[SSAValue, SSAValue] = {}
        for x, arg in zip(inputs, block.args, strict=True):
            arg.name_hint = x.name_hint
            mapped[self.values[x]] = arg
        wanted = [self.values[x] for x in outputs]
        builder = Builder(InsertPoint.at_end(block))
        for op in slice_of(wanted, mapped):
            builder.insert(op.clone(mapped))
        results = [mapped[x] for x in wanted]
        builder.insert(func.ReturnOp(*results))
        type = FunctionType.from_lists(
            list(block.arg_types), [result.type for result in results]
        )
        return ModuleOp([func.FuncOp("main", type, Region(block))])


def lower_program(module: ModuleOp) -> LoweredProgram:
    """Lower the ATen ops of a copy of `module`."""
    values: dict[SSAValue, SSAValue] = {}
    copy = module.clone(values)
    originals = dict[Operation, Operation](
        zip(aten_ops(copy), aten_ops(module), strict=True)
    )
    outcome = lower_ops(copy, AtenOp, lower_outside, cast=in_torch)
    for value, copied in values.items():
        # A replacement may be a value that was replaced itself.
        while copied in outcome.replaced:
            copied = outcome.replaced[copied]
        values[value] = copied
    problems = {originals[op]: each for op, each in outcome.problems.items()}
    problems |= {
        op: problem(op, "padc compiles no branches and loops; PyTorch runs it", None)
        for op in main(module).body.block.ops
        if isinstance(op, IfOp | LoopOp)
    }
    for op, type in takers_of_floats(module).items():
        text = f"it takes {type}, read from a tensor, which machine code does not"
        problems.setdefault(op, problem(op, text, None))
    return LoweredProgram(problems, values)


def takers_of_floats(module: ModuleOp) -> Mapping[AtenOp, str]:
    """The ops whose operands depend on a float or bool read from a tensor: its type."""
    takers: dict[AtenOp, str] = {}
    found: dict[SSAValue, str] = {}
    for op in module.walk():
        type = next((found[x] for x in op.operands if x in found), None)
        makes_tensors = any(map(is_any_tensor, op.result_types))
        if type is not None and makes_tensors and isinstance(op, AtenOp):
            takers[op] = type
        reads = any(map(is_any_tensor, op.operand_types))
        for result in op.results:
            if reads and isinstance(result.type, FloatType | BoolType | NumberType):
                found[result] = str(result.type)
            elif type is not None and not is_any_tensor(result.type):
                found[result] = type
    return takers


def lower_outside(op: AtenOp) -> Replacement:
    """Lower an op, unless it is in a branch or a loop, which PyTorch runs."""
    return None if isinstance(op.parent_op(), IfOp | LoopOp) else lower_op(op)


def aten_ops(module: ModuleOp) -> list[AtenOp]:
    """The ATen ops of `module`, in program order."""
    return [op for op in module.walk() if isinstance(op, AtenOp)]


def slice_of(
    wanted: Sequence[SSAValue], given: Mapping[SSAValue, SSAValue]
) -> Sequence[Operation]:
    """The ops that compute `wanted` from `given`, in program order."""
    found: set[Operation] = set()
    pending = [*wanted]
    while pending:
        value = pending.pop()
        op = value.owner
        if value in given or not isinstance(op, Operation) or op in found:
            continue
        found.add(op)
        pending += captured(op)
    if not found:
        return []
    block = next(iter(found)).parent
    assert block is not None
    return [op for op in block.ops if op in found]


def captured(op: Operation) -> list[SSAValue]:
    """The values that `op` and the ops in its regions take from outside."""
    if not op.regions:
        return [*op.operands]
    inner = set(op.walk())
    return [
        operand
        for each in inner
        for operand in each.operands
        if (
            operand.owner not in inner
            if isinstance(operand.owner, Operation)
            else operand.owner.parent_op() not in inner
        )
    ]
