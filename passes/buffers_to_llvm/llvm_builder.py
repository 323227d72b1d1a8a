"""Building ops of LLVM's dialect: arithmetic, memory, loops."""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

from xdsl.dialects import llvm
from xdsl.dialects.builtin import (
    BFloat16Type,
    IndexType,
    IntegerAttr,
    IntegerType,
    Signedness,
    i1,
    i8,
    i16,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from padc.ir import arithmetic
from padc.ir.arithmetic import IntegerBuilder
from padc.passes.buffers_to_llvm.access_check import AccessCheck

AnyInteger: TypeAlias = IntegerType[int, Signedness]
Size: TypeAlias = int | SSAValue
"""A size, stride or index: a Python integer, or a value of type i64."""

POINTER = llvm.LLVMPointerType()
GRAIN = 1 << 16
"""The least work of a thread, in products: 2 to 6 microseconds."""


def value_type(type: Attribute) -> Attribute:
    """The type that LLVM computes with: i64 for index, i16 (the bits) for bf16."""
    match type:
        case IndexType():
            return i64
        case BFloat16Type():
            return i16
        case _:
            return type


def stored_type(type: Attribute) -> Attribute:
    """The type in memory: i8 for i1."""
    return i8 if type == i1 else value_type(type)


def predicate(name: str) -> IntegerAttr[IntegerType]:
    return IntegerAttr(llvm.ICmpPredicateFlag(name).to_int(), i64)


@dataclass(frozen=True)
class Part:
    """Which part of its work a call of a kernel does: see `work_sharing`."""

    number: SSAValue
    count: SSAValue


@dataclass(frozen=True)
class Span:
    """Consecutive items of nested loops that are split: see `work_sharing`."""

    begin: Size
    end: Size
    counts: Sequence[Size]
    """The steps of each split loop, from the current one inwards."""


@dataclass
class LlvmBuilder(IntegerBuilder):
    """Inserts ops at the end of `block`, then of new blocks of `region`."""

    region: Region
    block: Block
    constants: dict[Hashable, SSAValue] = field(
        default_factory=dict[Hashable, SSAValue]
    )
    """By the integer for an i64, otherwise by a key of `known`."""
    products: dict[tuple[Size, Size], SSAValue] = field(
        default_factory=dict[tuple[Size, Size], SSAValue]
    )
    """Products of sizes: equal products are one value, so that they compare equal."""
    check: AccessCheck | None = None
    """How loads and stores are checked; None if they are not."""
    grain: int = GRAIN
    """The least work of a thread, for the kernels that the function calls."""
    vector_bytes: int = 16
    """The bytes of a vector of the CPU."""
    part: Part | None = None
    """Which part of its work the function does; None if all."""
    large_arguments: list[SSAValue] | None = None
    """
    Collects whether arguments are large, for code of sines and others of small ones.

    None for code that is right for all arguments.
    """
    span: Span | None = None
    """The items of the loop that comes next, if it is split."""

    def insert(self, op: Operation) -> SSAValue:
        self.block.add_op(op)
        return op.results[0]

    def do(self, op: Operation) -> None:
        self.block.add_op(op)

    def new_block(self, *arg_types: Attribute) -> Block:
        block = Block(arg_types=arg_types)
        self.region.add_block(block)
        return block

    def value(self, size: Size) -> SSAValue:
        if isinstance(size, SSAValue):
            return size
        if size not in self.constants:
            constant = llvm.ConstantOp(IntegerAttr(size, i64), i64)
            self.constants[size] = self.insert(constant)
        return self.constants[size]

    def known(self, key: Hashable, make: Callable[[], SSAValue]) -> SSAValue:
        """The value stored under a key; it is created at first use."""
        if key not in self.constants:
            self.constants[key] = make()
        return self.constants[key]

    def number(self, value: int) -> SSAValue:
        """A constant of type i32."""

        def constant() -> SSAValue:
            return self.insert(llvm.ConstantOp(IntegerAttr(value, i32), i32))

        return self.known(("i32", value), constant)

    def evaluate(self, operation: arithmetic.Operation, a: Size, b: Size) -> Size:
        """The result of an operation; no quotient is of negative numbers."""
        x, y = self.value(a), self.value(b)
        match operation:
            case "mul":
                if (a, b) not in self.products:
                    product = self.insert(llvm.MulOp(x, y))
                    self.products[a, b] = self.products[b, a] = product
                return self.products[a, b]
            case "min" | "max":
                name = f"llvm.s{operation}.i64"
                return self.insert(llvm.CallIntrinsicOp(name, [x, y], [i64]))
            case "add":
                return self.insert(llvm.AddOp(x, y))
            case "sub":
                return self.insert(llvm.SubOp(x, y))
            case "floordiv":
                return self.insert(llvm.UDivOp(x, y))

    def dot(self, places: Sequence[Size], strides: Sequence[Size]) -> Size:
        """The offset of the element with the indices `places`, in elements."""
        total: Size = 0
        for place, stride in zip(places, strides, strict=True):
            total = self.add(total, self.mul(place, stride))
        return total

    def address(self, pointer: SSAValue, offset: Size, type: Attribute) -> SSAValue:
        """The address `offset` elements of `type` after `pointer`."""
        if offset == 0:
            return pointer
        gep = llvm.GEPOp(
            pointer,
            [llvm.GEP_USE_SSA_VAL],
            stored_type(type),
            [self.value(offset)],
            # Otherwise LLVM could assume that checks succeed.
            inbounds=self.check is None,
        )
        return self.insert(gep)

    def load(self, address: SSAValue, type: Attribute) -> SSAValue:
        """A value in memory that is not checked: `BufferDescriptor` loads elements."""
        value = self.insert(llvm.LoadOp(address, stored_type(type)))
        if type != i1:
            return value
        zero = self.insert(llvm.ConstantOp(IntegerAttr(0, i8), i8))
        return self.insert(llvm.ICmpOp(value, zero, predicate("ne")))

    def store(self, value: SSAValue, address: SSAValue) -> None:
        """Store a value in memory that is not checked, see `load`."""
        if value.type == i1:
            value = self.insert(llvm.ZExtOp(value, i8))
        self.do(llvm.StoreOp(value, address))

    def prefetch(self, address: SSAValue) -> None:
        """Load the cache line of `address`, which will be written."""
        # To write; into all caches; data.
        numbers = [self.number(number) for number in (1, 3, 1)]
        self.do(llvm.CallIntrinsicOp("llvm.prefetch.p0", [address, *numbers], []))

    @contextmanager
    def scope(self) -> Generator[None]:
        """Forget values at the end that were computed inside, where they dominate."""
        known = dict(self.constants), dict(self.products)
        yield
        self.constants, self.products = known

    def loop(
        self,
        first: Size,
        end: Size,
        step: Size,
        body: Callable[[LlvmBuilder, SSAValue], None],
    ) -> None:
        """Loop from `first` to `end`, exclusive, by `step`."""
        head, inside, after = self.new_block(i64), self.new_block(), self.new_block()
        end_value, step_value = self.value(end), self.value(step)
        self.do(llvm.BrOp(head, self.value(first)))
        (place,) = head.args
        self.block = head
        more = self.insert(llvm.ICmpOp(place, end_value, predicate("slt")))
        self.do(llvm.CondBrOp(more, inside, [], after, []))
        self.block = inside
        with self.scope():
            body(self, place)
            self.do(llvm.BrOp(head, self.insert(llvm.AddOp(place, step_value))))
        self.block = after

    def either(
        self, condition: SSAValue, yes: Callable[[], None], no: Callable[[], None]
    ) -> None:
        """Run `yes` if the condition is true, else `no`."""
        first, second, after = self.new_block(), self.new_block(), self.new_block()
        self.do(llvm.CondBrOp(condition, first, [], second, []))
        for block, body in ((first, yes), (second, no)):
            self.block = block
            with self.scope():
                body()
                self.do(llvm.BrOp(after))
        self.block = after

    def carry(
        self,
        count: Size,
        values: Sequence[SSAValue],
        body: Callable[[SSAValue, Sequence[SSAValue]], Sequence[SSAValue]],
    ) -> list[SSAValue]:
        """Loop from 0 to `count`, exclusive, carrying `values` through `body`."""
        types = [value.type for value in values]
        head, inside = self.new_block(i64, *types), self.new_block()
        after = self.new_block()
        end, one = self.value(count), self.value(1)
        self.do(llvm.BrOp(head, self.value(0), *values))
        place, *carried = head.args
        self.block = head
        more = self.insert(llvm.ICmpOp(place, end, predicate("slt")))
        self.do(llvm.CondBrOp(more, inside, [], after, []))
        self.block = inside
        with self.scope():
            results = body(place, carried)
            next_place = self.insert(llvm.AddOp(place, one))
            self.do(llvm.BrOp(head, next_place, *results))
        self.block = after
        return list(carried)
