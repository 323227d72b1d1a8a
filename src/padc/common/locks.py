"""
Locks of files and folders: who holds one still runs.

The system drops a lock when its process ends, however it ends.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows has no such locks.
    fcntl = None


def open_to_lock(path: str | Path) -> int | None:
    """Open a file or folder in order to lock it; None if that is not possible."""
    try:
        # A pipe that nobody writes to is not waited for.
        wait = getattr(os, "O_NONBLOCK", 0)
        return None if fcntl is None else os.open(path, os.O_RDONLY | wait)
    except OSError:
        return None


def is_locked(lock: int | None) -> bool:
    """Lock a file; False if another process has locked it, or it cannot be locked."""
    try:
        if fcntl is None or lock is None:
            return False
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


@contextlib.contextmanager
def locked(folder: Path) -> Generator[None]:
    """Hold the lock of a folder, where folders can be locked."""
    lock = open_to_lock(folder)
    try:
        if fcntl is not None and lock is not None:
            with contextlib.suppress(OSError):
                fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        if lock is not None:
            os.close(lock)
