"""
The greatest or least element of rows and windows of f32, f16 and bf16, by integers.

LLVM's `maximum` takes six instructions for a vector, each of which waits for the one
before, and more for its last elements and between its lanes, since it propagates NaN
and orders zeros. The order of the integers here does both: -inf is 0; above are the
numbers, -0 before 0, then inf, then all NaN. Halves are widened to f32, which is exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, llvm
from xdsl.dialects.builtin import AnyFloat, bf16, f16, f32, i32
from xdsl.dialects.linalg import ops as linalg
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import SSAValue

from padc.passes.buffers_to_llvm.buffer_descriptor import BufferDescriptor
from padc.passes.buffers_to_llvm.llvm_builder import LlvmBuilder, Size
from padc.passes.buffers_to_llvm.scalars import rounded, widened

SIGN, REST = -(1 << 31), (1 << 31) - 1
LEAST = REST ^ -(1 << 23)
"""-inf with the bits after its sign inverted."""


@dataclass(frozen=True)
class Extreme:
    """The greatest or least of some elements."""

    op: arith.MaximumfOp | arith.MinimumfOp

    @property
    def type(self) -> AnyFloat:
        type = self.op.result.type
        assert isinstance(type, AnyFloat)
        return type

    def of_row(
        self,
        build: LlvmBuilder,
        x: BufferDescriptor,
        offset: Size,
        ranges: Sequence[tuple[Size, Size]],
        first: SSAValue,
    ) -> SSAValue:
        """
        The extreme of `first` and the elements of `x` from `offset` on; NaN if one is.

        `ranges` have the first place and the number of each, and may overlap.
        """
        best = self.key(build, first)
        for begin, count in ranges:
            start = build.add(offset, begin)

            def inside(
                place: SSAValue, carried: Sequence[SSAValue], start: Size = start
            ) -> list[SSAValue]:
                address = build.address(x.pointer, build.add(start, place), self.type)
                (best,) = carried
                return [self.better(build, best, x.load(build, address))]

            # Each loop begins with the least key, so that none waits for another one.
            (found,) = build.carry(count, [build.number(0)], inside)
            best = greater(build, best, found)
        return self.number(build, best)

    def of_values(self, build: LlvmBuilder, values: Iterable[SSAValue]) -> SSAValue:
        """The extreme of `values`; NaN if one is."""
        best = build.number(0)
        for value in values:
            best = self.better(build, best, value)
        return self.number(build, best)

    def better(self, build: LlvmBuilder, key: SSAValue, x: SSAValue) -> SSAValue:
        """The greater one of `key` and that of `x`."""
        return greater(build, key, self.key(build, x))

    def key(self, build: LlvmBuilder, x: SSAValue) -> SSAValue:
        """An unsigned integer, the greater, the better `x` is."""
        wide = widened(build, x, self.type)
        bits = self.signed(build, build.insert(llvm.BitcastOp(wide, i32)))
        ordered = inverted(build, bits)
        return build.insert(llvm.SubOp(ordered, build.number(LEAST)))

    def number(self, build: LlvmBuilder, key: SSAValue) -> SSAValue:
        """The number with this key."""
        ordered = build.insert(llvm.AddOp(key, build.number(LEAST)))
        bits = self.signed(build, inverted(build, ordered))
        return rounded(build, build.insert(llvm.BitcastOp(bits, f32)), self.type)

    def signed(self, build: LlvmBuilder, bits: SSAValue) -> SSAValue:
        """The bits of the number, negated if the least one is sought."""
        if isinstance(self.op, arith.MaximumfOp):
            return bits
        return build.insert(llvm.XOrOp(bits, build.number(SIGN)))


def greater(build: LlvmBuilder, a: SSAValue, b: SSAValue) -> SSAValue:
    return build.insert(llvm.CallIntrinsicOp("llvm.umax.i32", [a, b], [i32]))


def inverted(build: LlvmBuilder, bits: SSAValue) -> SSAValue:
    """`bits`, with those after the sign inverted if that is negative."""
    sign = build.insert(llvm.AShrOp(bits, build.number(31)))
    mask = build.insert(llvm.AndOp(sign, build.number(REST)))
    return build.insert(llvm.XOrOp(bits, mask))


def extreme_of(op: LinalgStructuredOperation) -> Extreme | None:
    """The extreme that `op` reduces its first input to; None if it does not."""
    args = op.body.block.args
    match list(op.body.block.ops):
        case [arith.MaximumfOp() | arith.MinimumfOp() as found, linalg.YieldOp()] if (
            found.result.type in (f32, f16, bf16)
            and set(found.operands) == {args[0], args[-1]}
        ):
            return Extreme(found)
        case _:
            return None
