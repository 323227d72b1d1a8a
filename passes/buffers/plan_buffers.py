"""
Give buffers their places in memory: results in arguments, all else in one arena.

The function returns nothing any more. Behind its arguments are a buffer for each of
its results, and the arena, a memref<?xi8> in which each other buffer has a place that
it shares with those that are not in use while it is. Attributes of the function say
how large the arena has to be (`padc.arena_bytes`; without buffers of dynamic sizes
that is all) and how many of these bytes are in use at once (`padc.live_bytes`).

A second function, `@<name>_sizes`, takes the same arguments before those, and a
memref<?xi64> into which it writes the arena's bytes, then each result's dynamic sizes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects import arith, func, memref
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ArrayAttr,
    DictionaryAttr,
    FixedBitwidthType,
    FunctionType,
    IntegerAttr,
    MemRefType,
    ModuleOp,
    i1,
    i8,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.transforms.dead_code_elimination import region_dce
from xdsl.utils.exceptions import PassFailedException

from padc.ir.tcp import Amount
from padc.passes.buffers.builder import BufferBuilder, memref_type
from padc.passes.buffers.views import root, views, within

ALIGNMENT = 64
"""Bytes: a line of the cache, and the longest vector."""


def element_bytes(type: Attribute) -> int:
    """How many bytes an element takes: a bit takes one."""
    if type == i1:
        return 1
    assert isinstance(type, FixedBitwidthType)
    return type.size


@dataclass(frozen=True, eq=False)
class Life:
    """A buffer, from its first to its last use."""

    alloc: memref.AllocOp
    first: int
    last: int

    def lives_at(self, time: int) -> bool:
        return self.first <= time <= self.last

    def meets(self, other: Life) -> bool:
        return self.first <= other.last and other.first <= self.last

    def static_bytes(self, guard: int) -> int | None:
        """How many bytes it takes in the arena; None if that is dynamic."""
        type = memref_type(self.alloc.memref)
        total = element_bytes(type.element_type)
        for size in type.get_shape():
            if size == DYNAMIC_INDEX:
                return None
            total *= size
        return -(-(total + guard) // ALIGNMENT) * ALIGNMENT


@dataclass(frozen=True)
class PlanBuffersPass(ModulePass):
    """Place buffers in arguments and in one arena."""

    name = "plan-buffers"

    guard: int = 0
    """Bytes behind each buffer that are left free, for whoever watches over them."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in list(op.ops):
            if isinstance(function, func.FuncOp) and not function.is_declaration:
                Plan(function, self.guard).run()


class Plan:
    """Where the buffers of a function go."""

    def __init__(self, function: func.FuncOp, guard: int):
        self.function = function
        self.guard = guard
        self.block = function.body.block
        returned = self.block.last_op
        assert isinstance(returned, func.ReturnOp)
        self.returned = returned
        self.inputs: list[SSAValue] = list(self.block.args)
        self.results: list[memref.AllocOp] = []
        for value in returned.operands:
            alloc = root(value).owner
            if not isinstance(alloc, memref.AllocOp) or alloc in self.results:
                raise PassFailedException(
                    "plan-buffers takes functions that return buffers which they "
                    "allocate, each once"
                )
            self.results.append(alloc)

    def run(self) -> None:
        lives = self.lives()
        static = {
            life: bytes
            for life in lives
            if (bytes := life.static_bytes(self.guard)) is not None
        }
        offsets, static_bytes = placed(static)
        slots = shared([life for life in lives if life not in static])
        self.add_sizes_function(slots, static_bytes)
        attributes = self.function.attributes
        attributes["padc.live_bytes"] = IntegerAttr(live_bytes(static), i64)
        if not slots:
            attributes["padc.arena_bytes"] = IntegerAttr(static_bytes, i64)
        for op in list(self.block.ops):
            if isinstance(op, memref.DeallocOp):
                Rewriter.erase_op(op)
        for alloc in self.results:
            type = memref_type(alloc.memref)
            self.replace(alloc, self.block.insert_arg(type, len(self.block.args)))
        arena_type = MemRefType(i8, [DYNAMIC_INDEX])
        arena = self.block.insert_arg(arena_type, len(self.block.args))
        arena.name_hint = "arena"
        before = Block()
        build = BufferBuilder(Builder(InsertPoint.at_end(before)))
        sizes = Sizes(
            build, dict(zip(self.inputs, self.inputs, strict=True)), self.guard
        )
        for life, offset in offsets.items():
            self.replace(life.alloc, view(build, sizes, life.alloc, arena, offset))
        end: Amount = static_bytes
        for slot in slots:
            for life in slot:
                self.replace(life.alloc, view(build, sizes, life.alloc, arena, end))
            end = build.add(end, sizes.slot_bytes(slot))
        Rewriter.replace_op(self.returned, func.ReturnOp())
        first = self.block.first_op
        assert first is not None
        for op in list(before.ops):
            op.detach()
            self.block.insert_op_before(op, first)
        self.function.function_type = FunctionType.from_lists(
            list(self.block.arg_types), []
        )
        if (known := self.function.arg_attrs) is not None:
            new = [DictionaryAttr({})] * (len(self.block.args) - len(known))
            self.function.arg_attrs = ArrayAttr([*known, *new])
        self.function.res_attrs = None
        region_dce(self.function.body)

    def replace(self, alloc: memref.AllocOp, value: SSAValue) -> None:
        value.name_hint = alloc.memref.name_hint
        alloc.memref.replace_all_uses_with(value)
        Rewriter.erase_op(alloc)

    def lives(self) -> list[Life]:
        """When each buffer is in use that is no result."""
        order = {op: i for i, op in enumerate(self.block.ops)}
        lives: list[Life] = []
        for alloc in self.block.ops:
            if isinstance(alloc, memref.AllocOp) and alloc not in self.results:
                uses = [
                    order[within(self.block, use.operation)]
                    for value in views(alloc.memref)
                    for use in value.uses
                    if not isinstance(use.operation, memref.DeallocOp)
                ]
                lives.append(Life(alloc, order[alloc], max([order[alloc], *uses])))
        return lives

    def add_sizes_function(
        self, slots: Sequence[Sequence[Life]], static_bytes: int
    ) -> None:
        table_type = MemRefType(i64, [DYNAMIC_INDEX])
        types = [*(x.type for x in self.inputs), table_type]
        block = Block(arg_types=types)
        build = BufferBuilder(Builder(InsertPoint.at_end(block)))
        known: dict[SSAValue, SSAValue] = {}
        known.update(zip(self.inputs, block.args[:-1], strict=True))
        sizes = Sizes(build, known, self.guard)
        total: Amount = static_bytes
        for slot in slots:
            total = build.add(total, sizes.slot_bytes(slot))
        written = [total]
        for alloc in self.results:
            written += [sizes.of(size) for size in alloc.dynamic_sizes]
        for i, size in enumerate(written):
            number = build.insert(arith.IndexCastOp(build.index(size), i64))
            build.builder.insert(
                memref.StoreOp.get(number, block.args[-1], [build.index(i)])
            )
        build.builder.insert(func.ReturnOp())
        name = f"{self.function.sym_name.data}_sizes"
        function = func.FuncOp(name, (types, []), Region(block))
        region_dce(function.body)
        parent = self.function.parent
        assert parent is not None
        parent.insert_op_after(function, self.function)


@dataclass
class Sizes:
    """Computes sizes anew, from arguments alone."""

    build: BufferBuilder
    known: dict[SSAValue, SSAValue]
    """What is there already of each value: at first, of the arguments."""
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
                    "plan-buffers cannot place a buffer whose size depends on what "
                    "tensors hold, not on their sizes"
                )
            operands = [self.of(operand) for operand in op.operands]
            clone = op.clone(dict(zip(op.operands, operands, strict=True)))
            self.build.builder.insert(clone)
            self.known[value] = clone.results[0]
        return self.known[value]

    def slot_bytes(self, slot: Sequence[Life]) -> Amount:
        """As many as the largest of buffers takes."""
        total: Amount = 0
        for life in slot:
            total = self.build.maximum(total, self.bytes(life.alloc))
        return total

    def bytes(self, alloc: memref.AllocOp) -> Amount:
        build, type = self.build, memref_type(alloc.memref)
        static = element_bytes(type.element_type)
        for size in type.get_shape():
            static *= 1 if size == DYNAMIC_INDEX else size
        total: Amount = static
        for size in alloc.dynamic_sizes:
            total = build.mul(total, self.of(size))
        total = build.add(total, self.guard + ALIGNMENT - 1)
        lines = build.floordiv(total, ALIGNMENT)
        return build.mul(lines, ALIGNMENT)


def view(
    build: BufferBuilder,
    sizes: Sizes,
    alloc: memref.AllocOp,
    arena: SSAValue,
    offset: Amount,
) -> SSAValue:
    dynamic = [sizes.of(size) for size in alloc.dynamic_sizes]
    type = memref_type(alloc.memref)
    return build.insert(memref.ViewOp(arena, build.index(offset), dynamic, type))


def placed(bytes: Mapping[Life, int]) -> tuple[dict[Life, int], int]:
    """
    An offset for each buffer, and how many bytes there are in all.

    The largest first, each at the lowest place that is free while it lives.
    """
    offsets: dict[Life, int] = {}
    for life in sorted(bytes, key=lambda life: (-bytes[life], life.first)):
        offset = 0
        others = sorted((offsets[o], bytes[o]) for o in offsets if o.meets(life))
        for start, size in others:
            if offset + bytes[life] <= start:
                break
            offset = max(offset, start + size)
        offsets[life] = offset
    total = max((offset + bytes[life] for life, offset in offsets.items()), default=0)
    return offsets, total


def live_bytes(bytes: Mapping[Life, int]) -> int:
    """The most bytes in use at once."""
    return max(
        (
            sum(size for other, size in bytes.items() if other.lives_at(life.first))
            for life in bytes
        ),
        default=0,
    )


def shared(lives: Sequence[Life]) -> list[list[Life]]:
    """Buffers in slots, in each of which none lives while another does."""
    slots: list[list[Life]] = []
    for life in lives:
        free = [s for s in slots if not any(life.meets(other) for other in s)]

        def likeness(slot: Sequence[Life]) -> int:
            return sum(
                list(other.alloc.dynamic_sizes) == list(life.alloc.dynamic_sizes)
                for other in slot
            )

        if free:
            max(free, key=likeness).append(life)
        else:
            slots.append([life])
    return slots
