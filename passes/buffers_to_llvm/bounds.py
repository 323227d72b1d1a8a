"""The memory of buffers, and addresses that are checked against it: `access_check`."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import llvm
from xdsl.dialects.builtin import StringAttr, i64
from xdsl.ir import SSAValue

from padc.passes.buffers_to_llvm.llvm_builder import LlvmBuilder, Size, predicate


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
    """
    The address to use for `size` bytes at `address`.

    It is `address` itself if loads and stores are not checked.
    """
    check = build.check
    if bounds is None or check is None:
        return address
    if size == 0:
        return build.address(check.status, 1, i64)

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
