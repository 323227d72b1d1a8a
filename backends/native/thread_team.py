"""
The threads that machine code shares its work with: those of PyTorch's OpenMP runtime.

A process should have one such runtime, so that the ops of PyTorch and padc's code use
the same threads. Each call passes the addresses of its functions to machine code.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import torch

from padc.errors import UsageError, shortened

LIBRARY = {"linux": "libtorch_cpu.so", "darwin": "libtorch_cpu.dylib"}

_is_forked = False


def _note_fork() -> None:
    global _is_forked
    _is_forked = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_fork)


def one_thread_if_forked() -> contextlib.AbstractContextManager[Any]:
    """In a child after a fork, PyTorch's ops use one thread inside of this context."""
    return one_thread() if _is_forked else UNCHANGED


UNCHANGED = contextlib.nullcontext()


@contextlib.contextmanager
def one_thread() -> Generator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@functools.cache
def runtime() -> Any:
    """
    The addresses that machine code needs; None if PyTorch has no such runtime.

    They are `GOMP_parallel` of PyTorch's OpenMP runtime, and `usleep`.
    """
    name = LIBRARY.get(sys.platform)
    if name is None:
        return None
    try:
        # A symbol of a library is also looked for in those that it depends on.
        library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / name))
        functions = (library.GOMP_parallel, library.usleep)
    except (OSError, AttributeError):
        return None
    addresses = [ctypes.cast(each, ctypes.c_void_p).value for each in functions]
    return (ctypes.c_void_p * len(addresses))(*addresses)


MOST_THREADS = 2**31 - 1
"""The most that an OpenMP runtime can be asked for."""


def check_threads(threads: Any) -> None:
    """Raise UsageError unless `threads` is None or a number of threads."""
    is_number = isinstance(threads, int) and not isinstance(threads, bool)
    if threads is not None and not (is_number and 0 < threads <= MOST_THREADS):
        raise UsageError(
            f"threads is {shortened(repr(threads))}",
            hint=f"give an integer from 1 to {MOST_THREADS}, or None for as many as "
            "PyTorch uses",
        )


def team(threads: int | None) -> tuple[int, int]:
    """
    The number of threads that a call may use, and the address of `runtime`.

    `threads` is what the user chose; None stands for as many as PyTorch uses now.
    """
    # In a child after a fork, the runtime would wait for threads of the parent.
    if _is_forked or threads == 1:
        return 1, 0
    if (found := runtime()) is None:
        return 1, 0
    return threads or torch.get_num_threads(), ctypes.addressof(found)
