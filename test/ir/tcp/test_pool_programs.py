# pyright: basic
"""Random pools of pads give the same results when canonical."""

import random
from collections.abc import Sequence
from typing import Any

import torch
from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, ModuleOp, TensorType, f32, i64
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region
from xdsl.rewriter import InsertPoint
from xdsl.transforms.canonicalize import CanonicalizePass

from padc.backends.reference import run
from padc.ir import tcp
from padc.ir.element_types import least_value
from padc.ir.padding import conv_output_size, padded_size

PROGRAMS = 300


class Case:
    """A pool, in one or two dimensions, of a pad that may be all that it sees."""

    def __init__(self, draw: random.Random):
        self.kind = draw.choice([tcp.MaxPoolOp, tcp.ArgMaxPoolOp, tcp.AvgPoolOp])
        self.type = draw.choice([f32, f32, i64])
        self.shape = [draw.randint(1, 4) for _ in range(draw.choice([1, 2]))]
        lower, upper, kernel, strides, dilations, uncounted = [], [], [], [], [], []
        self.result = []
        for size in self.shape:
            while True:
                low, high = draw.randint(-1, 9), draw.randint(-1, 9)
                padded = padded_size(size, low, high)
                window = (draw.randint(1, 12), draw.randint(1, 4), draw.randint(1, 3))
                count = conv_output_size(padded, *window)
                if count > 0 and max(-low, 0) + max(-high, 0) < size:
                    break
            self.result.append(count)
            for each, amount in zip(
                (lower, upper, kernel, strides, dilations), (low, high, *window)
            ):
                each.append(amount)
            most = [max(low, 0), max(high, 0)]
            of_argument = [draw.randint(0, n) for n in most]
            uncounted.append(draw.choice([most, most, of_argument, [0, 0]]))
        number = 0 if self.kind is tcp.AvgPoolOp else least_value(self.type)
        number = 3 if draw.random() < 0.1 else number
        value: Any = (
            FloatAttr(float(number), f32)
            if self.type is f32
            else IntegerAttr(int(number), i64)
        )
        type = TensorType(self.type, self.shape)
        block = Block(arg_types=[type])
        build = Builder(InsertPoint.at_end(block))
        fill = build.insert(ConstantOp(value)).result
        x = build.insert(tcp.PadOp(block.args[0], fill, lower, upper)).result
        result = TensorType(
            i64 if self.kind is tcp.ArgMaxPoolOp else self.type, self.result
        )
        options: dict[str, Any] = {}
        if self.kind is not tcp.MaxPoolOp:
            below, above = zip(*uncounted)
            options = {"uncounted_lower": below, "uncounted_upper": above}
        if self.kind is tcp.AvgPoolOp and draw.random() < 0.3:
            options["divisor"] = draw.choice([-3, 7])
        dims = range(len(self.shape))
        pool = self.kind(x, kernel, strides, dilations, dims, result, **options)
        build.insert(pool)
        build.insert(ReturnOp(pool.result))
        function = FuncOp("main", ([type], [result]), Region(block))
        self.module = ModuleOp([function])

    def kernel(self) -> Sequence[int]:
        (pool,) = (op for op in self.module.walk() if isinstance(op, tcp.PoolOp))
        return pool.kernel.get_values()


def test_canonical_pools_give_the_same(ctx: Context):
    smaller = dict.fromkeys((tcp.MaxPoolOp, tcp.ArgMaxPoolOp, tcp.AvgPoolOp), 0)
    draw = random.Random(0)
    for _ in range(PROGRAMS):
        case = Case(draw)
        try:
            case.module.verify()
        except Exception as error:  # An average of nothing.
            assert "no element counts" in str(error)
            continue
        x = torch.tensor([draw.choice([-5.0, 1.0, 2.0, 2.0, 9.0]) for _ in range(16)])
        if case.type is f32 and draw.random() < 0.2:
            x[draw.randint(0, 15)] = draw.choice([torch.nan, -torch.inf, torch.inf])
        elements = torch.Size(case.shape).numel()
        x = x[:elements].reshape(case.shape)
        x = x if case.type is f32 else x.long()
        before, (expected,) = case.kernel(), run(case.module, x)
        text = str(case.module)

        CanonicalizePass().apply(ctx, case.module)

        case.module.verify()
        (actual,) = run(case.module, x)
        smaller[case.kind] += case.kernel() != before
        torch.testing.assert_close(
            actual,
            expected,
            equal_nan=True,
            msg=lambda given: f"{given}\n{text}\n{case.module}",
        )
    assert min(smaller.values()) > 20
