"""
The greatest or least element of rows of f32, by integers.

LLVM's `maximum` takes six instructions for a vector, and more for its last elements and
between its lanes, since it propagates NaN and orders zeros. The order of the integers
here does both: -inf is 0; above are the numbers, -0 before 0, then inf, then all NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, llvm
from xdsl.dialects.builtin import f32, i32
from xdsl.dialects.linalg import ops as linalg
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import SSAValue

from padc.passes.buffers_to_llvm.buffer_descriptor import BufferDescriptor
from padc.passes.buffers_to_llvm.llvm_builder import LlvmBuilder, Size
from padc.passes.buffers_to_llvm.loops import Loop

SIGN, REST = -(1 << 31), (1 << 31) - 1
LEAST = REST ^ -(1 << 23)
"""-inf with the bits after its sign inverted."""


@dataclass(frozen=True)
class Extreme:
    """The greatest or least element of each row that `row` runs through."""

    op: arith.MaximumfOp | arith.MinimumfOp
    row: Loop

    def of_row(self, build: LlvmBuilder, x: BufferDescriptor, offset: Size) -> SSAValue:
        """The extreme of the row of `x` at `offset`; NaN if it has one."""

        def inside(place: SSAValue, carried: Sequence[SSAValue]) -> list[SSAValue]:
            address = build.address(x.pointer, build.add(offset, place), f32)
            key = self.key(build, x.load(build, address))
            best = llvm.CallIntrinsicOp("llvm.umax.i32", [*carried, key], [i32])
            return [build.insert(best)]

        (best,) = build.carry(self.row.count, [build.number(0)], inside)
        return self.number(build, best)

    def key(self, build: LlvmBuilder, x: SSAValue) -> SSAValue:
        """An unsigned integer, the greater, the better `x` is."""
        bits = self.signed(build, build.insert(llvm.BitcastOp(x, i32)))
        ordered = inverted(build, bits)
        return build.insert(llvm.SubOp(ordered, build.number(LEAST)))

    def number(self, build: LlvmBuilder, key: SSAValue) -> SSAValue:
        """The number with this key."""
        ordered = build.insert(llvm.AddOp(key, build.number(LEAST)))
        bits = self.signed(build, inverted(build, ordered))
        return build.insert(llvm.BitcastOp(bits, f32))

    def signed(self, build: LlvmBuilder, bits: SSAValue) -> SSAValue:
        """The bits of the number, negated if the least one is sought."""
        if isinstance(self.op, arith.MaximumfOp):
            return bits
        return build.insert(llvm.XOrOp(bits, build.number(SIGN)))


def inverted(build: LlvmBuilder, bits: SSAValue) -> SSAValue:
    """`bits`, with those after the sign inverted if that is negative."""
    sign = build.insert(llvm.AShrOp(bits, build.number(31)))
    mask = build.insert(llvm.AndOp(sign, build.number(REST)))
    return build.insert(llvm.XOrOp(bits, mask))


def extreme_of(op: LinalgStructuredOperation, loops: Sequence[Loop]) -> Extreme | None:
    """The extreme of contiguous rows that `op` computes; None if it does not."""
    if len(op.inputs) != 1 or len(op.outputs) != 1 or not loops:
        return None
    if not loops[-1].reduces or loops[-1].steps != (1, 0):
        return None
    match list(op.body.block.ops):
        case [arith.MaximumfOp() | arith.MinimumfOp() as found, linalg.YieldOp()] if (
            found.result.type == f32 and set(found.operands) == set(op.body.block.args)
        ):
            return Extreme(found, loops[-1])
        case _:
            return None
