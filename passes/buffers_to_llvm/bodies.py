"""The body of a linalg op: one element of each output, or several at once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import IntegerAttr
from xdsl.dialects.linalg import ops as linalg
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import Operation, SSAValue

from padc.passes.buffers_to_llvm.buffer_descriptor import (
    BufferDescriptor,
    Value,
    dim,
    scalar,
    size,
)
from padc.passes.buffers_to_llvm.kernels import Outline
from padc.passes.buffers_to_llvm.llvm_builder import LlvmBuilder, Size
from padc.passes.buffers_to_llvm.loops import Loop
from padc.passes.buffers_to_llvm.scalars import lower_scalar

Places: TypeAlias = "dict[int | tuple[int, int], SSAValue]"
"""Numbers of loops by dimension, and their quotients by dimension and divisor."""

NONE: Mapping[SSAValue, SSAValue] = {}


Read: TypeAlias = "Callable[[LlvmBuilder, Mapping[SSAValue, Value]], SSAValue]"
"""The element that a load reads; it takes the values of the body before it."""

Keep: TypeAlias = "Callable[[SSAValue, SSAValue], None]"
"""Takes a value of a body, and what it is in LLVM's code."""


@dataclass
class Body:
    """The body of a linalg op, inside a kernel, at some place of its loops."""

    op: LinalgStructuredOperation
    kernel: Outline
    operands: Sequence[Value]
    values: Mapping[SSAValue, Value]
    outputs: int
    jammed: Loop | None = None
    """A loop inside of all others, whose steps are joined."""
    reads: Mapping[memref.LoadOp, Read] = field(
        default_factory=dict["memref.LoadOp", "Read"]
    )
    """What gives the values of these loads."""
    keep: Keep | None = None
    """Takes each value of the body once it is computed."""
    needed: Collection[SSAValue] | None = None
    """The values that are computed; None for all."""

    def elements(
        self, build: LlvmBuilder, offsets: Sequence[Size], places: Places
    ) -> None:
        """Compute the elements of each output of all steps of the jammed loop."""
        for moved, here in self.steps(build, offsets, places):
            self.element(build, moved, here)

    def steps(
        self, build: LlvmBuilder, offsets: Sequence[Size], places: Places
    ) -> Iterator[tuple[Sequence[Size], Places]]:
        """The offsets and places of all steps of the jammed loop, if there is one."""
        if self.jammed is None:
            yield offsets, places
            return
        dim, *_ = self.jammed.dims  # If it is merged, the body uses no numbers.
        for number in range(count(self.jammed)):
            here = {**places, dim: build.value(number)}
            yield self.jammed.moved(build, offsets, number), here

    def element(
        self, build: LlvmBuilder, offsets: Sequence[Size], places: Places
    ) -> None:
        """Compute one element of each output."""
        self.store(build, offsets, self.results(build, offsets, places, {}))

    def results(
        self,
        build: LlvmBuilder,
        offsets: Sequence[Size],
        places: Places,
        given: Mapping[SSAValue, SSAValue],
    ) -> list[SSAValue]:
        """
        The values of the body.

        Elements of operands are loaded, and values of ops are computed, unless `given`.
        """
        values = self.compute(build, offsets, places, given)
        end = self.op.body.block.last_op
        assert isinstance(end, linalg.YieldOp)
        return [scalar(build, values[x]) for x in end.operands]

    def compute(
        self,
        build: LlvmBuilder,
        offsets: Sequence[Size],
        places: Places,
        given: Mapping[SSAValue, SSAValue],
    ) -> Mapping[SSAValue, Value]:
        """All values inside the body, or those that are `needed`."""
        block = self.op.body.block
        self.check(build)
        values = {**self.values, **given}
        for arg, x, offset in zip(block.args, self.operands, offsets, strict=True):
            if not isinstance(x, BufferDescriptor):
                values[arg] = x
            elif arg.first_use is not None and self.computes(arg, given):
                address = build.address(x.pointer, offset, x.element_type)
                values[arg] = x.load(build, address)
        for op in block.ops:
            if op.results and not self.computes(op.results[0], given):
                continue
            match op:
                case linalg.YieldOp():
                    break
                case linalg.IndexOp():
                    values[op.result] = places[op.dim.value.data]
                case arith.DivUIOp() if (key := quotient_of(op)) in places:
                    values[op.result] = places[key]
                case memref.LoadOp():
                    if (read := self.reads.get(op)) is not None:
                        values[op.res] = read(build, values)
                        continue
                    buffer = values[op.memref]
                    assert isinstance(buffer, BufferDescriptor)
                    indices = [size(values[index]) for index in op.indices]
                    address = buffer.element(build, indices)
                    values[op.res] = buffer.load(build, address)
                case memref.DimOp():
                    values[op.result] = dim(values, op)
                case _:
                    args = [scalar(build, values[x]) for x in op.operands]
                    is_sum = self.is_sum(op)
                    value = lower_scalar(build, op, args, is_sum)
                    values[op.results[0]] = value
                    if self.keep is not None:
                        self.keep(op.results[0], value)
        return values

    def computes(self, value: SSAValue, given: Mapping[SSAValue, SSAValue]) -> bool:
        """Whether a value of the body is computed."""
        return value not in given and (self.needed is None or value in self.needed)

    def is_sum(self, op: Operation) -> bool:
        """
        Whether `op` adds to an output, or computes a product that is then added.

        A product of many factors counts as a sum: `op` multiplies an output.
        """
        block = self.op.body.block
        is_sum = isinstance(op, arith.AddfOp | arith.MulfOp) and any(
            x in block.args[-self.outputs :] for x in op.operands
        )
        if is_sum or not isinstance(op, arith.MulfOp):
            return is_sum
        uses = list(op.result.uses)
        return (
            len(uses) == 1
            and isinstance(uses[0].operation, arith.AddfOp)
            and self.is_sum(uses[0].operation)
        )

    def joined(
        self, build: LlvmBuilder, steps: Sequence[tuple[Sequence[Size], Places]]
    ) -> Sequence[SSAValue]:
        """One element of each output, after steps with these offsets and places."""
        outs = self.op.body.block.args[-self.outputs :]
        (first, here), *others = steps
        values = self.results(build, first, here, {})
        for at, here in others:
            given = dict[SSAValue, SSAValue](zip(outs, values, strict=True))
            values = self.results(build, at, here, given)
        return values

    def add(
        self,
        offsets: Sequence[Size],
        sum: SSAValue,
        given: Mapping[SSAValue, SSAValue] = NONE,
    ) -> SSAValue:
        """`sum`, in place of the element of the result, plus one term."""
        given = {**given, self.op.body.block.args[-1]: sum}
        (result,) = self.results(self.kernel.build, offsets, {}, given)
        return result

    def join(
        self, build: LlvmBuilder, op: Operation, found: SSAValue, at: Sequence[Size]
    ) -> None:
        """Join an extreme with the one so far by `op`."""
        old = self.load(build, len(at) - 1, at)
        self.store(build, at, [lower_scalar(build, op, [found, old])])

    def load(self, build: LlvmBuilder, number: int, at: Sequence[Size]) -> SSAValue:
        """Load the element of operand `number`, a buffer, at offset `at[number]`."""
        self.check(build)
        x = self.operands[number]
        assert isinstance(x, BufferDescriptor)
        return x.load(build, build.address(x.pointer, at[number], x.element_type))

    def store(
        self, build: LlvmBuilder, offsets: Sequence[Size], results: Sequence[SSAValue]
    ) -> None:
        """Store one element of each output."""
        for result, x, offset in zip(
            results,
            self.operands[-self.outputs :],
            offsets[-self.outputs :],
            strict=True,
        ):
            assert isinstance(x, BufferDescriptor)
            address = build.address(x.pointer, offset, x.element_type)
            x.store(build, result, address)

    def check(self, build: LlvmBuilder) -> None:
        """Let checks of accesses name the op, if there are any."""
        if build.check is not None:
            build.check = build.check.of(self.op)


def quotient_of(op: arith.DivUIOp) -> tuple[int, int]:
    """The loop whose number `op` divides, and the constant divisor; (-1, 0) if none."""
    match op.lhs.owner, op.rhs.owner:
        case linalg.IndexOp() as index, arith.ConstantOp(value=IntegerAttr() as number):
            return index.dim.value.data, number.value.data
        case _:
            return -1, 0


def count(loop: Loop) -> int:
    """The number of steps of a loop, which is known."""
    assert isinstance(loop.count, int)
    return loop.count
