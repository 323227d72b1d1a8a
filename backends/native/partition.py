"""
Split a program into parts that are compiled and parts that PyTorch runs.

Each part becomes a function. The level of an op is the first at which all of its
operands are available: even levels are compiled, PyTorch runs odd ones. All ops of a
level are one part, so there are as few parts as possible.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.builder import Builder
from xdsl.dialects import func
from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint
from xdsl.traits import SymbolTable

from padc.backends.native.lowered_program import captured
from padc.ir import torch as torch_dialect
from padc.ir.torch import AtenOp, is_any_tensor

SYMBOLS = (torch_dialect.SymbolicIntOp, torch_dialect.BindSymbolicShapeOp)
ARGUMENT = -1
"""The level of the arguments, at which PyTorch may run ops too."""


@dataclass(eq=False)
class Part:
    """A function that computes values of the program from others."""

    level: int
    module: ModuleOp
    inputs: list[int]
    """The numbers of the values that it takes."""
    outputs: list[int]
    """The numbers of the values that it computes."""

    @property
    def is_native(self) -> bool:
        """Whether the part is compiled."""
        return self.level % 2 == 0


@dataclass(frozen=True)
class Partition:
    """The parts in the order of execution; values of the program have numbers."""

    parts: Sequence[Part]
    inputs: Sequence[int]
    outputs: Sequence[int]
    values: Sequence[SSAValue]
    """The value of each number."""


def is_recomputed(op: Operation) -> bool:
    """Whether each part that uses `op` computes it again: constants, sizes, casts."""
    if not op.results:
        return False  # An assertion.
    if isinstance(op, torch_dialect.LiteralOp | torch_dialect.ToBuiltinTensorOp):
        return True
    if isinstance(op, torch_dialect.FromBuiltinTensorOp):
        return True
    if op.regions or any(map(is_any_tensor, op.result_types)):
        return False
    if not isinstance(op, AtenOp):
        return True
    # Of the ops on tensors, only those that read a size are cheap.
    takes_tensor = any(map(is_any_tensor, op.operand_types))
    return not takes_tensor or op.schema.name in ("aten.size.int", "aten.numel")


def partition(
    module: ModuleOp, is_native: Callable[[Operation], bool], entry: str = "main"
) -> Partition:
    """
    Split function `entry` of `module`, at the torch and tcp levels, into parts.

    `is_native` tells for an op that computes tensors whether it can be compiled.
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
            if not is_recomputed(op):
                by_level.setdefault(level, []).append(op)
        returned = self.block.last_op
        assert returned is not None
        extra = [x for x in returned.operands if self.is_recomputed(x)]
        for x in extra:
            by_level.setdefault(self.levels[x], [])
        parts = [self.part(level, by_level[level], extra) for level in sorted(by_level)]
        return Partition(
            parts,
            [self.number(arg) for arg in self.block.args],
            [self.number(x) for x in returned.operands],
            list(self.numbers),
        )

    def number(self, value: SSAValue) -> int:
        """The number of `value`; the next free one for a new value."""
        return self.numbers.setdefault(value, len(self.numbers))

    def is_recomputed(self, value: SSAValue) -> bool:
        """Whether each part that uses `value` computes it again."""
        return isinstance(value.owner, Operation) and is_recomputed(value.owner)

    def level_of(self, op: Operation) -> int:
        """The first level that runs such ops and has all operands of `op`."""
        level = max([ARGUMENT, *(self.levels[operand] for operand in captured(op))])
        if is_recomputed(op) or (level % 2 == 0) == self.is_native(op):
            return level
        return level + 1

    def part(
        self, level: int, ops: Sequence[Operation], extra: Sequence[SSAValue]
    ) -> Part:
        """The function that computes `ops`, and the values of `extra` at its level."""
        block = Block()
        builder = Builder(InsertPoint.at_end(block))
        values: dict[SSAValue, SSAValue] = {}
        inputs: list[int] = []

        def here(value: SSAValue) -> SSAValue:
            """`value` in this part: computed, recomputed, or an argument."""
            if value not in values:
                if self.is_recomputed(value):
                    assert isinstance(value.owner, Operation)
                    clone(value.owner)
                else:
                    values[value] = block.insert_arg(value.type, len(block.args))
                    values[value].name_hint = value.name_hint
                    inputs.append(self.number(value))
            return values[value]

        def clone(op: Operation) -> None:
            for operand in captured(op):
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
        """Whether the part of `level`, which computes `value`, has to return it."""
        for use in value.uses:
            user = self.block.find_ancestor_op_in_block(use.operation)
            assert user is not None
            if isinstance(user, func.ReturnOp):
                # A recomputed value that is returned is computed with its operands.
                if not self.is_recomputed(value) or self.levels[value] != level:
                    return True
            elif is_recomputed(user):
                if any(self.leaves(result, level) for result in user.results):
                    return True
            elif not isinstance(user, SYMBOLS) and self.level_of(user) != level:
                return True
        return False
