"""Formulas evaluated by the ops that their operands insert, against integers."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import torch
from xdsl.builder import Builder
from xdsl.dialects import arith, func
from xdsl.dialects.builtin import IndexType, ModuleOp, TensorType, i64
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint

from padc.backends.reference import run
from padc.ir import padding, resampling
from padc.ir.arithmetic import clamp, maximum, minimum
from padc.ir.torch import IntType
from padc.passes.aten.builder import AtenBuilder
from padc.passes.aten.symbolic_tensor import SymbolicTensor
from padc.passes.common.size_builder import SizeBuilder

FORMULAS: Mapping[str, Callable[..., Any]] = {
    "operators": lambda a, b, c: (a + 3 - b) * (2 - c) // (abs(b) + 1) % (abs(c) + 2),
    "neutral": lambda a, b, c: (a + 0) * 1 // 1 - 0 + (0 + b) * 0 + 1 * c,
    "bounds": lambda a, b, c: maximum(a, 2) - minimum(b, c) + clamp(a, -3, 1 + abs(b)),
    "reflection": lambda a, b, c: padding.source_index_reflection(a, abs(b) + 1, c),
    "replication": lambda a, b, c: padding.source_index_replication(a, abs(b) + 1, c),
    "circular": lambda a, b, c: padding.source_index_circular(a, abs(b) + 30, c, b),
    "padded": lambda a, b, c: padding.padded_size(abs(a), b, c, abs(b)),
    "convolution": lambda a, b, c: padding.conv_output_size(a, b, abs(c) + 1, 2, 1, c),
    "pool": lambda a, b, c: padding.pool_output_size(a, 3, abs(b) + 1, 1, c, True),
    "transposed": lambda a, b, c: padding.conv_transpose_output_size(a, b, 3, 2, c, 1),
    "count": lambda a, b, c: padding.window_count(abs(a), 20, 4, abs(b) + 1, 3, c, 2),
    "area": lambda a, b, c: sum(resampling.area_window(a, abs(b) + 1, abs(c) + 1)),
    "longest area": lambda a, b, c: resampling.longest_area(abs(b) + 1, abs(c) + 1),
}
OPS: Mapping[type[Operation], Callable[[int, int], int]] = {
    arith.AddiOp: lambda a, b: a + b,
    arith.SubiOp: lambda a, b: a - b,
    arith.MuliOp: lambda a, b: a * b,
    arith.FloorDivSIOp: lambda a, b: a // b,
    arith.MaxSIOp: max,
    arith.MinSIOp: min,
}


def cases(count: int = 40) -> list[tuple[int, int, int]]:
    draw = random.Random(0)
    return [tuple(draw.randint(-20, 20) for _ in range(3)) for _ in range(count)]  # type: ignore


def evaluated(value: SSAValue, known: Mapping[Any, int]) -> int:
    """An index that ops of arith compute."""
    if value in known:
        return known[value]
    op = value.owner
    assert isinstance(op, Operation)
    if isinstance(op, arith.ConstantOp):
        return op.value.value.data  # type: ignore
    return OPS[type(op)](*(evaluated(operand, known) for operand in op.operands))


@pytest.mark.parametrize("name", FORMULAS)
def test_indices_compute_what_integers_do(name: str):
    block = Block(arg_types=[IndexType()] * 3)
    build = SizeBuilder(Builder(InsertPoint.at_end(block)))

    for numbers in cases():
        expected = FORMULAS[name](*numbers)
        for known in range(8):
            # Some of the operands are known, others only when the program runs.
            operands = [
                build.wrap(number if known >> i & 1 else block.args[i])
                for i, number in enumerate(numbers)
            ]
            value = FORMULAS[name](*operands).value
            if known == 7:
                assert value == expected
            elif isinstance(value, int):
                assert value == expected
            else:
                given = dict(zip(block.args, numbers, strict=True))
                assert evaluated(value, given) == expected


def program(formula: Callable[..., Any], tensors: int) -> ModuleOp:
    """A function of three operands, the first `tensors` of which are tensors."""
    types = [TensorType(i64, [40]) if i < tensors else IntType() for i in range(3)]
    block = Block(arg_types=types)
    end = func.ReturnOp()
    block.add_op(end)
    build = AtenBuilder(end)
    operands = [
        SymbolicTensor(arg, build) if i < tensors else build.wrap(arg)
        for i, arg in enumerate(block.args)
    ]
    value = formula(*operands).value
    end.detach()
    block.add_op(func.ReturnOp(value))
    function = func.FuncOp("main", (types, [value.type]), Region(block))
    return ModuleOp([function])


@pytest.mark.parametrize("name", FORMULAS)
def test_integers_of_aten_compute_what_integers_do(name: str):
    formula = FORMULAS[name]
    module = program(formula, 0)

    for numbers in cases(10):
        assert run(module, *numbers)[0] == formula(*numbers)


@pytest.mark.parametrize("name", ["reflection", "replication", "circular", "area"])
def test_tensors_compute_what_integers_and_arrays_do(name: str):
    formula = FORMULAS[name]
    module = program(formula, 1)
    places = list(range(40))

    for _, b, c in cases(10):
        (actual,) = run(module, torch.tensor(places), b, c)

        expected = [formula(j, b, c) for j in places]
        assert actual.tolist() == expected
        assert np.array_equal(formula(np.array(places), b, c), expected)
