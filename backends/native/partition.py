"""
Parts of a program that are compiled, and parts that PyTorch runs between them.

A part is a function of its own. It runs as soon as all that it takes is there, so that
there are as few as can be: compiled parts are at even levels, the others at odd ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.builder import Builder
from xdsl.dialects import func
from xdsl.dialects.builtin import FunctionType, ModuleOp, TensorType
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint
from xdsl.traits import SymbolTable
from xdsl.utils.hints import isa

from padc.ir import torch as torch_dialect
from padc.ir.torch import AtenOp, VTensorType

SYMBOLS = (torch_dialect.SymbolicIntOp, torch_dialect.BindSymbolicShapeOp)
ARGUMENT = -1
"""The level of what is there from the start; PyTorch may run something at it."""


@dataclass(eq=False)
class Part:
    """A function that takes and makes some values of the program."""

    level: int
    module: ModuleOp
    inputs: list[int]
    """Which values of the program it takes, by their number."""
    outputs: list[int]
    """Which values it makes."""

    @property
    def is_native(self) -> bool:
        return self.level % 2 == 0


@dataclass(frozen=True)
class Partition:
    """Parts in the order to run them in; the program's values have numbers."""

    parts: Sequence[Part]
    inputs: Sequence[int]
    outputs: Sequence[int]


def is_tensor(value: SSAValue) -> bool:
    return isinstance(value.type, VTensorType) or isa(value.type, TensorType[Attribute])


def is_cheap(op: Operation) -> bool:
    """Whether `op` is made anew wherever it is used: constants, sizes, casts."""
    if isinstance(op, torch_dialect.LiteralOp | torch_dialect.ToBuiltinTensorOp):
        return True
    if isinstance(op, torch_dialect.FromBuiltinTensorOp):
        return True
    if any(is_tensor(result) for result in op.results):
        return False
    if not isinstance(op, AtenOp):
        return True
    # Of a tensor only sizes are cheap.
    takes_tensor = any(is_tensor(x) for x in op.operands)
    return not takes_tensor or op.schema.name in ("aten.size.int", "aten.numel")


def partition(
    module: ModuleOp, is_native: Callable[[Operation], bool], entry: str = "main"
) -> Partition:
    """
    Split function `entry` of `module`, at the levels of torch and tcp, into parts.

    `is_native` says which ops that compute tensors can be compiled.
    """
    function = SymbolTable.lookup_symbol(module, entry)
    assert isinstance(function, func.FuncOp)
    return _Partitioner(function.body.block, is_native).run()


class _Partitioner:
    def __init__(self, block: Block, is_native: Callable[[Operation], bool]):
        self.block = block
        self.is_native = is_native
        self.levels: dict[SSAValue, int] = dict.fromkeys(block.args, ARGUMENT)
        self.numbers: dict[SSAValue, int] = {}

    def run(self) -> Partition:
        by_level: dict[int, list[Operation]] = {}
        for op in self.block.ops:
            if isinstance(op, (func.ReturnOp, *SYMBOLS)):
                continue
            level = self.level_of(op)
            self.levels.update(dict.fromkeys(op.results, level))
            if not is_cheap(op):
                by_level.setdefault(level, []).append(op)
        returned = self.block.last_op
        assert returned is not None
        extra = [x for x in returned.operands if self.is_made_anew(x)]
        for x in extra:
            by_level.setdefault(self.levels[x], [])
        parts = [self.part(level, by_level[level], extra) for level in sorted(by_level)]
        return Partition(
            parts,
            [self.number(arg) for arg in self.block.args],
            [self.number(x) for x in returned.operands],
        )

    def number(self, value: SSAValue) -> int:
        return self.numbers.setdefault(value, len(self.numbers))

    def is_made_anew(self, value: SSAValue) -> bool:
        return isinstance(value.owner, Operation) and is_cheap(value.owner)

    def level_of(self, op: Operation) -> int:
        """The first level at which all operands of `op` are there, and it can run."""
        level = max([ARGUMENT, *(self.levels[operand] for operand in op.operands)])
        if is_cheap(op) or (level % 2 == 0) == self.is_native(op):
            return level
        return level + 1

    def part(
        self, level: int, ops: Sequence[Operation], extra: Sequence[SSAValue]
    ) -> Part:
        block = Block()
        builder = Builder(InsertPoint.at_end(block))
        values: dict[SSAValue, SSAValue] = {}
        inputs: list[int] = []

        def here(value: SSAValue) -> SSAValue:
            """`value` in this part: computed, made anew, or an argument."""
            if value not in values:
                if self.is_made_anew(value):
                    assert isinstance(value.owner, Operation)
                    clone(value.owner)
                else:
                    values[value] = block.insert_arg(value.type, len(block.args))
                    values[value].name_hint = value.name_hint
                    inputs.append(self.number(value))
            return values[value]

        def clone(op: Operation) -> None:
            for operand in op.operands:
                here(operand)
            builder.insert(op.clone(values))

        for op in ops:
            clone(op)
        made = [
            result for op in ops for result in op.results if self.leaves(result, level)
        ]
        made += [x for x in dict.fromkeys(extra) if self.levels[x] == level]
        results = [here(x) for x in made]
        builder.insert(func.ReturnOp(*results))
        type = FunctionType.from_lists(
            list(block.arg_types), [result.type for result in results]
        )
        module = ModuleOp([func.FuncOp("main", type, Region(block))])
        return Part(level, module, inputs, [self.number(x) for x in made])

    def leaves(self, value: SSAValue, level: int) -> bool:
        """Whether `value` is used outside of the part of `level`, which makes it."""
        for use in value.uses:
            user = use.operation
            if isinstance(user, func.ReturnOp):
                # What is made anew to be returned is made where its operands are.
                if not self.is_made_anew(value) or self.levels[value] != level:
                    return True
            elif is_cheap(user):
                if any(self.leaves(result, level) for result in user.results):
                    return True
            elif not isinstance(user, SYMBOLS) and self.level_of(user) != level:
                return True
        return False
