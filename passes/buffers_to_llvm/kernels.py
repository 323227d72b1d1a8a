"""
Kernels: a linalg op on buffers as a function of its own.

The function takes pointers, the dynamic sizes and strides, and the values that the body
captures. Pointers are noalias: no op reads elements through one operand that it writes
through another. If several ops share a function (see `loop_fusion`), some pointers are
`aliases`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from xdsl.dialects import arith, llvm, memref
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    IntegerAttr,
    UnitAttr,
    i1,
    i32,
    i64,
)
from xdsl.dialects.linalg import ops as linalg
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.dialects.linalg.attrs import IteratorType
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineDimExpr
from xdsl.utils.exceptions import PassFailedException

from padc.passes.buffers_to_llvm.access_check import AccessCheck
from padc.passes.buffers_to_llvm.bounds import Bounds
from padc.passes.buffers_to_llvm.buffer_descriptor import (
    BufferDescriptor,
    Value,
    stored_bytes,
)
from padc.passes.buffers_to_llvm.kernel_key import KernelKey
from padc.passes.buffers_to_llvm.llvm_builder import (
    POINTER,
    LlvmBuilder,
    Part,
    Size,
    predicate,
)
from padc.passes.buffers_to_llvm.loops import Loop, linear, merged, ordered
from padc.passes.buffers_to_llvm.products.kernel_choice import multiplied_type
from padc.passes.buffers_to_llvm.scalars import lower_scalar
from padc.passes.buffers_to_llvm.sums.extremes import Extreme, extreme_of
from padc.passes.buffers_to_llvm.sums.float_sums import BlockedSum, is_long, is_sum
from padc.passes.buffers_to_llvm.transpositions import transposition_of
from padc.passes.buffers_to_llvm.vector_math import ANGLES
from padc.passes.buffers_to_llvm.work_sharing import (
    ELEMENT_WORK,
    ELEMENTS,
    is_shared,
    items_of,
    product,
    share,
    split_elements,
    split_loop,
    split_range,
    threads_for,
)

WINDOW = 128
"""The most ops of the steps of a window that are joined for each output."""
REPEATS = 8
"""The most steps of an innermost loop that are joined since they read one element."""
COPIED_BYTES = 1 << 15
"""The least bytes of a contiguous copy that C's memcpy makes faster than a loop."""
JAMMED = 4
"""The most steps of a loop that gathers share the places for."""
Places: TypeAlias = "dict[int | tuple[int, int], SSAValue]"
"""Numbers of loops by dimension, and their quotients by dimension and divisor."""


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


def kernel_of(
    op: LinalgStructuredOperation,
    values: Mapping[SSAValue, Value],
    main: LlvmBuilder,
) -> Kernel:
    """
    The kernel of `op`, whose operands are `values` of the function `main`.

    Sums of products have kernels of their own (see `fused_products`).
    """
    operands = [values[x] for x in op.operands]
    loops, firsts = plan(op, operands, main)
    of = KernelKey()
    check = None if main.check is None else main.check.of(op)
    key = of.op(op, values), of.loops(loops), of.sizes(firsts), of.check(check)
    threads = most_threads(op, loops, main)

    def make() -> Outline:
        kernel = Outline(main, check, threads)
        outline(kernel, op, values, loops, firsts)
        return kernel

    return Kernel(key, of.values, make, threads)


def most_threads(
    op: LinalgStructuredOperation, loops: Sequence[Loop], main: LlvmBuilder
) -> Size:
    """The most threads that are worth it for `op`."""
    free = [loop for loop in loops if not loop.reduces]
    outputs = len(op.outputs)
    if not free or any(0 in loop.steps[-outputs:] for loop in free if loop.count != 1):
        return 1
    return threads_for(main, work_of(op, loops, main))


def work_of(
    op: LinalgStructuredOperation, loops: Sequence[Loop], main: LlvmBuilder
) -> Size:
    """About how many products take as long as `op`."""
    steps = product(main, [loop.count for loop in loops])
    if multiplied_type(op) is not None:
        return steps
    names = [inner.name for inner in op.body.walk()]
    each = sum(8 if name.startswith("math.") else 1 for name in names)
    return main.mul(steps, ELEMENT_WORK * each)


def outline(
    kernel: Outline,
    op: LinalgStructuredOperation,
    values: Mapping[SSAValue, Value],
    loops: Sequence[Loop],
    firsts: Sequence[Size],
) -> None:
    """Emit the loops of `op` in `kernel`."""
    sizes = kernel.sizes(firsts)
    loops = [kernel.loop(loop) for loop in loops]
    inner = {x: kernel.value(values[x]) for x in (*op.operands, *captured(op))}
    loops = ordered(loops, len(op.outputs))
    operands = [inner[x] for x in op.operands]
    if (transposition := transposition_of(op, operands, loops)) is not None:
        if kernel.build.check is not None:
            kernel.build.check = kernel.build.check.of(op)
        return transposition.run(kernel.build, sizes)
    loops, jammed = jam(op, loops)
    body = Body(op, kernel, operands, inner, len(op.outputs), extreme_of(op), jammed)
    if loops and is_sum(op) and is_long(loops):
        result = kernel.buffer(values[op.outputs[0]])
        body.sum = BlockedSum(kernel.build, result, not loops[-1].reduces)
    body.share(loops)
    body.nest(loops, sizes, {})


def jam(
    op: LinalgStructuredOperation, loops: Sequence[Loop]
) -> tuple[Sequence[Loop], Loop | None]:
    """
    Take out a loop whose few steps are joined inside of the innermost one.

    This is called unroll and jam. The loop is one along which `op` gathers from the
    same places, so that these are computed only once: the channels of a grid sample.
    """
    if not any(isinstance(x, memref.LoadOp) for x in op.body.walk()):
        return loops, None
    if any(loop.reduces for loop in loops) or any(
        isinstance(x, (*ANGLES, arith.DivUIOp)) for x in op.body.walk()
    ):
        return loops, None
    inputs = len(op.inputs)
    for loop in loops[:-1]:
        is_short = isinstance(loop.count, int) and 1 < loop.count <= JAMMED
        if is_short and inputs and not any(loop.steps[:inputs]):
            return [each for each in loops if each is not loop], loop
    return loops, None


def captured(op: LinalgStructuredOperation) -> list[SSAValue]:
    """The values from outside that the body uses, each once."""
    inside = {op.body.block, *(inner.parent for inner in op.body.walk())}
    values: dict[SSAValue, None] = {}
    for inner in op.body.walk():
        for operand in inner.operands:
            owner = operand.owner
            block = owner.parent if isinstance(owner, Operation) else owner
            if block not in inside:
                values[operand] = None
    return list(values)


def plan(
    op: LinalgStructuredOperation, operands: Sequence[Value], main: LlvmBuilder
) -> tuple[list[Loop], list[Size]]:
    """The loops of `op`, merged if possible, and the first offset of each operand."""
    loops, firsts = loops_of(op, operands, main)
    if any(isinstance(inner, linalg.IndexOp) for inner in op.body.walk()):
        return loops, firsts
    return merged(main, [loop for loop in loops if loop.count != 1]), firsts


def loops_of(
    op: LinalgStructuredOperation, operands: Sequence[Value], main: LlvmBuilder
) -> tuple[list[Loop], list[Size]]:
    """A loop for each dimension of `op`, and the first offset of each operand."""
    kinds = op.get_iterator_types()
    reduces = [kind.data is IteratorType.REDUCTION for kind in kinds]
    rank = len(reduces)
    by_operand: list[list[Size]] = []
    for x, map in zip(operands, op.get_indexing_maps(), strict=True):
        strides = x.strides if isinstance(x, BufferDescriptor) else ()
        by_operand.append(linear(main, map.data.results, strides, rank))
    counts: list[Size] = []
    of = dict(zip(op.operands, operands, strict=True))
    for source in op.get_loop_bound_sources():
        buffer = of[source.operand]
        assert isinstance(buffer, BufferDescriptor)
        counts.append(buffer.sizes[source.dim_index])
    check_sizes(op, operands, counts)
    loops = [
        Loop((i,), counts[i], tuple(steps[i] for steps in by_operand), reduces[i])
        for i in range(rank)
    ]
    return loops, [steps[rank] for steps in by_operand]


def check_sizes(
    op: LinalgStructuredOperation, operands: Sequence[Value], counts: Sequence[Size]
) -> None:
    """Fail if a loop is longer or shorter than a dimension that it alone indexes."""
    for x, map in zip(operands, op.get_indexing_maps(), strict=True):
        if not isinstance(x, BufferDescriptor):
            continue
        for size, index in zip(x.sizes, map.data.results, strict=True):
            if isinstance(index, AffineDimExpr):
                known = isinstance(size, int) and isinstance(
                    counts[index.position], int
                )
                assert not known or size == counts[index.position], (
                    f"{op.name} has a loop over {counts[index.position]} and {size}"
                )


@dataclass
class Body:
    """The loops and the body of a linalg op, inside a kernel."""

    op: LinalgStructuredOperation
    kernel: Outline
    operands: Sequence[Value]
    values: Mapping[SSAValue, Value]
    outputs: int
    extreme: Extreme | None = None
    """The extreme that the reduction loops compute, if any."""
    jammed: Loop | None = None
    """A loop inside of all others, whose steps are joined."""
    sum: BlockedSum | None = None
    """The blocked sum that the reduction loops compute, if any."""

    def share(self, loops: Sequence[Loop]) -> None:
        """Split `loops`, which `nest` then emits, if the work is shared."""
        build = self.kernel.build
        counts = [loop.count for loop in loops if not loop.reduces]
        if loops and not loops[-1].reduces:
            steps = build.floordiv(counts[-1], self.repeats(loops[-1]))
            counts[-1] = items_of(build, steps)
        share(build, counts)

    def nest(
        self,
        loops: Sequence[Loop],
        offsets: Sequence[Size],
        places: Places,
    ) -> None:
        """Emit the loops from here on inwards; operands are at `offsets`."""
        build = self.kernel.build
        if not loops:
            return self.elements(build, offsets, places)
        loop, *rest = loops
        if loop.reduces and self.sum is not None:
            self.check(build)
            return self.sum.run(loops, offsets, self.add)
        if self.extreme is not None and not rest and is_row(loop):
            return self.row(build, self.extreme, loop.count, offsets)
        if self.is_window(loops):
            return self.window(loops, offsets, places)

        def inside(build: LlvmBuilder, place: Size) -> None:
            here = {**places, loop.dims[0]: build.value(place)}
            self.nest(rest, loop.moved(build, offsets, place), here)

        if loop.reduces:
            build.loop(0, loop.count, 1, inside)
        elif rest:
            split_loop(build, loop.count, inside)
        elif self.is_long_copy(loop):
            self.copy(loop, offsets)
        elif any(isinstance(x, ANGLES) for x in self.op.body.walk()):
            self.angles(loop, offsets, places)
        elif (number := self.repeats(loop)) > 1:
            self.repeated(loop, number, offsets, places)
        else:
            split_elements(build, loop.count, inside)

    def repeats(self, loop: Loop) -> int:
        """
        How many steps of an innermost loop in a row read one element.

        Their numbers divided by a constant are the same. It is 1 if that is not used.
        """
        kinds = self.op.get_iterator_types()
        if any(kind.data is IteratorType.REDUCTION for kind in kinds):
            return 1
        ops = list(self.op.body.walk())
        found = [n for x in ops if (n := divisor_of(x, loop.dims[0])) is not None]
        if not found or not isinstance(loop.count, int) or loop.count % found[0]:
            return 1
        # Those with angles are faster in blocks, see `angles`.
        has_angles = any(isinstance(x, ANGLES) for x in ops)
        return 1 if has_angles or found[0] > REPEATS else found[0]

    def repeated(
        self, loop: Loop, number: int, offsets: Sequence[Size], places: Places
    ) -> None:
        """Emit an innermost loop, `number` steps at a time: they share a load."""
        (dim,) = loop.dims

        def inside(build: LlvmBuilder, place: Size) -> None:
            first = build.mul(place, number)
            for step in range(number):
                at = build.value(build.add(first, step))
                here: Places = {dim: at, (dim, number): build.value(place)}
                moved = loop.moved(build, offsets, at)
                self.element(build, moved, {**places, **here})

        assert isinstance(loop.count, int)
        split_elements(self.kernel.build, loop.count // number, inside)

    def is_window(self, loops: Sequence[Loop]) -> bool:
        """Whether all `loops` but the innermost reduce to one element, in few ops."""
        *window, along = loops
        if not window or along.reduces:
            return False
        for loop in window:
            stays = not any(loop.steps[-self.outputs :])
            if not (loop.reduces and stays and isinstance(loop.count, int)):
                return False
        ops = list(self.op.body.walk())
        # Those with angles are faster in blocks, see `angles`.
        has_angles = any(isinstance(x, ANGLES) for x in ops)
        number = math.prod(map(count, window)) * len(ops)
        return 0 < number <= WINDOW and not has_angles

    def window(
        self,
        loops: Sequence[Loop],
        offsets: Sequence[Size],
        places: Places,
    ) -> None:
        """Emit a loop along the outputs, in which all steps of a window are joined."""
        *window, along = loops
        ranges = [range(count(loop)) for loop in window]

        def inside(build: LlvmBuilder, place: Size) -> None:
            first = along.moved(build, offsets, place)
            here = {**places, along.dims[0]: build.value(place)}
            steps: list[tuple[Sequence[Size], Places]] = []
            for numbers in itertools.product(*ranges):
                at = first
                for loop, number in zip(window, numbers, strict=True):
                    at = loop.moved(build, at, number)
                    here[loop.dims[0]] = build.value(number)
                steps.append((at, dict(here)))
            if self.extreme is None:
                self.store(build, first, self.joined(build, steps))
            else:
                values = [self.load(build, 0, at) for at, _ in steps]
                found = self.extreme.of_values(build, values)
                self.join(build, self.extreme.op, found, first)

        split_elements(self.kernel.build, along.count, inside)

    def joined(
        self,
        build: LlvmBuilder,
        steps: Sequence[tuple[Sequence[Size], Places]],
    ) -> Sequence[SSAValue]:
        """One element of each output, after steps with these offsets and places."""
        outs = self.op.body.block.args[-self.outputs :]
        (first, here), *others = steps
        values = self.results(build, first, here, {})
        for at, here in others:
            given = dict[SSAValue, SSAValue](zip(outs, values, strict=True))
            values = self.results(build, at, here, given)
        return values

    def is_long_copy(self, loop: Loop) -> bool:
        """
        Whether an innermost loop copies many contiguous elements.

        Checked code copies element by element.
        """
        if not isinstance(loop.count, int) or self.kernel.build.check is not None:
            return False
        first, args = self.op.body.block.first_op, self.op.body.block.args
        if not isinstance(first, linalg.YieldOp) or len(self.operands) != 2:
            return False
        source, result = self.operands
        return (
            list(first.operands) == [args[0]]
            and isinstance(source, BufferDescriptor)
            and isinstance(result, BufferDescriptor)
            and source.memory is not result.memory
            and tuple(loop.steps) == (1, 1)
            and loop.count * stored_bytes(result.element_type) >= COPIED_BYTES
        )

    def copy(self, loop: Loop, offsets: Sequence[Size]) -> None:
        """Copy the elements of an innermost loop: memcpy knows the CPU's caches."""
        build, (source, result) = self.kernel.build, self.operands
        assert isinstance(source, BufferDescriptor)
        assert isinstance(result, BufferDescriptor)

        def part(first: Size, number: Size) -> None:
            addresses = [
                build.address(x.pointer, build.add(offset, first), x.element_type)
                for x, offset in zip((result, source), offsets[::-1], strict=True)
            ]
            bytes = build.mul(number, stored_bytes(result.element_type))
            is_volatile = build.insert(llvm.ConstantOp(IntegerAttr(0, i1), i1))
            args = [*addresses, build.value(bytes), is_volatile]
            build.do(llvm.CallIntrinsicOp("llvm.memcpy.p0.p0.i64", args, []))

        split_range(build, loop.count, part)

    def angles(self, loop: Loop, offsets: Sequence[Size], places: Places) -> None:
        """
        Emit an innermost loop with sines and cosines, in blocks of `ELEMENTS`.

        A loop finds out whether a block has large angles. If not, faster code computes
        the block.
        """

        def block(build: LlvmBuilder, number: Size) -> None:
            begin = build.mul(number, ELEMENTS)
            left = build.sub(loop.count, begin)
            if isinstance(loop.count, int) and loop.count <= ELEMENTS:
                left = loop.count
            count = build.minimum(left, ELEMENTS)

            def at(place: SSAValue) -> tuple[list[Size], Places]:
                here = build.value(build.add(begin, place))
                moved = loop.moved(build, offsets, here)
                return moved, {**places, loop.dims[0]: here}

            def found(place: SSAValue, carried: Sequence[SSAValue]) -> list[SSAValue]:
                build.large_angles = []
                self.results(build, *at(place), {})
                (result,) = carried
                for is_large in build.large_angles:
                    bit = build.insert(llvm.ZExtOp(is_large, i32))
                    result = build.insert(llvm.OrOp(result, bit))
                build.large_angles = None
                return [result]

            def computed(is_small: bool) -> None:
                build.large_angles = [] if is_small else None
                build.loop(
                    0, count, 1, lambda build, place: self.element(build, *at(place))
                )
                build.large_angles = None

            (large,) = build.carry(count, [build.number(0)], found)
            none = build.insert(llvm.ICmpOp(large, build.number(0), predicate("eq")))
            build.either(none, lambda: computed(True), lambda: computed(False))

        split_loop(self.kernel.build, items_of(self.kernel.build, loop.count), block)

    def row(
        self, build: LlvmBuilder, extreme: Extreme, count: Size, offsets: Sequence[Size]
    ) -> None:
        """Join the extreme of a row with the one so far."""
        self.check(build)
        x = self.operands[0]
        assert isinstance(x, BufferDescriptor)
        found = extreme.of_row(build, x, offsets[0], count)
        self.join(build, extreme.op, found, offsets)

    def join(
        self, build: LlvmBuilder, op: Operation, found: SSAValue, at: Sequence[Size]
    ) -> None:
        """Join an extreme with the one so far by `op`."""
        old = self.load(build, len(at) - 1, at)
        self.store(build, at, [lower_scalar(build, op, [found, old])])

    def load(self, build: LlvmBuilder, number: int, at: Sequence[Size]) -> SSAValue:
        """Load the element of operand `number`, a buffer, at offset `at[number]`."""
        self.check(build)
        x = self.operands[number]
        assert isinstance(x, BufferDescriptor)
        return x.load(build, build.address(x.pointer, at[number], x.element_type))

    def check(self, build: LlvmBuilder) -> None:
        """Let checks of accesses name the op, if there are any."""
        if build.check is not None:
            build.check = build.check.of(self.op)

    def add(self, offsets: Sequence[Size], sum: SSAValue) -> SSAValue:
        """`sum`, in place of the element of the result, plus one term."""
        out = self.op.body.block.args[-1]
        (result,) = self.results(self.kernel.build, offsets, {}, {out: sum})
        return result

    def elements(
        self, build: LlvmBuilder, offsets: Sequence[Size], places: Places
    ) -> None:
        """Compute the elements of each output of all steps of the jammed loop."""
        if self.jammed is None:
            return self.element(build, offsets, places)
        dim, *_ = self.jammed.dims  # If it is merged, the body uses no numbers.
        for number in range(count(self.jammed)):
            here = {**places, dim: build.value(number)}
            self.element(build, self.jammed.moved(build, offsets, number), here)

    def element(
        self, build: LlvmBuilder, offsets: Sequence[Size], places: Places
    ) -> None:
        """Compute one element of each output."""
        self.store(build, offsets, self.results(build, offsets, places, {}))

    def store(
        self, build: LlvmBuilder, offsets: Sequence[Size], results: Sequence[SSAValue]
    ) -> None:
        """Store one element of each output."""
        for result, x, offset in zip(
            results,
            self.operands[-self.outputs :],
            offsets[-self.outputs :],
            strict=True,
        ):
            assert isinstance(x, BufferDescriptor)
            address = build.address(x.pointer, offset, x.element_type)
            x.store(build, result, address)

    def results(
        self,
        build: LlvmBuilder,
        offsets: Sequence[Size],
        places: Places,
        given: Mapping[SSAValue, SSAValue],
    ) -> list[SSAValue]:
        """The values of the body; elements of operands are loaded unless `given`."""
        block = self.op.body.block
        self.check(build)
        values = {**self.values, **given}
        for arg, x, offset in zip(block.args, self.operands, offsets, strict=True):
            if not isinstance(x, BufferDescriptor):
                values[arg] = x
            elif arg.first_use is not None and arg not in given:
                address = build.address(x.pointer, offset, x.element_type)
                values[arg] = x.load(build, address)
        for op in block.ops:
            match op:
                case linalg.YieldOp():
                    break
                case linalg.IndexOp():
                    values[op.result] = places[op.dim.value.data]
                case arith.DivUIOp() if (key := quotient_of(op)) in places:
                    values[op.result] = places[key]
                case memref.LoadOp():
                    buffer = values[op.memref]
                    assert isinstance(buffer, BufferDescriptor)
                    indices = [size(values[index]) for index in op.indices]
                    address = buffer.element(build, indices)
                    values[op.res] = buffer.load(build, address)
                case memref.DimOp():
                    values[op.result] = dim(values, op)
                case _:
                    args = [scalar(build, values[x]) for x in op.operands]
                    is_sum = self.is_sum(op)
                    values[op.results[0]] = lower_scalar(build, op, args, is_sum)
        end = block.last_op
        assert isinstance(end, linalg.YieldOp)
        return [scalar(build, values[x]) for x in end.operands]

    def is_sum(self, op: Operation) -> bool:
        """Whether `op` adds to an output, or computes a product that is then added."""
        block = self.op.body.block
        adds = isinstance(op, arith.AddfOp) and any(
            x in block.args[-self.outputs :] for x in op.operands
        )
        uses = list(op.results[0].uses)
        return adds or (
            isinstance(op, arith.MulfOp)
            and len(uses) == 1
            and isinstance(uses[0].operation, arith.AddfOp)
            and self.is_sum(uses[0].operation)
        )


def quotient_of(op: arith.DivUIOp) -> tuple[int, int]:
    """The loop whose number `op` divides, and the constant divisor; (-1, 0) if none."""
    match op.lhs.owner, op.rhs.owner:
        case linalg.IndexOp() as index, arith.ConstantOp(value=IntegerAttr() as number):
            return index.dim.value.data, number.value.data
        case _:
            return -1, 0


def divisor_of(op: Operation, dim: int) -> int | None:
    """The constant by which `op` divides the number of a loop, if it does."""
    if not isinstance(op, arith.DivUIOp):
        return None
    found, divisor = quotient_of(op)
    return divisor if found == dim else None


def is_row(loop: Loop) -> bool:
    """Whether a loop reduces contiguous elements of the first input to one output."""
    return loop.reduces and loop.steps[0] == 1 and loop.steps[-1] == 0


def count(loop: Loop) -> int:
    """The number of steps of a loop, which is known."""
    assert isinstance(loop.count, int)
    return loop.count


def scalar(build: LlvmBuilder, value: Value) -> SSAValue:
    assert not isinstance(value, BufferDescriptor)
    return build.value(value)


def size(value: Value) -> Size:
    assert not isinstance(value, BufferDescriptor)
    return value


def dim(values: Mapping[SSAValue, Value], op: memref.DimOp) -> Size:
    buffer, number = values[op.source], values[op.index]
    assert isinstance(buffer, BufferDescriptor)
    if not isinstance(number, int) or not 0 <= number < len(buffer.sizes):
        raise PassFailedException(
            f"'memref.dim' needs a constant below the rank, {len(buffer.sizes)}"
        )
    return buffer.sizes[number]
