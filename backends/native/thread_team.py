"""
The threads that machine code shares its work with: those of PyTorch's OpenMP runtime.

A process should have one such runtime, so that the ops of PyTorch and padc's code use
the same threads. Each call passes the address of its `GOMP_parallel` to machine code.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from pathlib import Path
from typing import Any

import torch

from padc.errors import UsageError

SHARED_WORK = """
define internal void @padc_take_parts(ptr %frame) {
  %parts.at = getelementptr i64, ptr %frame, i64 1
  %parts = load i64, ptr %parts.at
  %worker.at = getelementptr i64, ptr %frame, i64 2
  %worker = load ptr, ptr %worker.at
  br label %next
next:
  %part = atomicrmw add ptr %frame, i64 1 monotonic
  %is.left = icmp slt i64 %part, %parts
  br i1 %is.left, label %run, label %done
run:
  call void %worker(ptr %frame, i64 %part, i64 %parts)
  br label %next
done:
  ret void
}

define void @padc_share(ptr %worker, ptr %frame, i64 %threads, ptr %start) {
  %is.shared = icmp sgt i64 %threads, 1
  br i1 %is.shared, label %shared, label %alone
shared:
  store i64 0, ptr %frame
  %parts = mul i64 %threads, 4
  %parts.at = getelementptr i64, ptr %frame, i64 1
  store i64 %parts, ptr %parts.at
  %worker.at = getelementptr i64, ptr %frame, i64 2
  store ptr %worker, ptr %worker.at
  %count = trunc i64 %threads to i32
  call void %start(ptr @padc_take_parts, ptr %frame, i32 %count, i32 0)
  ret void
alone:
  call void %worker(ptr %frame, i64 0, i64 1)
  ret void
}
"""
"""
How machine code runs the parts of a kernel (`work_sharing` in `passes`), in LLVM's IR.

A frame holds the number of the next part, the number of parts, the worker, and the
arguments of the kernel. Each thread takes the next part until none is left. There are 4
parts for each thread, so that one that is interrupted can do fewer.
"""

LIBRARY = {"linux": "libtorch_cpu.so", "darwin": "libtorch_cpu.dylib"}

_is_forked = False


def _note_fork() -> None:
    global _is_forked
    _is_forked = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_fork)


@functools.cache
def start_address() -> int:
    """The address of `GOMP_parallel` in PyTorch's OpenMP runtime; 0 if it has none."""
    name = LIBRARY.get(sys.platform)
    if name is None:
        return 0
    try:
        # A symbol of a library is also looked for in those that it depends on.
        library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / name))
        return ctypes.cast(library.GOMP_parallel, ctypes.c_void_p).value or 0
    except (OSError, AttributeError):
        return 0


def check_threads(threads: Any) -> None:
    """Raise UsageError unless `threads` is None or a number of threads."""
    is_number = isinstance(threads, int) and not isinstance(threads, bool)
    if threads is not None and not (is_number and threads > 0):
        raise UsageError(
            f"threads is {threads!r}",
            hint="give an integer from 1 on, or None for as many as PyTorch uses",
        )


def team(threads: int | None) -> tuple[int, int]:
    """
    The number of threads that a call may use, and the address that starts them.

    `threads` is what the user chose; None stands for as many as PyTorch uses now.
    """
    # In a child after a fork, the runtime would wait for threads of the parent.
    if _is_forked or threads == 1:
        return 1, 0
    address = start_address()
    if not address:
        return 1, 0
    return threads or torch.get_num_threads(), address
