"""
Kernels whose work several threads share.

Such a kernel takes two more numbers, `part` and `parts`, and does that part of its
work. Its outermost loops are split: those that do not reduce, from the outermost
inwards until there are enough steps. The steps of the innermost of them, numbered in
the order in which they run, are the items of the kernel. A part is a range of items.

An element of a result is computed in one item, and items do not depend on the number
of parts. So results have the same bits for any number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects import llvm
from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Attribute, Block, Region, SSAValue

from padc.passes.buffers_to_llvm.llvm_builder import POINTER, LlvmBuilder, Size

ELEMENT_WORK = 8
"""The work of one op on one element in a plain loop, in products."""
ITEMS = 64
"""So many items make parts of about equal work."""
ELEMENTS = 1024
"""
The elements of an item of an innermost loop.

This is a multiple of the elements that LLVM's vectorized loops take at once, so the
elements left over are those of the unsplit loop, with the same bits.
"""
SHARE = "padc_share"
"""
Runs the parts of a kernel: `void (worker, frame, i64 threads, start)`.

`worker` is `void (frame, i64 part, i64 parts)`, and `start` is `GOMP_parallel` of the
OpenMP runtime, which is not used for fewer than two threads.
"""
HEAD = 3
"""The 64-bit words of a frame in front of the kernel's arguments, used by `SHARE`."""


@dataclass(frozen=True)
class Part:
    """Which part of its work a call of a kernel does."""

    number: SSAValue
    count: SSAValue


@dataclass(frozen=True)
class Span:
    """Consecutive items of nested loops that are split."""

    begin: Size
    end: Size
    counts: Sequence[Size]
    """The steps of each split loop, from the current one inwards."""

    def steps(self, build: LlvmBuilder) -> tuple[Size, Size]:
        """The first step of the current loop, and the one after the last step."""
        items = self._items_of_step(build)
        last = build.add(self.end, build.sub(items, 1))
        return build.floordiv(self.begin, items), build.floordiv(last, items)

    def inside(self, build: LlvmBuilder, step: Size) -> Span | None:
        """The items of one step of this loop; None if no loop inside is split."""
        if len(self.counts) == 1:
            return None
        items = self._items_of_step(build)
        first = build.mul(step, items)
        begin = build.maximum(build.sub(self.begin, first), 0)
        end = build.minimum(build.sub(self.end, first), items)
        return Span(begin, end, self.counts[1:])

    def _items_of_step(self, build: LlvmBuilder) -> Size:
        # It is a divisor, so not 0.
        return build.maximum(product(build, self.counts[1:]), 1)


def product(build: LlvmBuilder, counts: Sequence[Size]) -> Size:
    total: Size = 1
    for count in counts:
        total = build.mul(total, count)
    return total


def share(build: LlvmBuilder, counts: Sequence[Size]) -> None:
    """
    Split the next loops of `split_loop` and `split_elements`: share their items.

    `counts` are their steps, from the outermost inwards. In kernels whose work is not
    shared, this does nothing.
    """
    if (part := build.part) is None:
        return
    assert counts, "a kernel without loops to split has one part"
    known, used = 1, 0
    for count in counts:
        known *= count if isinstance(count, int) else ITEMS
        used += 1
        if known >= ITEMS:
            break
    items = product(build, counts[:used])

    def until(number: Size) -> Size:
        total = build.mul(items, number)
        return build.insert(llvm.UDivOp(build.value(total), part.count))

    begin, end = until(part.number), until(build.add(part.number, 1))
    build.span = Span(begin, end, counts[:used])


def split_loop(
    build: LlvmBuilder,
    count: Size,
    body: Callable[[LlvmBuilder, Size], None],
    first: Size = 0,
    end: Size | None = None,
) -> None:
    """
    Loop over `count` steps, which may run in any order, or over those of the part.

    With `first` and `end`, only over these of the steps; another loop has the rest.
    """
    end = count if end is None else end
    if (span := build.span) is None:
        if isinstance(first, int) and end == first + 1:
            return body(build, first)
        return build.loop(first, end, 1, body)
    begin, stop = span.steps(build)

    def inside(build: LlvmBuilder, step: SSAValue) -> None:
        build.span = span.inside(build, step)
        body(build, step)
        build.span = span

    build.loop(build.maximum(begin, first), build.minimum(stop, end), 1, inside)


def items_of(build: LlvmBuilder, count: Size) -> Size:
    """The items of an innermost loop."""
    return build.floordiv(build.add(count, ELEMENTS - 1), ELEMENTS)


def split_elements(
    build: LlvmBuilder, count: Size, body: Callable[[LlvmBuilder, SSAValue], None]
) -> None:
    """An innermost loop over `count` elements, or over those of the part."""
    if (span := build.span) is None:
        return build.loop(0, count, 1, body)
    begin, end = (build.mul(step, ELEMENTS) for step in span.steps(build))
    build.span = None
    build.loop(begin, build.minimum(end, count), 1, body)
    build.span = span


def threads_for(build: LlvmBuilder, work: Size) -> Size:
    """The most threads that are worth it for a kernel of so much work."""
    return build.floordiv(work, build.grain)


def is_shared(threads: Size) -> bool:
    """Whether a kernel that is worth so many threads is split."""
    return not isinstance(threads, int) or threads > 1


def worker(kernel: str, types: Sequence[Attribute]) -> llvm.FuncOp:
    """A function that calls a kernel for a part, with arguments from a frame."""
    region = Region(Block(arg_types=[POINTER, i64, i64]))
    frame, part, parts = region.block.args
    build = LlvmBuilder(region, region.block)
    arguments = [
        build.load(build.address(frame, HEAD + i, i64), type)
        for i, type in enumerate(types)
    ]
    build.do(llvm.CallOp(kernel, part, parts, *arguments))
    build.do(llvm.ReturnOp())
    type = llvm.LLVMFunctionType([POINTER, i64, i64])
    return llvm.FuncOp(worker_name(kernel), type, body=region)


def worker_name(kernel: str) -> str:
    return f"{kernel}_part"


class SharedCalls:
    """The calls of kernels whose work is shared, in one function."""

    def __init__(self, build: LlvmBuilder, threads: SSAValue, start: SSAValue):
        """
        To be made in the first block of the function.

        `threads` is the most that may be used, and `start` is for `SHARE`.
        """
        self.build = build
        self.threads = threads
        self.start = start
        self.longest = HEAD
        self.words = llvm.ConstantOp(IntegerAttr(self.longest, i64), i64)
        self.frame = build.scratch(build.insert(self.words), i64)
        """Memory for the arguments, as many words as the longest call needs."""

    def call(self, kernel: str, arguments: Sequence[SSAValue], most: Size) -> None:
        """Call the worker of `kernel` on at most so many threads."""
        build = self.build
        for i, argument in enumerate(arguments):
            build.store(argument, build.address(self.frame, HEAD + i, i64))
        self.longest = max(self.longest, HEAD + len(arguments))
        self.words.properties["value"] = IntegerAttr(self.longest, i64)
        function = build.insert(llvm.AddressOfOp(worker_name(kernel), POINTER))
        # llvmlite types the address of a function by the type of the function.
        function = build.insert(llvm.BitcastOp(function, POINTER))
        threads = build.value(build.minimum(self.threads, most))
        build.do(llvm.CallOp(SHARE, function, self.frame, threads, self.start))
