"""Linalg ops that loop over elements of one result, and may share their loops."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from xdsl.dialects import memref
from xdsl.dialects.linalg import ops as linalg
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap

from padc.passes.buffers_to_llvm.buffer_descriptor import BufferDescriptor, Value
from padc.passes.buffers_to_llvm.llvm_builder import LlvmBuilder, Size
from padc.passes.buffers_to_llvm.loops import Loop, ordered
from padc.passes.buffers_to_llvm.op_loops import captured, loops_of
from padc.passes.buffers_to_llvm.products.kernel_choice import multiplied_type
from padc.passes.buffers_to_llvm.transpositions import transposition_of


@dataclass(frozen=True)
class Access:
    """A buffer that an op reads or writes in each step of its loops."""

    buffer: BufferDescriptor
    map: AffineMap
    writes: bool

    def dimension(self, loop: int) -> int | None:
        """The dimension whose index is the number of `loop`, which no other uses."""
        used = [
            place
            for place, expr in enumerate(self.map.results)
            if loop in expr.used_dims()
        ]
        match used:
            case [place] if isinstance(self.map.results[place], AffineDimExpr):
                return place
            case _:
                return None

    def along(self, loop: int) -> Hashable | None:
        """
        Which elements each step of `loop` touches.

        Steps of two ops touch different elements of one memory if this is equal for
        both, unless the steps have the same number. None if that cannot be told.
        """
        if (place := self.dimension(loop)) is None:
            return None
        x = self.buffer
        return x.frame, place, x.places[place], x.spacing[place]


@dataclass(frozen=True)
class LoopedOp:
    """An op that computes each element of one buffer, or part of it."""

    op: LinalgStructuredOperation
    values: Mapping[SSAValue, Value]
    """The values that it uses."""
    loops: Sequence[Loop]
    """One for each of its dimensions."""
    firsts: Sequence[Size]
    """The offset of the first element of each operand."""

    @property
    def output(self) -> BufferDescriptor:
        (output,) = self.op.outputs
        buffer = self.values[output]
        assert isinstance(buffer, BufferDescriptor)
        return buffer

    @cached_property
    def accesses(self) -> Sequence[Access]:
        """Its operands that are buffers."""
        inputs = len(self.op.inputs)
        maps = self.op.get_indexing_maps()
        return [
            Access(buffer, map.data, place >= inputs)
            for place, (x, map) in enumerate(zip(self.op.operands, maps, strict=True))
            if isinstance(buffer := self.values[x], BufferDescriptor)
        ]

    @property
    def own(self) -> list[BufferDescriptor]:
        """Its operands in the memory that it writes."""
        memory = self.output.memory
        return [x.buffer for x in self.accesses if x.buffer.memory is memory]

    def may_be_outer(self, dim: int) -> bool:
        """Whether the loop along `dim` need not be the innermost one to be fast."""
        if not longer(self.loops[dim + 1 :]):
            return True
        return ordered(longer(self.loops), 1)[-1].dims != (dim,)

    def term_of(self, other: LoopedOp) -> SSAValue | None:
        """
        The argument of its body for what `other` stores, element by element.

        None if it reads other elements of that memory too, which may be stored later.
        """
        (stored,) = other.op.outputs
        *_, written = other.op.get_indexing_maps()
        found: list[SSAValue] = []
        for x, map, arg in zip(
            self.op.inputs, self.op.get_indexing_maps(), self.op.body.block.args
        ):
            if x is stored and map == written:
                found.append(arg)
            elif self.reads(x, other.output.memory):
                return None
        return found[0] if found else None

    def reads(self, x: SSAValue, memory: SSAValue) -> bool:
        """Whether an operand is in this memory."""
        buffer = self.values[x]
        return isinstance(buffer, BufferDescriptor) and buffer.memory is memory

    def starts_from(self, other: LoopedOp) -> bool:
        """Whether `other` writes all of the result before, and reads no buffer."""
        return (
            other.op.outputs[0] is self.op.outputs[0]
            and other.op.body.block.args[-1].first_use is None
            and len(other.accesses) == 1
        )


class Move(LoopedOp):
    """An op that writes each element of part of a buffer once."""

    @property
    def source(self) -> Value:
        """What it writes: a buffer if it copies, a scalar if it fills."""
        return self.values[self.op.operands[0]]


def copies(op: LinalgStructuredOperation) -> bool:
    """Whether each element of the only output is the element of the only input."""
    first = op.body.block.first_op
    return (
        isinstance(first, linalg.YieldOp)
        and len(op.operands) == 2
        and list(first.operands) == [op.body.block.args[0]]
    )


def looped_op(
    op: LinalgStructuredOperation, values: Mapping[SSAValue, Value], main: LlvmBuilder
) -> LoopedOp | None:
    """`op` with its loops, which it may share with others; None for other ops."""
    if len(op.outputs) != 1 or any(
        isinstance(inner, linalg.IndexOp | memref.LoadOp) for inner in op.body.walk()
    ):
        return None
    used = {x: values[x] for x in (*op.operands, *captured(op))}
    operands = [used[x] for x in op.operands]
    loops, firsts = loops_of(op, operands, main)
    if transposition_of(op, operands, longer(loops)) is not None:
        return None
    if any(loop.reduces for loop in loops):
        writes_often = any(
            loop.steps[-1] == 0 and not loop.reduces for loop in longer(loops)
        )
        if writes_often or multiplied_type(op) is not None:
            return None
        return LoopedOp(op, used, loops, firsts)
    move = Move(op, used, loops, firsts)
    identity = AffineMap.identity(len(loops))
    memory = move.output.memory
    # No loop is that of another op then: the result has all of them.
    if any(x.buffer.memory is memory and x.map != identity for x in move.accesses):
        return None
    order = [loop.dims for loop in ordered(longer(loops), 1)]
    return move if order == sorted(order) else None


def longer(loops: Sequence[Loop]) -> list[Loop]:
    """The loops that may have more than one step."""
    return [loop for loop in loops if loop.count != 1]
