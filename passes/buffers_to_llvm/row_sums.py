"""Sums of rows, which take first the elements that whole vectors leave."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import llvm
from xdsl.dialects.builtin import AnyFloat, FloatAttr
from xdsl.ir import SSAValue

from padc.passes.buffers_to_llvm.bodies import Body
from padc.passes.buffers_to_llvm.llvm_builder import LlvmBuilder, Size, predicate
from padc.passes.buffers_to_llvm.loops import Loop
from padc.passes.buffers_to_llvm.scalars import SUM


@dataclass(frozen=True)
class Stored:
    """An op that stores, in a loop of its own, the terms of a sum after it."""

    body: Body
    loop: Loop
    offsets: Sequence[Size]
    term: SSAValue
    """The term in the body of the sum."""

    def element(self, build: LlvmBuilder, place: Size) -> dict[SSAValue, SSAValue]:
        """Store an element; the value of the term."""
        at = self.loop.moved(build, self.offsets, place)
        (value,) = self.body.results(build, at, {}, {})
        self.body.store(build, at, [value])
        return {self.term: value}


@dataclass(frozen=True)
class SummedRow:
    """A loop that adds contiguous elements."""

    body: Body
    loop: Loop
    offsets: Sequence[Size]
    stored: Stored | None
    """What stores the elements; None if they are stored already."""

    def sums(self, first: SSAValue, rest: int, lanes: int) -> Sequence[SSAValue]:
        """
        `first` plus the elements.

        Vectors have so many `lanes`, and those from the element `rest` on are whole. If
        it is not 0, the first vector overlaps them.
        """
        build = self.body.kernel.build
        if not rest:
            return build.carry(
                self.loop.count, [first], lambda x, y: [self.added(x, *y)]
            )
        (head,) = build.carry(lanes, [first], lambda x, y: self.head(x, y, rest))
        number = build.sub(self.loop.count, rest)
        # It begins with 0, so that it does not wait for the first vector.
        (sum,) = build.carry(
            number,
            [self.zero()],
            lambda x, y: [self.added(build.add(x, rest), *y)],
        )
        return [build.insert(llvm.FAddOp(head, sum, SUM))]

    def zero(self) -> SSAValue:
        """-0, which changes nothing when it is added."""
        type = self.body.op.body.block.args[-1].type
        assert isinstance(type, AnyFloat)
        return self.body.kernel.build.insert(
            llvm.ConstantOp(FloatAttr(-0.0, type), type)
        )

    def head(
        self, place: SSAValue, sums: Sequence[SSAValue], rest: int
    ) -> list[SSAValue]:
        """Add an element of the first vector, unless another vector has it."""
        build, zero = self.body.kernel.build, self.zero()
        term, end = self.added(place, zero), build.value(rest)
        is_left = build.insert(llvm.ICmpOp(place, end, predicate("slt")))
        chosen = build.insert(llvm.SelectOp(is_left, term, zero))
        (sum,) = sums
        return [build.insert(llvm.FAddOp(sum, chosen, SUM))]

    def added(self, place: Size, sum: SSAValue) -> SSAValue:
        build = self.body.kernel.build
        given = {} if self.stored is None else self.stored.element(build, place)
        at = self.loop.moved(build, self.offsets, place)
        return self.body.add(at, sum, given)
