"""
Moves: ops that write each element of part of a buffer once.

Those that follow each other and write to one buffer can share loops (`loop_fusion`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects import memref
from xdsl.dialects.linalg import ops as linalg
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineMap

from padc.passes.buffers_to_llvm.buffer_descriptor import BufferDescriptor, Value
from padc.passes.buffers_to_llvm.llvm_builder import LlvmBuilder, Size
from padc.passes.buffers_to_llvm.loops import Loop, ordered
from padc.passes.buffers_to_llvm.op_loops import captured, loops_of


@dataclass(frozen=True)
class Move:
    """An op that writes each element of part of a buffer once."""

    op: LinalgStructuredOperation
    values: Mapping[SSAValue, Value]
    """The values that it uses."""
    loops: Sequence[Loop]
    """One for each dimension of the part."""
    firsts: Sequence[Size]
    """The offset of the first element of each operand."""

    @property
    def output(self) -> BufferDescriptor:
        (output,) = self.op.outputs
        buffer = self.values[output]
        assert isinstance(buffer, BufferDescriptor)
        return buffer

    @property
    def source(self) -> Value:
        """What it writes: a buffer if it copies, a scalar if it fills."""
        return self.values[self.op.operands[0]]

    @property
    def own(self) -> list[BufferDescriptor]:
        """Its operands in the memory that it writes."""
        operands = [self.values[x] for x in self.op.operands]
        memory = self.output.memory
        return [
            x
            for x in operands
            if isinstance(x, BufferDescriptor) and x.memory is memory
        ]


def copies(op: LinalgStructuredOperation) -> bool:
    """Whether each element of the only output is the element of the only input."""
    first = op.body.block.first_op
    return (
        isinstance(first, linalg.YieldOp)
        and len(op.operands) == 2
        and list(first.operands) == [op.body.block.args[0]]
    )


def move_of(
    op: LinalgStructuredOperation, values: Mapping[SSAValue, Value], main: LlvmBuilder
) -> Move | None:
    """`op` as a move, which can share loops; None if it is not one."""
    rank = len(op.get_iterator_types())
    if len(op.outputs) != 1 or any(
        isinstance(inner, linalg.IndexOp | memref.LoadOp) for inner in op.body.walk()
    ):
        return None
    used = {x: values[x] for x in (*op.operands, *captured(op)) if x in values}
    loops, firsts = loops_of(op, [used[x] for x in op.operands], main)
    move = Move(op, used, loops, firsts)
    for x, map in zip(op.operands, op.get_indexing_maps(), strict=True):
        buffer = used[x]
        if isinstance(buffer, BufferDescriptor) and buffer.memory is move.output.memory:
            # No loop reduces then: the result has all of them.
            if map.data != AffineMap.identity(rank):
                return None
    order = [loop.dims for loop in ordered(longer(loops), 1)]
    return move if order == sorted(order) else None


def longer(loops: Sequence[Loop]) -> list[Loop]:
    """The loops that may have more than one step."""
    return [loop for loop in loops if loop.count != 1]
