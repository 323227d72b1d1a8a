# pyright: basic
"""Random programs of pads, constants and concatenations mean the same when canonical."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IndexType,
    IntegerAttr,
    ModuleOp,
    NoneAttr,
    TensorType,
    f32,
    i1,
    i64,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.transforms.canonicalize import CanonicalizePass

from padc.backends.reference import run
from padc.ir import tcp
from padc.ir.tcp import Amount, tensor_type
from padc.ir.tcp.pad_patterns import full_value
from padc.ir.torch import (
    AtenOp,
    ConstantFloatOp,
    ConstantIntOp,
    ConstantNoneOp,
    FromBuiltinTensorOp,
    ListConstructOp,
    LiteralOp,
    ToBuiltinTensorOp,
    VTensorType,
    aten_op,
    vtensor_type,
)

PROGRAMS = int(os.environ.get("PADC_PROGRAMS", "240"))
SHARES = 4
ELEMENT_TYPES = (f32, f32, i64, i1)


class Program:
    """A program while it grows. Its tensors have two dimensions."""

    def __init__(self, draw: random.Random):
        self.draw = draw
        self.element_type: Attribute = draw.choice(ELEMENT_TYPES)
        self.is_float = self.element_type == f32
        dynamic = draw.random() < 0.4
        self.shape = (draw.randint(0, 4), draw.randint(1, 4))
        static = tuple(
            DYNAMIC_INDEX if dynamic and draw.random() < 0.5 else size
            for size in self.shape
        )
        types = [TensorType(self.element_type, static), IndexType(), self.fill_type]
        self.block = Block(arg_types=types)
        self.build = Builder(InsertPoint.at_end(self.block))
        self.shapes: dict[SSAValue, tuple[int, ...]] = {self.block.args[0]: self.shape}
        for _ in range(draw.randint(2, 6)):
            make = draw.choice(
                [self.pad] * 4 + [self.border] * 4 + [self.cat, self.constant]
            )
            make()
        results = [x for x in self.shapes if x.first_use is None] or list(self.shapes)
        self.build.insert(ReturnOp(*results))
        outputs = [x.type for x in results]
        self.module = ModuleOp([FuncOp("main", (types, outputs), Region(self.block))])
        self.module.verify()

    @property
    def fill_type(self) -> Attribute:
        return tcp.fill_type(self.element_type)

    def fill(self) -> SSAValue:
        if self.draw.random() < 0.15:
            return self.block.args[2]
        value = self.draw.choice([0, 0, 0, 1, 5])
        if self.is_float:
            number = self.draw.choice([value, value, -0.0, float("nan")])
            constant = ConstantOp(FloatAttr(float(number), f32))
        else:
            value = value % 2 if self.element_type == i1 else value
            type: Any = self.fill_type
            constant = ConstantOp(IntegerAttr(value, type))
        return self.build.insert(constant).result

    def amount(self, value: int) -> Amount:
        """A number; or a constant, or the argument, of that value."""
        if value == 1 and self.draw.random() < 0.1:
            return self.block.args[1]
        if self.draw.random() < 0.15:
            return self.build.insert(
                ConstantOp(IntegerAttr.from_index_int_value(value))
            ).result
        return value

    def operand(self) -> SSAValue:
        """A value; often the last one, which makes chains."""
        values = list(self.shapes)
        return values[-1] if self.draw.random() < 0.7 else self.draw.choice(values)

    def add(self, op: tcp.PadOp | tcp.BorderPadOp, shape: Sequence[int]) -> SSAValue:
        # A result may be declared more static than it is inferred.
        if self.draw.random() < 0.2:
            static = TensorType(self.element_type, shape)
            Rewriter.replace_value_with_new_type(op.result, static)
        result = self.build.insert(op).results[0]
        self.shapes[result] = tuple(shape)
        return result

    def pad(self, x: SSAValue | None = None, fill: SSAValue | None = None) -> SSAValue:
        x = self.operand() if x is None else x
        draw, shape = self.draw, self.shapes[x]
        mode = draw.choice(["crop", "grow", "any", "spread", "away"])
        lower, upper, interior, after = [], [], [], []
        for size in shape:
            between = draw.choice([0, 1, 2]) if mode == "spread" else 0
            spread = size + max(size - 1, 0) * between
            low, high = {
                "crop": (-1, 0), "grow": (0, 2), "any": (-2, 2), "spread": (-2, 2),
                "away": (-spread, 2),
            }[mode]  # fmt: skip
            a, b = draw.choice(
                [(0, 0), (draw.randint(low, high), draw.randint(low, high))]
            )
            if mode == "away":
                a, b = draw.choice([(-spread, 2), (2, -spread), (0, 0)])
            if max(-a, 0) + max(-b, 0) > spread:
                a, b = 0, 0
            lower.append(self.amount(a))
            upper.append(self.amount(b))
            interior.append(self.amount(between) if between else 0)
            after.append(spread + a + b)
        fill = self.fill() if fill is None else fill
        return self.add(tcp.PadOp(x, fill, lower, upper, interior), after)

    def border(self) -> None:
        x = self.operand()
        kind = self.draw.choice(tcp.BORDER_PADS)
        lower, upper, after = [], [], []
        for size in self.shapes[x]:
            while True:
                low, high = self.draw.choice(
                    [(0, 0), (self.draw.randint(-2, 3), self.draw.randint(-2, 3))]
                )
                try:
                    if (low, high) != (0, 0):
                        kind.check_amounts(size, low, high)
                except ValueError:
                    continue
                break
            lower.append(self.amount(low))
            upper.append(self.amount(high))
            after.append(size + low + high)
        self.add(kind(x, lower, upper), after)

    def constant(self) -> None:
        """A literal, or a tensor that an op of ATen fills."""
        draw, shape = self.draw, (draw_size(self.draw), draw_size(self.draw))
        type = vtensor_type(TensorType(self.element_type, shape))
        if draw.random() < 0.5:
            numbers = [draw.randint(0, 1) for _ in range(shape[0] * shape[1])]
            elements: Any = [float(n) for n in numbers] if self.is_float else numbers
            signless: Any = TensorType(self.fill_type, shape)
            signed: Any = TensorType(type.element_type, shape)
            values = DenseIntOrFPElementsAttr.from_list(signless, elements)
            data = DenseIntOrFPElementsAttr(signed, values.data)
            x = self.build.insert(LiteralOp(data)).result
        else:
            sizes = [self.build.insert(ConstantIntOp(n)).result for n in shape]
            list_op = self.build.insert(ListConstructOp(sizes, sizes[0].type))
            none = self.build.insert(ConstantNoneOp()).result
            name, values = draw.choice([("ones", []), ("zeros", []), ("full", [1, 2])])
            if values:
                number = draw.choice([0, 1, 1, 5])
                made = (
                    ConstantFloatOp(float(number))
                    if self.is_float and draw.random() < 0.8
                    else ConstantIntOp(number)
                )
                values = [self.build.insert(made).results[0]]
            code = {f32: 6, i1: 11}.get(self.element_type, 4)
            dtype = self.build.insert(ConstantIntOp(code)).result
            operands = [list_op.result, *values, dtype, none, none, none]
            op: AtenOp = aten_op(f"aten.{name}", operands, [type])
            x = self.build.insert(op).results[0]
        result = self.build.insert(ToBuiltinTensorOp(x)).result
        self.shapes[result] = shape

    def cat(self) -> None:
        """Two or three pads, or other values, side by side."""
        draw, dim = self.draw, self.draw.choice([0, 1])
        x, fill = self.operand(), self.fill()
        same = draw.random() < 0.8
        kept = [draw.randint(0, 1) for _ in range(2)]
        parts: list[SSAValue] = []
        for _ in range(draw.choice([2, 2, 3])):
            amounts = [[0, kept[0]], [0, kept[1]]]
            outer = draw.choice([0, 0, 0, 1])
            amounts[dim] = [outer if not parts else 0, 0]
            size = list(self.shapes[x])
            shape = [n + a + b for n, (a, b) in zip(size, amounts)]
            lower, upper = zip(*amounts)
            own = fill if same or draw.random() < 0.7 else self.fill()
            if draw.random() < 0.1 and shape == size:
                parts.append(x)
                continue
            op = tcp.PadOp(
                x, own, [self.amount(a) for a in lower], [self.amount(b) for b in upper]
            )
            parts.append(self.add(op, shape))
        if draw.random() < 0.3:
            amounts = [0, 0]
            amounts[dim] = draw.choice([1, 2])
            last = parts[-1]
            shape = [n + a for n, a in zip(self.shapes[last], amounts)]
            parts[-1] = self.add(tcp.PadOp(last, fill, [0, 0], amounts), shape)
        shape = list(self.shapes[parts[0]])
        shape[dim] = sum(self.shapes[part][dim] for part in parts)
        casts = [self.build.insert(FromBuiltinTensorOp(part)).result for part in parts]
        any_tensor = VTensorType(NoneAttr(), NoneAttr())
        joined = self.build.insert(ListConstructOp(casts, any_tensor)).result
        number = self.build.insert(ConstantIntOp(dim - draw.choice([0, 2]))).result
        shapes = [tensor_type(part).get_shape() for part in parts]
        static = [max(sizes) for sizes in zip(*shapes)]
        along = [sizes[dim] for sizes in shapes]
        static[dim] = DYNAMIC_INDEX if DYNAMIC_INDEX in along else sum(along)
        type = vtensor_type(TensorType(self.element_type, static))
        whole = self.build.insert(
            aten_op("aten.cat", [joined, number], [type])
        ).results[0]
        result = self.build.insert(ToBuiltinTensorOp(whole)).result
        self.shapes[result] = tuple(shape)


def draw_size(draw: random.Random) -> int:
    return draw.randint(1, 3)


def outcome(program: Program) -> Sequence[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(0, 9, program.shape, generator=generator)
    dtype = {f32: torch.float32, i1: torch.bool}.get(program.element_type, torch.int64)
    fill = {f32: 7.0, i1: True}.get(program.element_type, 7)
    return run(program.module, x.to(dtype), 1, fill)


@pytest.mark.parametrize("share", range(SHARES))
def test_canonical_programs_mean_the_same(share: int, ctx: Context):
    smaller = 0
    for number in range(share, PROGRAMS, SHARES):
        program = Program(random.Random(number))
        count = len(list(program.module.walk()))
        expected = outcome(program)

        CanonicalizePass().apply(ctx, program.module)

        program.module.verify()
        smaller += len(list(program.module.walk())) < count
        for is_, should in zip(outcome(program), expected, strict=True):
            torch.testing.assert_close(
                is_.contiguous().view(torch.uint8),
                should.contiguous().view(torch.uint8),
                rtol=0,
                atol=0,
                msg=lambda given: (
                    f"{number}: {given}\n{Program(random.Random(number)).module}\n"
                    f"{program.module}"
                ),
            )
    assert smaller > PROGRAMS // SHARES // 4


def test_the_elements_of_an_argument_are_not_known():
    block = Block(arg_types=[VTensorType.get(f32, (2,))])

    assert full_value(block.args[0]) is None
