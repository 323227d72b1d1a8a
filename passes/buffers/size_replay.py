"""Sizes of buffers as functions of the arguments, computed before any buffer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import memref
from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import Operation, SSAValue
from xdsl.utils.exceptions import PassFailedException

from padc.ir.tcp import Amount
from padc.passes.buffers.live_ranges import LiveRange, aligned, element_bytes
from padc.passes.common.memref_builder import MemRefBuilder, memref_type


@dataclass
class SizeReplay:
    """Builds sizes again, from the arguments of a function alone."""

    build: MemRefBuilder
    known: dict[SSAValue, SSAValue]
    """The new value of each old value; initially, those of the arguments."""
    guard: int

    def of(self, value: SSAValue) -> SSAValue:
        if value not in self.known:
            op = value.owner
            computed = isinstance(op, memref.DimOp) or (
                isinstance(op, Operation)
                and op.name.startswith(("arith.", "math."))
                and not op.regions
            )
            if not isinstance(op, Operation) or not computed:
                raise PassFailedException(
                    "plan-buffers cannot place a buffer whose size depends on the "
                    "elements of tensors instead of on their sizes"
                )
            operands = [self.of(operand) for operand in op.operands]
            clone = op.clone(dict(zip(op.operands, operands, strict=True)))
            self.build.builder.insert(clone)
            self.known[value] = clone.results[0]
        return self.known[value]

    def slot_bytes(self, slot: Sequence[LiveRange]) -> Amount:
        """The bytes that a slot needs: those of its largest buffer."""
        total: Amount = 0
        for live in slot:
            total = self.build.maximum(total, self.bytes(live.alloc))
        return total

    def bytes(self, alloc: memref.AllocOp) -> Amount:
        build, type = self.build, memref_type(alloc.memref)
        static = element_bytes(type.element_type)
        for size in type.get_shape():
            static *= 1 if size == DYNAMIC_INDEX else size
        total: Amount = static
        for size in alloc.dynamic_sizes:
            total = build.mul(total, self.of(size))
        return aligned(build.wrap(total) + self.guard).value
