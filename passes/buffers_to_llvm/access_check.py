"""
Checks of loads and stores against the memory of their buffers, for debugging.

The caller passes the address of a status word, 0 before the call, with scratch memory
after it. A load or store that would leave its buffer goes to the scratch memory. The
first one writes its code to the status word: twice the number of its op, plus 1 for
stores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from xdsl.dialects import llvm
from xdsl.dialects.builtin import (
    ArrayAttr,
    ModuleOp,
    NameLoc,
    StringAttr,
    i64,
)
from xdsl.ir import Operation, SSAValue
from xdsl.utils.hints import isa

from padc.passes.buffers_to_llvm.llvm_builder import LlvmBuilder, Size, predicate

SCRATCH_BYTES = 64
"""The size of the scratch memory: one of the longest vectors."""
ACCESSES = "padc.accesses"
"""An attribute of checked modules: the location of each number, from 1 on."""


@dataclass
class CheckedOps:
    """The ops that load or store, by number; ops of one line have the same number."""

    numbers: dict[NameLoc, int] = field(default_factory=dict[NameLoc, int])

    def number(self, op: Operation) -> int:
        where = op.location
        if not isinstance(where, NameLoc):
            where = NameLoc(StringAttr(op.name), where)
        return self.numbers.setdefault(where, len(self.numbers) + 1)

    def attribute(self) -> ArrayAttr[NameLoc]:
        return ArrayAttr(self.numbers)


@dataclass(frozen=True)
class AccessCheck:
    """How a function reports loads and stores of an op that leave their buffer."""

    status: SSAValue
    """The address of the status word."""
    ops: CheckedOps
    number: int = 0
    """The op that is being lowered."""

    def of(self, op: Operation) -> AccessCheck:
        return replace(self, number=self.ops.number(op))


@dataclass(frozen=True)
class Bounds:
    """The memory of a buffer: the address of its first byte, and the one after it."""

    begin: SSAValue
    end: SSAValue

    @staticmethod
    def of(build: LlvmBuilder, pointer: SSAValue, size: Size) -> Bounds:
        """The `size` bytes from `pointer` on."""
        begin = build.insert(llvm.PtrToIntOp(pointer, i64))
        return Bounds(begin, build.value(build.add(begin, size)))

    def within(self, build: LlvmBuilder, outer: Bounds) -> Bounds:
        """The part that is in `outer` too."""
        return Bounds(
            extreme(build, "llvm.umax.i64", self.begin, outer.begin),
            extreme(build, "llvm.umin.i64", self.end, outer.end),
        )


def extreme(build: LlvmBuilder, name: str, a: SSAValue, b: SSAValue) -> SSAValue:
    return build.insert(llvm.CallIntrinsicOp(StringAttr(name), [a, b], [i64]))


def checked(
    build: LlvmBuilder,
    address: SSAValue,
    size: Size,
    bounds: Bounds | None,
    *,
    writes: bool,
) -> SSAValue:
    """The address to use for `size` bytes at `address`; without bounds, the same."""
    check = build.check
    if bounds is None or check is None:
        return address

    def compare(a: SSAValue, name: str, b: SSAValue) -> SSAValue:
        return build.insert(llvm.ICmpOp(a, b, predicate(name)))

    begin = build.insert(llvm.PtrToIntOp(address, i64))
    end = build.value(build.add(begin, size))
    is_after, is_before = (
        compare(begin, "uge", bounds.begin),
        compare(end, "ule", bounds.end),
    )
    fits = build.insert(llvm.AndOp(is_after, is_before))
    if not isinstance(size, int):
        is_nothing = compare(size, "eq", build.value(0))
        fits = build.insert(llvm.OrOp(fits, is_nothing))
    known = build.insert(llvm.LoadOp(check.status, i64))
    code = build.value(2 * check.number + writes)
    is_first = compare(known, "eq", build.value(0))
    failed = build.insert(llvm.SelectOp(is_first, code, known))
    scratch = build.address(check.status, 1, i64)
    # Another thread may write the status word meanwhile: it stays alone if all fits.
    status = build.insert(llvm.SelectOp(fits, scratch, check.status))
    build.do(llvm.StoreOp(failed, status))
    return build.insert(llvm.SelectOp(fits, address, scratch))


def locations(module: ModuleOp) -> Sequence[NameLoc]:
    """The ops that a module checks: their names and lines."""
    attribute = module.attributes[ACCESSES]
    assert isa(attribute, ArrayAttr[NameLoc])
    return attribute.data
