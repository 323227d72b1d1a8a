"""
Give buffers their memory: results in arguments, all others in one arena.

The function returns nothing afterwards. After its arguments come a buffer for each
result and the arena, a memref<?xi8>. Each other buffer has a place in the arena, which
it shares with buffers that are not in use at the same time. Two attributes of the
function say how large the arena must be (`padc.arena_bytes`, if no size is dynamic) and
how many bytes of static buffers are in use at once (`padc.live_bytes`).

A second function, `@<name>_sizes`, takes the same arguments without those that are
added, and a memref<?xi64>. It writes the bytes of the arena into that, then the dynamic
sizes of each result.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects import arith, func, memref
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ArrayAttr,
    DictionaryAttr,
    FunctionType,
    IntegerAttr,
    MemRefType,
    ModuleOp,
    i8,
    i64,
)
from xdsl.ir import Block, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.transforms.dead_code_elimination import region_dce
from xdsl.utils.exceptions import PassFailedException

from padc.errors import UsageError
from padc.ir.main_function import body_of, functions_of
from padc.ir.tcp import Amount
from padc.passes.buffers.deallocation import remove_deallocs
from padc.passes.buffers.live_ranges import (
    TOO_LARGE,
    LiveRange,
    live_bytes,
    live_ranges,
    placed,
    slots_for,
)
from padc.passes.buffers.size_replay import SizeReplay
from padc.passes.common.buffer_views import root
from padc.passes.common.memref_builder import MemRefBuilder, memref_type
from padc.passes.common.options import check_option


@dataclass(frozen=True)
class PlanBuffersPass(ModulePass):
    """Place buffers in arguments and in one arena."""

    name = "plan-buffers"

    guard: int = 0
    """Free bytes after each buffer; a caller can check that nothing writes there."""

    def __post_init__(self) -> None:
        check_option(self, "guard", range(sys.maxsize), "a number from 0 on")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions_of(op):
            Plan(function, self.guard).run()


class Plan:
    """The new memory of the buffers of a function."""

    def __init__(self, function: func.FuncOp, guard: int):
        self.function = function
        self.guard = guard
        self.block = body_of(function)
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
        ranges = live_ranges(self.block, self.results)
        static = {
            live: bytes
            for live in ranges
            if (bytes := live.static_bytes(self.guard)) is not None
        }
        offsets, static_bytes = placed(static)
        if static_bytes >= TOO_LARGE:
            raise UsageError(f"the program needs buffers of {static_bytes} bytes")
        slots = slots_for([live for live in ranges if live not in static])
        self.add_sizes_function(slots, static_bytes)
        attributes = self.function.attributes
        attributes["padc.live_bytes"] = IntegerAttr(live_bytes(static), i64)
        if not slots:
            attributes["padc.arena_bytes"] = IntegerAttr(static_bytes, i64)
        remove_deallocs(self.block)
        for alloc in self.results:
            type = memref_type(alloc.memref)
            self.replace(alloc, self.block.insert_arg(type, len(self.block.args)))
        self.fill_arena(offsets, static_bytes, slots)
        Rewriter.replace_op(self.returned, func.ReturnOp())
        self.update_signature()
        region_dce(self.function.body)

    def fill_arena(
        self,
        offsets: Mapping[LiveRange, int],
        static_bytes: int,
        slots: Sequence[Sequence[LiveRange]],
    ) -> None:
        """Make buffers views of the arena: static ones at `offsets`, then the slots."""
        arena_type = MemRefType(i8, [DYNAMIC_INDEX])
        arena = self.block.insert_arg(arena_type, len(self.block.args))
        arena.name_hint = "arena"
        before = Block()
        build = MemRefBuilder(Builder(InsertPoint.at_end(before)))
        known = dict(zip(self.inputs, self.inputs, strict=True))
        sizes = SizeReplay(build, known, self.guard)
        for live, offset in offsets.items():
            self.replace(live.alloc, view(build, sizes, live.alloc, arena, offset))
        end: Amount = static_bytes
        for slot in slots:
            for live in slot:
                self.replace(live.alloc, view(build, sizes, live.alloc, arena, end))
            end = build.add(end, sizes.slot_bytes(slot))
        first = self.block.first_op
        assert first is not None
        for op in list(before.ops):
            op.detach()
            self.block.insert_op_before(op, first)

    def update_signature(self) -> None:
        self.function.function_type = FunctionType.from_lists(
            list(self.block.arg_types), []
        )
        if (known := self.function.arg_attrs) is not None:
            new = [DictionaryAttr({})] * (len(self.block.args) - len(known))
            self.function.arg_attrs = ArrayAttr([*known, *new])
        self.function.res_attrs = None

    def replace(self, alloc: memref.AllocOp, value: SSAValue) -> None:
        value.name_hint = alloc.memref.name_hint
        alloc.memref.replace_all_uses_with(value)
        Rewriter.erase_op(alloc)

    def add_sizes_function(
        self, slots: Sequence[Sequence[LiveRange]], static_bytes: int
    ) -> None:
        """Add the function that computes the arena's bytes and the results' sizes."""
        table_type = MemRefType(i64, [DYNAMIC_INDEX])
        types = [*(x.type for x in self.inputs), table_type]
        block = Block(arg_types=types)
        build = MemRefBuilder(Builder(InsertPoint.at_end(block)))
        known: dict[SSAValue, SSAValue] = {}
        known.update(zip(self.inputs, block.args[:-1], strict=True))
        sizes = SizeReplay(build, known, self.guard)
        total: Amount = static_bytes
        for slot in slots:
            total = build.add(total, sizes.slot_bytes(slot))
        written = [sizes.limited(total, slots)]
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


def view(
    build: MemRefBuilder,
    sizes: SizeReplay,
    alloc: memref.AllocOp,
    arena: SSAValue,
    offset: Amount,
) -> SSAValue:
    """The view of the arena at `offset` that replaces `alloc`."""
    dynamic = [sizes.of(size) for size in alloc.dynamic_sizes]
    type = memref_type(alloc.memref)
    return build.insert(memref.ViewOp(arena, build.index(offset), dynamic, type))
