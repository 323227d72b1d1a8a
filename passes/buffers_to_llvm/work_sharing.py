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

from xdsl.dialects import llvm
from xdsl.ir import SSAValue

from padc.passes.buffers_to_llvm.llvm_builder import LlvmBuilder, Size, Span

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


def steps(build: LlvmBuilder, span: Span) -> tuple[Size, Size]:
    """The first step of the current loop, and the one after the last step."""
    items = items_of_step(build, span)
    last = build.add(span.end, build.sub(items, 1))
    return build.floordiv(span.begin, items), build.floordiv(last, items)


def inside_step(build: LlvmBuilder, span: Span, step: Size) -> Span | None:
    """The items of one step of this loop; None if no loop inside is split."""
    if len(span.counts) == 1:
        return None
    items = items_of_step(build, span)
    first = build.mul(step, items)
    begin = build.maximum(build.sub(span.begin, first), 0)
    end = build.minimum(build.sub(span.end, first), items)
    return Span(begin, end, span.counts[1:])


def items_of_step(build: LlvmBuilder, span: Span) -> Size:
    # It is a divisor, so not 0.
    return build.maximum(product(build, span.counts[1:]), 1)


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
    begin, stop = steps(build, span)

    def inside(build: LlvmBuilder, step: SSAValue) -> None:
        build.span = inside_step(build, span, step)
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
    begin, end = (build.mul(step, ELEMENTS) for step in steps(build, span))
    build.span = None
    build.loop(begin, build.minimum(end, count), 1, body)
    build.span = span


def split_range(
    build: LlvmBuilder, count: Size, body: Callable[[Size, Size], None]
) -> None:
    """
    `count` elements as a whole, or those of the part.

    `body` takes the first one and their number, which may be 0.
    """
    if (span := build.span) is None:
        return body(0, count)
    begin, end = (build.mul(step, ELEMENTS) for step in steps(build, span))
    build.span = None
    body(begin, build.maximum(build.sub(build.minimum(end, count), begin), 0))
    build.span = span


def threads_for(build: LlvmBuilder, work: Size) -> Size:
    """The most threads that are worth it for a kernel of this work."""
    return build.floordiv(work, build.grain)


def is_shared(threads: Size) -> bool:
    """Whether a kernel that is worth `threads` threads is split."""
    return not isinstance(threads, int) or threads > 1
