# pyright: basic
"""Upstream accepts and runs programs of buffers after each pass."""

import os
import random
from collections.abc import Callable

import pytest
import torch
from insert_programs import make_inserts
from tcp_programs import MAKERS, Draw, make_chain, tolerance
from upstream import (
    MLIR_OPT,
    canonicalized,
    canonicalized_by_mlir_opt,
    compiled_entries,
    run_upstream,
)
from xdsl.dialects.builtin import MemRefType, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass
from xdsl.traits import SymbolTable
from xdsl.transforms.canonicalize import CanonicalizePass

from padc.backends.reference import run
from padc.ir import make_context
from padc.passes.buffers.bufferize_tcp import BufferizeTcpPass
from padc.passes.buffers.fill_border_only import FillBorderOnlyPass
from padc.passes.buffers.pad_into_producer import PadIntoProducerPass
from padc.passes.buffers.plan_buffers import PlanBuffersPass
from padc.passes.to_linalg.convert_tcp_to_linalg import ConvertTcpToLinalgPass

PROGRAMS = int(os.environ.get("PADC_PROGRAMS", "24"))
SHARES = 8
"""The number of tests that share the programs."""
STAGES: list[ModulePass] = [
    BufferizeTcpPass(),
    CanonicalizePass(),
    PadIntoProducerPass(),
    FillBorderOnlyPass(),
    PlanBuffersPass(),
]


def run_planned(
    module: ModuleOp,
    inputs: list[torch.Tensor | int],
    like: tuple[torch.Tensor, ...],
    rewrite: Callable[[str], str],
) -> list[torch.Tensor]:
    """The results of upstream for a function that takes its results and an arena."""
    function = SymbolTable.lookup_symbol(module, "main")
    assert isinstance(function, FuncOp)
    sizes = torch.zeros(1 + sum(x.dim() for x in like), dtype=torch.int64)
    sizes_of, main = compiled_entries(module, "main_sizes", "main", rewrite=rewrite)
    sizes_of(*inputs, sizes)
    arena_bytes, *dynamic = sizes.tolist()
    results = [torch.empty(x.shape, dtype=x.dtype) for x in like]
    for result, type in zip(
        results, list(function.function_type.inputs)[-1 - len(like) : -1], strict=True
    ):
        assert isinstance(type, MemRefType)
        for size, static in zip(result.shape, type.get_shape(), strict=True):
            assert size == (static if static >= 0 else dynamic.pop(0))
    arena = torch.full((arena_bytes,), 0xFF, dtype=torch.uint8)
    main(*inputs, *results, arena.view(torch.int8))
    return results


def check_program(number: int, canonicalize: Callable[[str], str]):
    """Check that a program is valid after each pass, and keeps its results."""
    make = make_chain if number % 2 else MAKERS[number // 2 % len(MAKERS)]
    draw = Draw(random.Random(number))
    module = make(draw)
    expected = run(module, *draw.inputs)
    x = draw.inputs[0]
    assert isinstance(x, torch.Tensor)
    finite = x.double().nan_to_num(0, 0, 0).abs().flatten().tolist()
    atol = tolerance(make, expected[0].dtype) * max([0.0, *finite])
    check(number, canonicalize, module, draw, expected, atol)


def check(
    number: int,
    canonicalize: Callable[[str], str],
    module: ModuleOp,
    draw: Draw,
    expected: tuple[torch.Tensor, ...],
    atol: float = 0.0,
):
    """Check that upstream takes `module` after each pass, and gets `expected`."""
    ctx = make_context()
    ConvertTcpToLinalgPass(border_pads=False).apply(ctx, module)
    for stage, each in enumerate(STAGES):
        each.apply(ctx, module)
        module.verify()
        canonicalize(str(module))  # which parses and verifies it
        rewrite = canonicalize if number % 4 < 2 else str
        # Each program runs after one of the passes, and all run after the last.
        if stage == len(STAGES) - 1:
            actual = run_planned(module, draw.inputs, expected, rewrite)
        elif stage == number // 8 % (len(STAGES) - 1):
            inputs = [
                x.clone() if isinstance(x, torch.Tensor) else x for x in draw.inputs
            ]
            actual = run_upstream(module, *inputs, rewrite=rewrite)
        else:
            continue
        for is_, should in zip(actual, expected, strict=True):
            # Buffers have no signs.
            signed = is_.view(torch.uint8) if should.dtype == torch.uint8 else is_
            torch.testing.assert_close(
                signed,
                should,
                rtol=0,
                atol=atol,
                equal_nan=True,
                msg=lambda message: f"{message}\nprogram {number}:\n{module}",
            )


@pytest.mark.parametrize("share", range(SHARES))
def test_upstream_runs_programs_after_each_pass(share: int):
    for number in range(share, PROGRAMS, SHARES):
        check_program(number, canonicalized)


@pytest.mark.parametrize("share", range(SHARES))
def test_upstream_writes_strided_parts_after_each_pass(share: int):
    for number in range(share, PROGRAMS // 4, SHARES):
        draw = Draw(random.Random(number))
        module, expected = make_inserts(draw)
        check(number, canonicalized, module, draw, expected)


@pytest.mark.skipif(MLIR_OPT is None, reason="mlir-opt-22 is not installed")
@pytest.mark.parametrize("share", range(SHARES))
def test_mlir_opt_takes_programs_after_each_pass(share: int):
    for number in range(share, PROGRAMS, SHARES):
        check_program(number, canonicalized_by_mlir_opt)
