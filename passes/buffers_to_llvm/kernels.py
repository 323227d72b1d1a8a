"""
Kernels: a linalg op on buffers as a function of its own, or several ops.

The function takes pointers, the dynamic sizes and strides, and the values that the body
captures. Pointers are noalias: no op reads elements through one operand that it writes
through another. If several ops share a function (see `loop_fusion`), some pointers are
`aliases`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace

from xdsl.dialects import llvm
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, UnitAttr, i64
from xdsl.ir import Block, Region, SSAValue

from padc.passes.buffers_to_llvm.access_check import AccessCheck, unchecked
from padc.passes.buffers_to_llvm.bounds import Bounds
from padc.passes.buffers_to_llvm.buffer_descriptor import BufferDescriptor, Value
from padc.passes.buffers_to_llvm.llvm_builder import POINTER, LlvmBuilder, Part, Size
from padc.passes.buffers_to_llvm.loops import Loop
from padc.passes.buffers_to_llvm.work_sharing import is_shared


class Outline:
    """A kernel while it is built, and its parameters."""

    def __init__(
        self, main: LlvmBuilder, check: AccessCheck | None, threads: Size
    ) -> None:
        """`main`, which has `check`, runs the kernel on up to `threads` threads."""
        self.region = Region(Block())
        self.entry = self.region.block
        self.build = LlvmBuilder(
            self.region, self.entry, vector_bytes=main.vector_bytes
        )
        if is_shared(threads):
            part, parts = (self.entry.insert_arg(i64, i) for i in range(2))
            self.build.part = Part(part, parts)
        self.arguments: dict[SSAValue, SSAValue] = {}
        """The parameter of each value that the caller passes."""
        self.aliases: set[SSAValue] = set()
        """Pointers of the caller to memory that another pointer also points to."""
        if check is not None:
            self.build.check = replace(check, status=self.parameter(check.status))
            self.aliases.add(check.status)

    def parameter(self, value: SSAValue) -> SSAValue:
        if value not in self.arguments:
            place = len(self.entry.args)
            self.arguments[value] = self.entry.insert_arg(value.type, place)
        return self.arguments[value]

    def size(self, size: Size) -> Size:
        return size if isinstance(size, int) else self.parameter(size)

    def sizes(self, sizes: Sequence[Size]) -> list[Size]:
        return [self.size(size) for size in sizes]

    def loop(self, loop: Loop) -> Loop:
        steps = tuple(self.sizes(loop.steps))
        return replace(loop, count=self.size(loop.count), steps=steps)

    def value(self, value: Value) -> Value:
        if isinstance(value, BufferDescriptor):
            return replace(
                value,
                pointer=self.parameter(value.pointer),
                sizes=self.sizes(value.sizes),
                strides=self.sizes(value.strides),
                bounds=self.bounds(value.bounds),
            )
        return self.size(value)

    def buffer(self, value: Value) -> BufferDescriptor:
        buffer = self.value(value)
        assert isinstance(buffer, BufferDescriptor)
        return buffer

    def bounds(self, bounds: Bounds | None) -> Bounds | None:
        if bounds is None:
            return None
        return Bounds(self.parameter(bounds.begin), self.parameter(bounds.end))

    def finished(self, name: str) -> llvm.FuncOp:
        self.build.do(llvm.ReturnOp())
        if (check := self.build.check) is not None:
            assert not (found := [*unchecked(self.region, check.status)]), found
        types = list(self.entry.arg_types)
        no_alias = DictionaryAttr({"llvm.noalias": UnitAttr()})
        attributes = [
            no_alias
            if value.type == POINTER and value not in self.aliases
            else DictionaryAttr({})
            for value in self.arguments
        ]
        own = len(types) - len(attributes)
        attributes = [DictionaryAttr({})] * own + attributes
        return llvm.FuncOp(
            name,
            llvm.LLVMFunctionType(types),
            body=self.region,
            other_props={"arg_attrs": ArrayAttr(attributes)},
        )


@dataclass(frozen=True)
class Kernel:
    """A function that is made unless there is one with its key."""

    key: Hashable
    values: Sequence[SSAValue]
    """The values that it may take; equal keys have them in the same order."""
    make: Callable[[], Outline]
    threads: Size
    """The most threads that are worth it."""
