# pyright: basic
"""Random programs as machine code, against the reference, with guarded memory."""

import math
import os
import random
from collections.abc import Sequence

import pytest
import torch
from insert_programs import make_inserts
from tcp_programs import MAKERS, Draw, tolerance
from typing_extensions import override
from xdsl.backend.llvm.convert import convert_module
from xdsl.dialects import memref
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import IntegerAttr, MemRefType, ModuleOp

from padc.backends.native.function_signature import signature_of
from padc.backends.native.machine import Code, compile_object
from padc.backends.native.native_function import NativeFunction
from padc.backends.reference import run
from padc.ir import make_context
from padc.ir.main_function import main
from padc.ir.weights import weights_of
from padc.passes import pipelines
from padc.passes.buffers.live_ranges import element_bytes
from padc.passes.buffers.plan_buffers import PlanBuffersPass
from padc.passes.buffers_to_llvm.convert_buffers_to_llvm import ConvertBuffersToLlvmPass

PROGRAMS = int(os.environ.get("PADC_PROGRAMS", "32"))
SHARES = 8
"""The number of tests that share the programs."""
GUARD = 256
"""Bytes after each buffer."""
POISON = 0xFF
"""The value of each byte there: a float of such bytes is NaN, which results show."""


class Guarded(NativeFunction):
    """A function whose arena is poisoned before a call and checked after it."""

    spans: Sequence[tuple[int, int]] | None
    """Offset and size of each buffer in the arena, in bytes; None if they vary."""

    @override
    def _take_arena(self, size: int) -> torch.Tensor:
        return torch.full((size + 64 + GUARD,), POISON, dtype=torch.uint8)

    def check_arena(self) -> None:
        arena = self._arenas.pop()
        begin = -arena.data_ptr() % 64
        outside = torch.ones_like(arena, dtype=torch.bool)
        spans = [(0, self.signature.arena_bytes or arena.numel() - begin - GUARD - 64)]
        for offset, size in spans if self.spans is None else self.spans:
            outside[begin + offset : begin + offset + size] = False
        assert (arena[outside] == POISON).all()


def compiled(module: ModuleOp) -> Guarded:
    """Function `main` as machine code, with guards between its buffers."""
    ctx = make_context()
    function = main(module)
    inputs = list(function.function_type.inputs)
    results = list(function.function_type.outputs)
    for each in pipelines.to_buffers():
        each = PlanBuffersPass(GUARD) if isinstance(each, PlanBuffersPass) else each
        each.apply(ctx, module)
        module.verify()
    signature = signature_of(main(module), inputs, results)
    views = [op for op in main(module).walk() if isinstance(op, memref.ViewOp)]
    spans = [found for view in views if (found := span(view)) is not None]
    ConvertBuffersToLlvmPass().apply(ctx, module)
    module.verify()
    code = compile_object(convert_module(module, fallback_target_triple=None))
    guarded = Guarded(signature, Code(code, ["main", "main_sizes"]), weights_of(ctx))
    guarded.spans = spans if len(spans) == len(views) else None
    return guarded


def span(view: memref.ViewOp) -> tuple[int, int] | None:
    type, place = view.result.type, view.byte_shift.owner
    assert isinstance(type, MemRefType)
    if view.sizes or not isinstance(place, ConstantOp):
        return None
    assert isinstance(place.value, IntegerAttr)
    size = math.prod(type.get_shape()) * element_bytes(type.element_type)
    return place.value.value.data, size


def guarded(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A copy of `x` with poison around it, and the memory of both."""
    size = x.numel() * x.element_size()
    memory = torch.full((size + 2 * GUARD,), POISON, dtype=torch.uint8)
    inside = memory[GUARD : GUARD + size].view(x.dtype).view(x.shape)
    inside.copy_(x)
    return inside, memory


def check(
    module: ModuleOp, draw: Draw, expected: Sequence[torch.Tensor], atol: float = 0.0
) -> None:
    """Check the results of `module`, and that it writes nothing else."""
    text = str(module)
    pairs = [
        guarded(x) if isinstance(x, torch.Tensor) else (x, None) for x in draw.inputs
    ]
    outputs = [guarded(torch.zeros_like(x)) for x in expected]
    copies = [None if memory is None else memory.clone() for _, memory in pairs]

    function = compiled(module)
    function([x for x, _ in pairs], [output for output, _ in outputs])

    for (output, memory), should in zip(outputs, expected, strict=True):
        torch.testing.assert_close(
            output,
            should,
            rtol=0,
            atol=atol,
            equal_nan=True,
            msg=lambda message: f"{message}\n{text}",
        )
        assert (memory[:GUARD] == POISON).all(), text
        assert (memory[-GUARD:] == POISON).all(), text
    function.check_arena()
    for (_, memory), copy in zip(pairs, copies, strict=True):
        if memory is not None and copy is not None:
            assert torch.equal(memory, copy), text


@pytest.mark.parametrize("share", range(SHARES))
def test_machine_code_computes_what_the_reference_does(share: int):
    for number in range(share, PROGRAMS, SHARES):
        make = MAKERS[number % len(MAKERS)]
        draw = Draw(random.Random(number))
        module = make(draw)
        (expected,) = run(module, *draw.inputs)
        x = draw.inputs[0]
        assert isinstance(x, torch.Tensor)
        finite = x.double().nan_to_num(0, 0, 0).abs().flatten().tolist()
        atol = tolerance(make, expected.dtype) * max([0.0, *finite])
        check(module, draw, [expected], atol)


@pytest.mark.parametrize("share", range(SHARES))
def test_machine_code_writes_strided_parts(share: int):
    for number in range(share, PROGRAMS, SHARES):
        draw = Draw(random.Random(number))
        module, expected = make_inserts(draw)
        check(module, draw, expected)
