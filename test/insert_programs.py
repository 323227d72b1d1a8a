# pyright: basic
"""Random programs that write strided parts of tensors, and PyTorch's results.

`aten.slice_scatter` becomes a `tensor.insert_slice` like these.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from tcp_programs import Draw
from torch import Tensor
from xdsl.builder import Builder
from xdsl.dialects.builtin import FunctionType, IndexType, ModuleOp, f32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue
from xdsl.rewriter import InsertPoint

from padc.ir import tcp
from padc.ir.tcp import Amount
from padc.passes.common.linalg_builder import LinalgBuilder


@dataclass(frozen=True)
class Value:
    """A tensor of the program, and the elements that it has."""

    ssa: SSAValue
    elements: Tensor


@dataclass(frozen=True)
class Part:
    """Offset, size and stride in each dimension."""

    offsets: list[int]
    sizes: list[int]
    strides: list[int]

    @property
    def slices(self) -> tuple[slice, ...]:
        return tuple(
            slice(offset, offset + (size - 1) * stride + 1, stride)
            for offset, size, stride in zip(
                self.offsets, self.sizes, self.strides, strict=True
            )
        )


@dataclass
class Inserts:
    """A program while it is drawn."""

    draw: Draw
    often: float
    """How often offsets and strides are dynamic."""
    block: Block = field(default_factory=Block)
    values: list[Value] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.build = LinalgBuilder(Builder(InsertPoint.at_end(self.block)))

    def made(self, ssa: SSAValue, elements: Tensor) -> Value:
        self.values.append(Value(ssa, elements))
        return self.values[-1]

    def argument(self, shape: list[int]) -> Value:
        elements = self.draw.numbers(shape, torch.float32)
        dynamic = [self.draw.random.random() < self.often for _ in shape]
        number = self.draw.tensor(elements, dynamic)
        return self.made(
            self.block.insert_arg(self.draw.types[number], number), elements
        )

    def amount(self, amount: int) -> Amount:
        if self.draw.random.random() >= self.often:
            return amount
        self.draw.inputs.append(amount)
        self.draw.types.append(IndexType())
        return self.block.insert_arg(IndexType(), len(self.block.args))

    def computed(self, x: Value) -> Value:
        """A new tensor that is equal to `x`."""
        ones, dims = [1] * x.elements.dim(), list(range(x.elements.dim()))
        pool = tcp.MaxPoolOp(x.ssa, ones, ones, ones, dims, tcp.tensor_type(x.ssa))
        return self.made(self.build.insert(pool), x.elements)

    def filled(self, shape: list[int], number: float) -> Value:
        fill = self.build.constant(number, f32)
        sizes = [self.amount(size) for size in shape]
        return self.made(self.build.filled(sizes, fill), torch.full(shape, number))

    def part(self, shape: list[int]) -> Part:
        part = Part([], [], [])
        for full in shape:
            stride = self.draw.choice([1, 2, 2, 3])
            size = self.draw.integer(1, (full - 1) // stride + 1)
            last = full - 1 - (size - 1) * stride
            part.offsets.append(self.draw.integer(0, last))
            part.sizes.append(size)
            part.strides.append(stride)
        return part

    def piece(self, shape: list[int], depth: int) -> Value:
        """A tensor to be inserted."""
        match self.draw.integer(0, 5):
            case 0 | 1:
                return self.argument(shape)
            case 2:
                return self.filled(shape, 2.0)
            case 3 if depth > 0:
                return self.inserted(shape, depth - 1)
            case _:
                return self.computed(self.argument(shape))

    def inserted(self, shape: list[int], depth: int) -> Value:
        """A tensor into which strided parts are inserted, made in another order."""
        parts = [self.part(shape) for _ in range(self.draw.choice([2, 2, 3, 4]))]
        early = [i for i in range(len(parts)) if self.draw.integer(0, 4)]
        self.draw.random.shuffle(early)
        made = {i: self.piece(parts[i].sizes, depth) for i in early}
        whole = (
            self.filled(shape, 0.0)
            if self.draw.integer(0, 5)
            else self.computed(self.argument(shape))
        )
        for i, part in enumerate(parts):
            piece = made[i] if i in made else self.piece(part.sizes, depth)
            whole = self.insert(piece, whole, part)
        return whole

    def insert(self, piece: Value, whole: Value, part: Part) -> Value:
        elements = whole.elements.clone()
        elements[part.slices] = piece.elements
        inserted = self.build.insert_slice(
            piece.ssa,
            whole.ssa,
            [self.amount(offset) for offset in part.offsets],
            self.build.sizes(piece.ssa),
            [self.amount(stride) for stride in part.strides],
        )
        return self.made(inserted, elements)


def make_inserts(draw: Draw) -> tuple[ModuleOp, tuple[Tensor, ...]]:
    """A program, and its results for the inputs that are drawn."""
    program = Inserts(draw, draw.choice([0.0, 0.0, 0.2]))
    results: list[Value] = []
    for _ in range(3):
        shape = draw.integers(draw.choice([1, 1, 1, 2]), 4, 12)
        results.append(program.inserted(shape, draw.integer(0, 1)))
    if draw.integer(0, 1):
        results.append(program.computed(draw.choice(program.values)))
    block = program.block
    block.add_op(ReturnOp(*(result.ssa for result in results)))
    type = FunctionType.from_lists(draw.types, [x.ssa.type for x in results])
    module = ModuleOp([FuncOp("main", type, Region(block))])
    module.verify()
    return module, tuple(result.elements for result in results)
