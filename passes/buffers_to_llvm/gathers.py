"""
Elements from places that are computed, as in a grid sample: loaded in blocks.

A gather instruction takes longer than a load of each element, on many CPUs. So a block
of steps is two loops, of which LLVM makes vectors. The first computes the places, and
stores values that the second would have to compute again, such as weights. The second
computes with the elements of a few steps, which are copied to scratch memory before:
LLVM keeps them in registers. Each has the part of the body that it uses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TypeAlias

from xdsl.dialects import arith, llvm, memref
from xdsl.dialects.builtin import (
    IntegerAttr,
    IntegerType,
    i32,
    i64,
)
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Operation, SSAValue

from padc.passes.buffers_to_llvm.bodies import Body, Places, Read, count
from padc.passes.buffers_to_llvm.buffer_descriptor import (
    BufferDescriptor,
    Value,
    scratch,
    size,
    stored_bytes,
)
from padc.passes.buffers_to_llvm.llvm_builder import (
    LlvmBuilder,
    Size,
    value_type,
)
from padc.passes.buffers_to_llvm.loops import Loop
from padc.passes.buffers_to_llvm.scalars import as_width
from padc.passes.buffers_to_llvm.vector_math import OF_SMALL
from padc.passes.buffers_to_llvm.vectors import joined, transposed
from padc.passes.buffers_to_llvm.work_sharing import ELEMENTS, items_of, split_loop
from padc.passes.common.backward_slice import backward_slice

SCRATCH_BYTES = 1 << 13
"""About the bytes of scratch memory of a block, a part of the first cache."""
BLOCKS = (128, 64, 32)
"""The steps of a block: multiples of the lanes of vectors, and divisors of an item."""
LEAST_TOGETHER, MOST_TOGETHER = 4, 16
"""The steps that are computed together: divisors of the steps of a block."""
KEPT_OPS = 3
"""Values of so many ops are stored, not computed again."""
RUNS = (2, 4, 8)
"""The elements of a run that is loaded at once."""


@dataclass(frozen=True)
class Gather:
    """A load from a place that is computed."""

    op: memref.LoadOp
    buffer: BufferDescriptor
    varies: Sequence[bool]
    """For each index, whether it differs in a row of steps."""
    run: int
    """The size of the last dimension if jammed steps run along it; else 1."""
    places: BufferDescriptor
    """Memory for the places of a block."""

    def terms(self, varies: bool) -> list[tuple[SSAValue, Size]]:
        """The indices that differ in a row of steps, or the others, with strides."""
        terms = zip(self.varies, self.op.indices, self.buffer.strides, strict=True)
        return [(index, stride) for each, index, stride in terms if each == varies]

    def base(self, build: LlvmBuilder, values: Mapping[SSAValue, Value]) -> Size:
        """The part of the offset that stays the same."""
        terms = self.terms(varies=False)
        places = [size(values[index]) for index, _ in terms]
        return build.dot(places, [stride for _, stride in terms])

    def place(self, build: LlvmBuilder, values: Mapping[SSAValue, Value]) -> SSAValue:
        """The other part, in as many bits as it needs: vectors have more lanes then."""
        type, parts = place_type(self.buffer), list[SSAValue]()
        for index, stride in self.terms(varies=True):
            factors = size(values[index]), stride
            a, b = (as_width(build, build.value(x), type) for x in factors)
            parts.append(build.insert(llvm.MulOp(a, b)))
        return reduce(lambda a, b: build.insert(llvm.AddOp(a, b)), parts)


Elements: TypeAlias = Mapping[memref.LoadOp, Sequence[BufferDescriptor]]
"""Memory for the elements of a few steps, for each jammed step."""


@dataclass
class Gathers:
    """The loads of a body from places that are computed."""

    body: Body
    loads: Sequence[Gather]
    kept: Mapping[SSAValue, BufferDescriptor]
    """Memory for values of the body that do not depend on the elements."""
    block: int
    """The steps of a block."""
    together: int
    """The steps that are computed together."""
    elements: Elements
    last: Elements
    """For the last steps of a block, if they are fewer."""

    def run(self, loop: Loop, offsets: Sequence[Size], places: Places) -> None:
        """Emit an innermost loop."""
        build, dim = self.body.kernel.build, loop.dims[0]
        together = build.value(self.together)
        self.body.check(build)

        def at(begin: Size, step: Size) -> tuple[Sequence[Size], Places]:
            here = build.value(build.add(begin, step))
            return loop.moved(build, offsets, here), {**places, dim: here}

        def block(build: LlvmBuilder, begin: Size, number: Size) -> None:
            for load in self.loads:
                # For steps after the last one: their elements may be copied, too.
                zero = llvm.ConstantOp(
                    IntegerAttr(0, place_type(load.buffer)), place_type(load.buffer)
                )
                none = build.insert(zero)
                for more in range(self.together):
                    store(build, load.places, build.add(number, more), none)

            def first(build: LlvmBuilder, step: SSAValue) -> None:
                self.store_places(build, step, *at(begin, step))

            def few(start: SSAValue, count: Size, elements: Elements) -> None:
                self.copy_elements(build, start, elements, *at(begin, start))

                def second(build: LlvmBuilder, more: SSAValue) -> None:
                    step = build.value(build.add(start, more))
                    self.compute(build, step, more, elements, *at(begin, step))

                build.loop(0, count, 1, second)

            def full(_: LlvmBuilder, start: SSAValue) -> None:
                few(start, self.together, self.elements)

            def rest(build: LlvmBuilder, start: SSAValue) -> None:
                few(start, build.sub(number, start), self.last)

            begun = build.insert(llvm.URemOp(build.value(number), together))
            whole = build.sub(number, begun)
            build.loop(0, number, 1, first)
            build.loop(0, whole, self.together, full)
            build.loop(whole, number, self.together, rest)

        def item(build: LlvmBuilder, number: Size) -> None:
            begin = build.mul(number, ELEMENTS)
            end = build.minimum(build.add(begin, ELEMENTS), loop.count)

            def part(build: LlvmBuilder, begin: SSAValue) -> None:
                block(build, begin, build.minimum(build.sub(end, begin), self.block))

            build.loop(begin, end, self.block, part)

        split_loop(build, items_of(build, loop.count), item)

    def store_places(
        self, build: LlvmBuilder, step: SSAValue, at: Sequence[Size], places: Places
    ) -> None:
        """Store the places of one step; all jammed steps have the same ones."""

        def reader(load: Gather) -> Read:
            def read(build: LlvmBuilder, values: Mapping[SSAValue, Value]) -> SSAValue:
                place = load.place(build, values)
                store(build, load.places, step, place)
                return unused(build, load)

            return read

        def keep(value: SSAValue, computed: SSAValue) -> None:
            if (memory := self.kept.get(value)) is not None:
                store(build, memory, step, computed)

        moved, here = next(iter(self.body.steps(build, at, places)))
        indices = [x for load in self.loads for x, _ in load.terms(varies=True)]
        self.body.reads = {load.op: reader(load) for load in self.loads}
        self.body.keep = keep
        self.body.needed = self.loaded_with([*indices, *self.kept])
        self.body.compute(build, moved, here, {})
        self.body.reads, self.body.keep, self.body.needed = {}, None, None

    def copy_elements(
        self,
        build: LlvmBuilder,
        step: SSAValue,
        elements: Elements,
        at: Sequence[Size],
        places: Places,
    ) -> None:
        """Copy the elements of a few steps, from `step` on."""
        stored = {load.op: self.places_of(build, load, step) for load in self.loads}

        def reader(load: Gather, jammed: int) -> Read:
            def read(build: LlvmBuilder, values: Mapping[SSAValue, Value]) -> SSAValue:
                if load.run == 1 or jammed == 0:
                    base = load.base(build, values)
                    memory = elements[load.op][jammed:]
                    self.copy(build, load, base, stored[load.op], memory)
                return unused(build, load)

            return read

        indices = [x for load in self.loads for x, _ in load.terms(varies=False)]
        self.body.needed = self.loaded_with(indices)
        for jammed, (moved, here) in enumerate(self.body.steps(build, at, places)):
            if jammed and all(load.run > 1 for load in self.loads):
                break
            self.body.reads = {load.op: reader(load, jammed) for load in self.loads}
            self.body.compute(build, moved, here, {})
        self.body.reads, self.body.needed = {}, None

    def copy(
        self,
        build: LlvmBuilder,
        load: Gather,
        base: Size,
        places: Sequence[SSAValue],
        memory: Sequence[BufferDescriptor],
    ) -> None:
        """Copy what `load` reads at `places`, for one jammed step or all of a run."""
        type = load.buffer.element_type
        first = build.address(load.buffer.pointer, base, type)
        rows = [
            load.buffer.load_vector(build, build.address(first, place, type), load.run)
            for place in places
        ]
        if load.run == 1:
            for number in range(0, self.together, LEAST_TOGETHER):
                some = joined(build, rows[number : number + LEAST_TOGETHER])
                address = memory[0].element(build, [number])
                memory[0].store_vector(build, some, address, LEAST_TOGETHER)
            return
        # Squares of rows are side by side, so that columns are in the order of steps.
        wide = [joined(build, rows[i :: load.run]) for i in range(load.run)]
        columns = transposed(build, wide)
        for each, column in zip(memory, columns, strict=False):
            address = each.element(build, [0])
            each.store_vector(build, column, address, self.together)

    def loaded_with(self, values: Sequence[SSAValue]) -> set[SSAValue]:
        """The elements, `values`, and all that these are computed from."""
        elements = {load.op.res for load in self.loads}
        return elements.union(backward_slice(*values))

    def places_of(
        self, build: LlvmBuilder, load: Gather, step: SSAValue
    ) -> list[SSAValue]:
        """The places of a few steps."""
        type, found = place_type(load.buffer), list[SSAValue]()
        for number in range(self.together):
            place = loaded(build, load.places, build.add(step, number))
            if type != i64:
                place = build.insert(llvm.SExtOp(place, i64))
            found.append(place)
        return found

    def compute(
        self,
        build: LlvmBuilder,
        step: SSAValue,
        number: SSAValue,
        elements: Elements,
        at: Sequence[Size],
        places: Places,
    ) -> None:
        """Compute a step of a block, with the elements with `number` in memory."""

        def reader(load: Gather, jammed: int) -> Read:
            def read(build: LlvmBuilder, values: Mapping[SSAValue, Value]) -> SSAValue:
                return loaded(build, elements[load.op][jammed], number)

            return read

        given = {
            value: loaded(build, memory, step) for value, memory in self.kept.items()
        }
        end = self.body.op.body.block.last_op
        assert end is not None
        known = {*given, *(load.op.res for load in self.loads)}
        self.body.needed = {*backward_slice(*end.operands, known=known)}
        for jammed, (moved, here) in enumerate(self.body.steps(build, at, places)):
            self.body.reads = {load.op: reader(load, jammed) for load in self.loads}
            results = self.body.results(build, moved, here, given)
            self.body.store(build, moved, results)
        self.body.reads, self.body.needed = {}, None


def unused(build: LlvmBuilder, load: Gather) -> SSAValue:
    """An element in code that LLVM drops."""
    return build.insert(llvm.UndefOp(value_type(load.buffer.element_type)))


def loaded(build: LlvmBuilder, memory: BufferDescriptor, step: Size) -> SSAValue:
    return memory.load(build, memory.element(build, [step]))


def store(
    build: LlvmBuilder, memory: BufferDescriptor, step: Size, value: SSAValue
) -> None:
    memory.store(build, value, memory.element(build, [step]))


def place_type(buffer: BufferDescriptor) -> IntegerType:
    """The type of places in a buffer."""
    total = 1
    for length in buffer.sizes:
        total *= length if isinstance(length, int) else 1 << 31
    return i32 if total < 1 << 31 else i64


def gathers_of(body: Body, loops: Sequence[Loop]) -> Gathers | None:
    """The gathers of `body` along the innermost of `loops`, if it has any."""
    build, ops = body.kernel.build, list(body.op.body.walk())
    if not loops or any(loop.reduces for loop in loops):
        return None
    if any(isinstance(op, (*OF_SMALL, arith.DivUIOp)) for op in ops):
        return None
    found: list[tuple[memref.LoadOp, BufferDescriptor, list[bool]]] = []
    for op in body.op.body.block.ops:
        if isinstance(op, memref.LoadOp):
            varies = [differs(body, index, loops[-1]) for index in op.indices]
            buffer = body.values[op.memref]
            assert isinstance(buffer, BufferDescriptor)
            if any(varies):
                found.append((op, buffer, varies))
    runs = [run_of(body, op, buffer) for op, buffer, _ in found]
    if not all_are_computed(body, found, min(runs, default=1)):
        return None
    bytes = sum(stored_bytes(place_type(buffer)) for _, buffer, _ in found)
    kept = kept_values(body, [op for op, _, _ in found], loops[-1])
    bytes += sum(stored_bytes(value.type) for value in kept)
    block = next((n for n in BLOCKS if n * bytes <= SCRATCH_BYTES), BLOCKS[-1])
    widest = max(stored_bytes(buffer.element_type) for _, buffer, _ in found)
    together = min(build.vector_bytes // widest, MOST_TOGETHER)
    together = max(together, LEAST_TOGETHER, *runs)
    loads = [
        Gather(
            op,
            buffer,
            varies,
            run,
            scratch(build, block + together, place_type(buffer)),
        )
        for (op, buffer, varies), run in zip(found, runs, strict=True)
    ]
    memory = {x: scratch(build, block, x.type) for x in kept}

    def elements() -> Elements:
        steps = range(1 if body.jammed is None else count(body.jammed))
        return {
            op: [scratch(build, together, buffer.element_type) for _ in steps]
            for op, buffer, _ in found
        }

    return Gathers(body, loads, memory, block, together, elements(), elements())


def kept_values(
    body: Body, loads: Sequence[memref.LoadOp], loop: Loop
) -> list[SSAValue]:
    """The values that ops on the elements use, do not depend on them, and take long."""
    depends = set[SSAValue]()
    kept = dict[SSAValue, None]()
    for op in body.op.body.block.ops:
        if op in loads:
            depends.update(op.results)
        elif any(operand in depends for operand in op.operands):
            depends.update(op.results)
            for operand in op.operands:
                if operand not in depends and takes_long(body, operand, loop):
                    kept[operand] = None
    return list(kept)


def takes_long(body: Body, value: SSAValue, loop: Loop) -> bool:
    """Whether several ops compute a value that differs along `loop`, for all jammed."""
    ops = [x.owner for x in backward_slice(value) if isinstance(x.owner, Operation)]
    computing = [op for op in ops if not isinstance(op, arith.ConstantOp)]
    return (
        not isinstance(value.owner, memref.LoadOp)
        and len(computing) >= KEPT_OPS
        and differs(body, value, loop)
        and not (body.jammed and differs(body, value, body.jammed))
    )


def run_of(body: Body, op: memref.LoadOp, buffer: BufferDescriptor) -> int:
    """The elements of the last dimension if the jammed loop runs along it, else 1."""
    if body.jammed is None or not isinstance(
        index := op.indices[-1].owner, linalg.IndexOp
    ):
        return 1
    length, stride = buffer.sizes[-1], buffer.strides[-1]
    if not isinstance(length, int) or length not in RUNS or stride != 1:
        return 1
    is_jammed = (index.dim.value.data,) == tuple(body.jammed.dims)
    return length if is_jammed and count(body.jammed) <= length else 1


def all_are_computed(
    body: Body,
    loads: Sequence[tuple[memref.LoadOp, BufferDescriptor, list[bool]]],
    run: int,
) -> bool:
    """
    Whether places are computed from floats, or each has `run` elements, more than one.

    Either is worth loops of their own. The places may depend on no element that is
    loaded from such a place, and have to be the same in all jammed steps.
    """
    places = [
        index
        for op, _, varies in loads
        for index, each in zip(op.indices, varies, strict=True)
        if each
    ]
    loaded = {op for op, _, _ in loads}
    used = {x.owner for place in places for x in backward_slice(place)}
    return (
        (run > 1 or any(isinstance(op, arith.FPToSIOp) for op in used))
        and not any(op in used for op in loaded)
        and not (
            body.jammed and any(differs(body, place, body.jammed) for place in places)
        )
    )


def differs(body: Body, value: SSAValue, loop: Loop) -> bool:
    """Whether a value depends on which step of `loop` it is."""
    args: list[SSAValue] = list(body.op.body.block.args)
    return any(
        (value in args and loop.steps[args.index(value)] != 0)
        or (
            isinstance(value.owner, linalg.IndexOp)
            and value.owner.dim.value.data in loop.dims
        )
        for value in backward_slice(value)
    )
