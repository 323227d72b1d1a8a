"""Sizes of buffers as functions of the arguments, computed before any buffer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import DYNAMIC_INDEX, f64, i64
from xdsl.ir import Operation, SSAValue
from xdsl.utils.exceptions import PassFailedException

from padc.ir.tcp import Amount
from padc.passes.buffers.live_ranges import TOO_LARGE, LiveRange, aligned, element_bytes
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
        build = self.build
        total, dynamic = self.factors(alloc)
        for size in dynamic:
            total = build.mul(total, size)
        return aligned(build.wrap(total) + self.guard).value

    def factors(self, alloc: memref.AllocOp) -> tuple[Amount, Sequence[SSAValue]]:
        """The bytes of an element times the static sizes, and the dynamic sizes."""
        type = memref_type(alloc.memref)
        static = element_bytes(type.element_type)
        for size in type.get_shape():
            static *= 1 if size == DYNAMIC_INDEX else size
        return static, list(map(self.of, alloc.dynamic_sizes))

    def limited(self, total: Amount, slots: Sequence[Sequence[LiveRange]]) -> Amount:
        """`total`, the bytes of all slots, or `TOO_LARGE` if it may have overflowed."""
        if not slots:
            return total
        floats = [self.slot_floats(slot) for slot in slots]
        bytes = reduce(lambda a, b: self.build.insert(arith.AddfOp(a, b)), floats)
        limit = self.build.index(TOO_LARGE)
        fits = self.build.insert(arith.CmpfOp(bytes, self.float(limit), "olt"))
        select = arith.SelectOp(fits, self.build.index(total), limit)
        return self.build.insert(select)

    def slot_floats(self, slot: Sequence[LiveRange]) -> SSAValue:
        """`slot_bytes` as a float, which does not overflow, without alignment."""
        insert = self.build.insert
        sizes: list[SSAValue] = []
        for live in slot:
            static, dynamic = self.factors(live.alloc)
            factors = [
                self.float(self.build.index(each)) for each in (static, *dynamic)
            ]
            sizes.append(reduce(lambda a, b: insert(arith.MulfOp(a, b)), factors))
        return reduce(lambda a, b: insert(arith.MaximumfOp(a, b)), sizes)

    def float(self, size: SSAValue) -> SSAValue:
        """A size as f64."""
        number = self.build.insert(arith.IndexCastOp(size, i64))
        return self.build.insert(arith.SIToFPOp(number, f64))
