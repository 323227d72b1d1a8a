"""
Run two products that follow each other, and the ops between them, block by block.

    fill(%s); product(%q, %k, %s); fill(%m); max(%s, %m); exp(%s, %m, %p) ...
    product(%p, %v, %y)

becomes

    for %i: the same ops on parts of %q, of %y, and on buffers of a block

Attention is the example: its scores have an element for each pair of a query and a key,
many more than its inputs and its result have. The loops run through the dimensions that
all of the ops share, the outermost ones. A buffer that no other op uses has one block,
which stays in the second cache.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import DYNAMIC_INDEX, MemRefType, ModuleOp
from xdsl.dialects.linalg import ops as linalg
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.dialects.linalg.attrs import IteratorType
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from padc.ir.arithmetic import ceil_div
from padc.ir.main_function import body_of, functions_of
from padc.ir.tcp import Amount
from padc.passes.buffers.deallocation import place_deallocs
from padc.passes.buffers.live_ranges import element_bytes
from padc.passes.common.buffer_views import VIEWS, root, users
from padc.passes.common.memref_builder import MemRefBuilder, memref_type
from padc.passes.common.options import check_option

BLOCK_BYTES = 1 << 19
"""About the bytes of a block's buffers, which stay in the second cache of most CPUs."""
FEWEST_ROWS = 16
"""The fewest steps of a block in the innermost loop, for tiles of several rows."""
ASSUMED = 1024
"""What is assumed of a dynamic size."""


@dataclass(frozen=True)
class RunInBlocksPass(ModulePass):
    """Run chains of products block by block."""

    name = "run-in-blocks"

    block_bytes: int = BLOCK_BYTES
    """About the bytes of the buffers of a block."""

    def __post_init__(self) -> None:
        check_option(self, "block-bytes", range(1, sys.maxsize), "a positive number")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions_of(op):
            if chains := list(chains_of(body_of(function))):
                for chain in chains:
                    run(chain, self.block_bytes)
                place_deallocs(function)


@dataclass(frozen=True)
class Access:
    """A buffer that an op uses, and how its loops index it."""

    buffer: SSAValue
    map: AffineMap
    operand: int
    """The number of the operand."""

    def place(self, loop: int) -> int | None:
        """
        The dimension whose index is the number of `loop`; None if none depends on it.

        Raises:
            ValueError: the loop indexes the buffer in another way.
        """
        exprs = self.map.results
        match [i for i, expr in enumerate(exprs) if loop in expr.used_dims()]:
            case []:
                return None
            case [place] if isinstance(exprs[place], AffineDimExpr):
                return place
            case _:
                raise ValueError


def accesses(op: LinalgStructuredOperation) -> list[Access]:
    """The operands that are buffers."""
    return [
        Access(x, map.data, number)
        for number, (x, map) in enumerate(
            zip(op.operands, op.get_indexing_maps(), strict=True)
        )
        if isinstance(x.type, MemRefType)
    ]


@dataclass(frozen=True)
class Chain:
    """Ops that follow each other, of which the first and the last one multiply."""

    ops: Sequence[LinalgStructuredOperation]

    @property
    def written(self) -> set[SSAValue]:
        return {root(op.outputs[0]) for op in self.ops}

    def shares(self, loop: int) -> bool:
        """
        Whether the ops may share a loop: its steps write different elements.

        No step then reads what another one writes.
        """
        written = self.written
        places: dict[SSAValue, tuple[SSAValue, int | None]] = {}
        counts: set[int] = set()
        for op in self.ops:
            kinds = list(op.get_iterator_types())
            if loop >= len(kinds) or kinds[loop].data is not IteratorType.PARALLEL:
                return False
            for x in accesses(op):
                try:
                    place = x.place(loop)
                except ValueError:
                    return False
                if place is not None:
                    counts.add(memref_type(x.buffer).get_shape()[place])
                if (memory := root(x.buffer)) in written:
                    here = x.buffer, place
                    if places.setdefault(memory, here) != here:
                        return False
        # Dynamic sizes are those of one buffer, through which the ops are connected.
        return len(counts) == 1 and self.is_connected()

    def is_connected(self) -> bool:
        """Whether each op uses a buffer that one writes and another one uses."""
        written = self.written
        (first, *left) = [{root(x.buffer) for x in accesses(op)} for op in self.ops]
        known = first & written
        while near := [each for each in left if each & known]:
            known |= set[SSAValue]().union(*near) & written
            left = [each for each in left if each not in near]
        return not left

    @property
    def is_empty(self) -> bool:
        """Whether a buffer has no elements."""
        used = (x.buffer for op in self.ops for x in accesses(op))
        return any(0 in memref_type(x).get_shape() for x in used)

    @property
    def depth(self) -> int:
        """The number of loops that all ops share."""
        depth = 0
        while self.shares(depth):
            depth += 1
        return depth

    @property
    def private(self) -> list[memref.AllocOp]:
        """The buffers that no other op uses."""
        ops: set[Operation] = set(self.ops)
        direct = {x.buffer for op in self.ops for x in accesses(op)}
        return [
            x.owner
            for x in dict.fromkeys(root(op.outputs[0]) for op in self.ops)
            if isinstance(x.owner, memref.AllocOp)
            and x in direct
            and all(user in ops for user in users(x))
        ]


def multiplies(op: Operation) -> bool:
    """Whether `op` sums products of two inputs, or what it computes of these."""
    if not isinstance(op, LinalgStructuredOperation) or len(op.inputs) != 2:
        return False
    kinds = op.get_iterator_types()
    return any(kind.data is IteratorType.REDUCTION for kind in kinds)


def may_repeat(op: Operation) -> bool:
    """Whether `op` reads and writes no element of a buffer."""
    kinds = *VIEWS, memref.AllocOp, memref.DeallocOp, memref.DimOp
    return isinstance(op, kinds) or op.name.startswith(("arith.", "math."))


def chains_of(block: Block) -> Iterator[Chain]:
    """The chains of a block that have buffers of their own."""
    ops = [op for op in block.ops if not may_repeat(op)]
    begin = 0
    for number, op in enumerate(ops):
        if number < begin or not multiplies(op):
            continue
        chain = chain_to(ops, number, begin)
        if chain is not None:
            begin = ops.index(chain.ops[-1]) + 1
            yield chain


def chain_to(ops: Sequence[Operation], last: int, begin: int) -> Chain | None:
    """The chain whose last product is op `last`, starting at `begin` or later."""
    found: list[LinalgStructuredOperation] = []

    def joins(op: Operation) -> bool:
        return (
            isinstance(op, LinalgStructuredOperation)
            and len(op.outputs) == 1
            and not any(isinstance(inner, memref.LoadOp) for inner in op.body.walk())
        )

    first = last
    while first >= begin and joins(op := ops[first]):
        assert isinstance(op, LinalgStructuredOperation)
        found.insert(0, op)
        if first < last and multiplies(op):
            break
        first -= 1
    else:
        return None
    chain = Chain(found)
    # The op before writes what the sums start from.
    if first > begin and joins(op := ops[first - 1]):
        assert isinstance(op, LinalgStructuredOperation)
        if op.outputs[0] is found[0].outputs[0]:
            chain = Chain([op, *found])
    if not (depth := chain.depth) or not chain.private or chain.is_empty:
        return None
    for op in ops[last + 1 :]:
        if not joins(op) or multiplies(op):
            break
        assert isinstance(op, LinalgStructuredOperation)
        longer = Chain([*chain.ops, op])
        if longer.depth < depth:
            break
        chain = longer
    return chain


@dataclass(frozen=True)
class Blocks:
    """The part of each loop that a block has."""

    loop: int
    """The loop that is split; blocks have one step of those around it."""
    steps: int
    """Its steps in a block."""


def blocks_of(counts: Sequence[Amount], rows: int) -> Blocks | None:
    """Equal blocks of about so many `rows`; None if all is one block."""
    left = rows
    for loop in reversed(range(len(counts))):
        count = counts[loop]
        if not isinstance(count, int):
            return Blocks(loop, left if loop == len(counts) - 1 else 1)
        left = max(left, 1)
        if (number := (count + left // 2) // left) > 1:
            return Blocks(loop, ceil_div(count, number))
        left //= max(count, 1)
    return None


def rows_of(chain: Chain, most: int) -> int:
    """
    The rows of a block: the steps of the innermost shared loop.

    Their buffers have about `most` bytes. They have more if each block reads much data
    that other blocks read again: it saves more memory traffic than these reads cost.
    """
    depth, private = chain.depth, [op.memref for op in chain.private]
    of_row: dict[SSAValue, int] = {}
    read = 0
    for x in (x for op in chain.ops for x in accesses(op)):
        places = [x.place(loop) for loop in range(depth)]
        if x.buffer in private:
            of_row[x.buffer] = bytes_of_step(x.buffer, places)
        elif places[-1] is None:
            read += bytes_of_step(x.buffer, places)
    row = sum(of_row.values())
    return max(most // row, ceil_div(read, 2 * row), FEWEST_ROWS)


def run(chain: Chain, most: int) -> None:
    """Replace the ops of a chain by loops over blocks."""
    depth, private = chain.depth, [op.memref for op in chain.private]
    build = MemRefBuilder(Builder(InsertPoint.before(chain.ops[-1])))
    places: dict[SSAValue, list[int]] = {}
    for op in chain.ops:
        for x in accesses(op):
            found = [x.place(loop) for loop in range(depth)]
            places[x.buffer] = [place for place in found if place is not None]
    of = private[0]
    counts = [build.size(of, place) for place in places[of]]
    blocks = blocks_of(counts, rows_of(chain, most))
    if blocks is None:
        return

    def part(loop: int) -> Amount:
        """The most steps of a loop in a block."""
        if loop == blocks.loop:
            return blocks.steps
        return 1 if loop < blocks.loop else counts[loop]

    buffers: dict[SSAValue, SSAValue] = {}
    for x in private:
        sizes = build.sizes(x)
        for loop, place in enumerate(places[x]):
            sizes[place] = part(loop)
        buffers[x] = build.alloc(sizes, memref_type(x).element_type)
        buffers[x].name_hint = x.name_hint

    def nest(build: MemRefBuilder, firsts: Sequence[Amount]) -> None:
        loop = len(firsts)
        if loop < blocks.loop:
            build.loop(counts[loop], lambda build, i: nest(build, [*firsts, i]))
            return
        count, steps = counts[loop], blocks.steps
        inside = counts[loop + 1 :]

        def block(build: MemRefBuilder, number: Amount, steps: Amount) -> None:
            first = build.mul(number, blocks.steps)
            if not isinstance(count, int):
                steps = build.minimum(steps, build.sub(count, first))
            at = [*firsts, first, *[0] * len(inside)]
            sizes = [*[1] * len(firsts), steps, *inside]
            emit(build, chain, buffers, at, sizes)

        if not isinstance(count, int):
            number = ceil_div(build.wrap(count), steps).value
            build.loop(number, lambda build, i: block(build, i, steps))
            return
        whole, rest = divmod(count, steps)
        build.loop(whole, lambda build, i: block(build, i, steps))
        if rest:
            block(build, whole, rest)

    nest(build, [])
    for op in reversed(chain.ops):
        Rewriter.erase_op(op)
    for x in private:
        for use in list(x.uses):
            Rewriter.erase_op(use.operation)
        Rewriter.erase_op(x.owner)


def bytes_of_step(buffer: SSAValue, places: Sequence[int | None]) -> int:
    """The bytes of a buffer that one step of the loops at `places` uses."""
    type = memref_type(buffer)
    total = element_bytes(type.element_type)
    for place, size in enumerate(type.get_shape()):
        if place not in places:
            total *= ASSUMED if size == DYNAMIC_INDEX else max(size, 1)
    return total


def emit(
    build: MemRefBuilder,
    chain: Chain,
    buffers: dict[SSAValue, SSAValue],
    firsts: Sequence[Amount],
    sizes: Sequence[Amount],
) -> None:
    """The ops of a chain for `sizes` steps of the shared loops, from `firsts` on."""
    for op in chain.ops:
        parts: dict[int, SSAValue] = {}
        for x in accesses(op):
            buffer = buffers.get(x.buffer, x.buffer)
            offsets: list[Amount] = [0] * len(x.map.results)
            part = build.sizes(buffer)
            for loop, (first, size) in enumerate(zip(firsts, sizes, strict=True)):
                if (place := x.place(loop)) is not None:
                    part[place] = size
                    if x.buffer not in buffers:
                        offsets[place] = first
            parts[x.operand] = build.subview(buffer, offsets, part)
        new = op.clone()
        for number, x in parts.items():
            new.operands[number] = x
        new.location = op.location
        build.builder.insert(new)
        for index in list(new.walk()):
            if isinstance(index, linalg.IndexOp):
                count_from(build, new, index, firsts)


def count_from(
    build: MemRefBuilder,
    op: LinalgStructuredOperation,
    index: linalg.IndexOp,
    firsts: Sequence[Amount],
) -> None:
    """Let the number of a shared loop of `op` be that outside of its block."""
    loop = index.dim.value.data
    if loop >= len(firsts) or firsts[loop] == 0:
        return
    before = MemRefBuilder(Builder(InsertPoint.before(op)))
    uses = list(index.result.uses)
    number = arith.AddiOp(index.result, before.index(firsts[loop]))
    Rewriter.insert_op(number, InsertPoint.after(index))
    for use in uses:
        use.operation.operands[use.index] = number.result
