"""
Checks of loads and stores against the memory of their buffers, for debugging.

The caller passes the address of a status word, 0 before the call, with scratch memory
after it. A load or store that would leave its buffer goes to the scratch memory. The
first one writes its code to the status word: twice the number of its op, plus 1 for
stores.

The memory that a kernel has for itself is a buffer too, see `scratch`. Kernels load and
store through buffers, which know their memory; `unchecked` finds what does not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from xdsl.dialects import llvm
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, NameLoc, StringAttr
from xdsl.ir import Operation, Region, SSAValue
from xdsl.utils.hints import isa

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


ADDRESSES = (llvm.GEPOp, llvm.PtrToIntOp, llvm.BitcastOp, llvm.SelectOp)
"""The ops of a kernel that only compute with addresses."""


def unchecked(kernel: Region, status: SSAValue) -> Iterator[Operation]:
    """The ops of a kernel that use memory at addresses not from `checked`."""
    for op in kernel.walk():
        if isinstance(op, ADDRESSES):
            continue
        if isinstance(op, llvm.CallIntrinsicOp) and "prefetch" in op.intrin.data:
            continue
        for x in op.operands:
            if isinstance(x.type, llvm.LLVMPointerType) and x is not status:
                base = x.owner.ptr if isinstance(x.owner, llvm.GEPOp) else None
                if not isinstance(x.owner, llvm.SelectOp) and base is not status:
                    yield op


def locations(module: ModuleOp) -> Sequence[NameLoc]:
    """The ops that a module checks: their names and lines."""
    attribute = module.attributes[ACCESSES]
    assert isa(attribute, ArrayAttr[NameLoc])
    return attribute.data
