# pyright: basic
"""Programs as machine code whose memory is guarded: a fault shows, it does no harm."""

import ctypes
import math
import mmap
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from typing_extensions import override
from xdsl.backend.llvm.convert import convert_module
from xdsl.context import Context
from xdsl.dialects import memref
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import (
    FunctionType,
    IntegerAttr,
    MemRefType,
    ModuleOp,
    TensorType,
)

from padc.backends.native.function_signature import accesses_of, signature_of
from padc.backends.native.machine import Code, compile_object
from padc.backends.native.native_function import Arena, NativeFunction
from padc.ir import make_context
from padc.ir.main_function import main
from padc.ir.weights import weights_of
from padc.passes import pipelines
from padc.passes.buffers.live_ranges import element_bytes
from padc.passes.buffers.plan_buffers import PlanBuffersPass
from padc.passes.buffers_to_llvm.convert_buffers_to_llvm import ConvertBuffersToLlvmPass
from padc.passes.buffers_to_llvm.llvm_builder import GRAIN

GUARD = 256
"""Bytes next to each buffer."""
POISON = 0xFF
"""The value of each byte there: a float of such bytes is NaN, which results show."""
PAGE = mmap.PAGESIZE
HAS_PAGES = sys.platform != "win32"
"""Whether single pages can be made inaccessible."""


START = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint
)
"""The type of `GOMP_parallel`."""


@START
def start(function: int, data: int, threads: int, flags: int) -> None:
    """A team whose first thread takes all parts of the work."""
    assert threads > 1 and flags == 0
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(function)(data)


def runtime(start: Any) -> Any:
    """A runtime that starts threads by `start`, which must outlive it; see `team`."""
    sleep = ctypes.CDLL(None).usleep
    functions = [ctypes.cast(each, ctypes.c_void_p).value for each in (start, sleep)]
    return (ctypes.c_void_p * 2)(*functions)


ALONE = runtime(start)


def poisoned(size: int, at_end: bool) -> torch.Tensor:
    """
    Memory of `size` bytes, next to a page whose use ends the process.

    That page is after the memory if `at_end`, else before it.
    """
    if not HAS_PAGES or size == 0:
        return torch.full((size,), POISON, dtype=torch.uint8)
    room = -(-size // PAGE) * PAGE
    pages = mmap.mmap(-1, room + 2 * PAGE)
    begin = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    protect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    for page in (begin, begin + PAGE + room):
        assert protect(page, PAGE, 0) == 0, ctypes.get_errno()
    offset = PAGE + (room - size if at_end else 0)
    memory = torch.frombuffer(pages, dtype=torch.uint8, offset=offset, count=size)
    return memory.fill_(POISON)


def guarded(x: torch.Tensor, at_end: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """A copy of `x`; and poisoned memory, between it and which is nothing."""
    size = x.numel() * x.element_size()
    memory = poisoned(size + GUARD, at_end)
    inside = memory[GUARD:] if at_end else memory[:size]
    outside = memory[:GUARD] if at_end else memory[size:]
    inside = inside.view(x.dtype).view(x.shape)
    return inside.copy_(x), outside


class Guarded(NativeFunction):
    """A function whose arena is poisoned before a call and checked after it."""

    spans: Sequence[tuple[int, int]] | None
    """Offset and size of each buffer in the arena, in bytes; None if they vary."""
    at_end = True
    threads = 1

    @override
    def _team(self) -> tuple[int, int]:
        return self.threads, ctypes.addressof(ALONE)

    @override
    def _take_arena(self, size: int) -> Arena:
        # A multiple of the alignment, so that it is aligned at the end of a page too.
        return Arena.within(poisoned(-(-size // 64) * 64 + GUARD, self.at_end))

    def check_arena(self) -> None:
        arena = self._arenas.pop().memory
        outside = torch.ones_like(arena, dtype=torch.bool)
        spans = [(0, self.signature.arena_bytes or arena.numel() - GUARD)]
        for offset, size in spans if self.spans is None else self.spans:
            outside[offset : offset + size] = False
        assert (arena[outside] == POISON).all()


def compiled(module: ModuleOp, check: bool = False, threads: int = 1) -> Guarded:
    """
    Function `main` as machine code, with guards between its buffers.

    The work of each op is split for `threads` threads, however little it is.
    """
    ctx = make_context()
    type = main(module).function_type
    for each in pipelines.to_buffers():
        each = PlanBuffersPass(GUARD) if isinstance(each, PlanBuffersPass) else each
        each.apply(ctx, module)
        module.verify()
    return machine_code(ctx, module, type, check, threads)


def compiled_buffers(module: ModuleOp, guard: int, threads: int) -> Guarded:
    """The same for a function on buffers, which are as far apart as `guard` says."""
    ctx = make_context()
    type = main(module).function_type
    tensors = [
        [
            TensorType(x.element_type, x.get_shape())
            for x in types
            if isinstance(x, MemRefType)
        ]
        for types in (type.inputs, type.outputs)
    ]
    type = FunctionType.from_lists(*tensors)
    PlanBuffersPass(guard).apply(ctx, module)
    return machine_code(ctx, module, type, False, threads)


def machine_code(
    ctx: Context, module: ModuleOp, type: FunctionType, check: bool, threads: int
) -> Guarded:
    """Planned buffers as machine code; `type` is that of the function before."""
    signature = signature_of(main(module), [*type.inputs], [*type.outputs])
    views = [op for op in main(module).walk() if isinstance(op, memref.ViewOp)]
    spans = [found for view in views if (found := span(view)) is not None]
    grain = 1 if threads > 1 else GRAIN
    ConvertBuffersToLlvmPass(check=check, grain=grain).apply(ctx, module)
    module.verify()
    if check:
        signature = replace(signature, accesses=accesses_of(module))
    code = compile_object(convert_module(module, fallback_target_triple=None))
    guarded = Guarded(signature, Code(code, ["main", "main_sizes"]), weights_of(ctx))
    guarded.threads = threads
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
