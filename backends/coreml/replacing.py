# pyright: reportUnknownMemberType=false, reportAttributeAccessIssue=false
"""
Replacing a package as a whole: whatever happens, the old one or the new one is there.

The new package is written to a folder next to the old one, `.NAME.RANDOM`, and then
takes its place. Each such folder is locked by the process that writes to it, and the
system drops the lock when the process ends, so that the next save tells the folders of
killed saves from those of others that are still running. Windows has no such locks:
nothing is cleared there.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path

from padc.common.locks import is_locked, locked, open_to_lock
from padc.errors import UsageError

EXCHANGE = 2
"""RENAME_EXCHANGE of Linux, and RENAME_SWAP of macOS."""
AT_FDCWD = -100


@contextlib.contextmanager
def replacing(path: Path) -> Generator[Path]:
    """
    A new folder, which replaces the one at `path` if no exception is raised.

    Raises UsageError if it cannot be written.
    """
    try:
        with locked(path.parent):
            clear(path)
            folder = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
            lock = open_to_lock(folder)
            is_locked(lock)
    except OSError as error:
        raise cannot_write(path, error.strerror) from error
    try:
        new, old = folder / "new", folder / "old"
        new.mkdir()
        yield new
        if not exchanged(new, path):
            rename(new, path, old)
    except OSError as error:
        raise cannot_write(path, error.strerror) from error
    except RuntimeError as error:
        if "FileWriter" not in str(error):
            raise
        # coremltools' writer of weights does not say why.
        raise cannot_write(path, "the disk may be full") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def cannot_write(path: Path, why: str | None) -> UsageError:
    return UsageError(f"cannot write to {path}: {why}")


def rename(new: Path, path: Path, old: Path) -> None:
    """Move `path` to `old`, and `new` to `path`."""
    # A folder cannot be renamed to an existing one.
    if path.exists():
        path.rename(old)
    try:
        new.rename(path)
    except OSError:
        if old.exists():
            old.rename(path)
        raise


def exchanged(new: Path, path: Path) -> bool:
    """Exchange two folders in one step; False if that is impossible."""
    if not path.exists():
        return False
    names = os.fsencode(new), os.fsencode(path)
    libc = ctypes.CDLL(None) if os.name == "posix" else None
    if sys.platform == "linux" and hasattr(libc, "renameat2"):
        return libc.renameat2(AT_FDCWD, names[0], AT_FDCWD, names[1], EXCHANGE) == 0
    if sys.platform == "darwin" and hasattr(libc, "renamex_np"):
        return libc.renamex_np(*names, EXCHANGE) == 0
    return False


def clear(path: Path) -> None:
    """Remove the folders of saves to `path` that were killed."""
    prefix = f".{path.name}."
    for folder in path.parent.iterdir():
        suffix = folder.name.removeprefix(prefix)
        if folder.name == suffix or not is_ours(folder, suffix):
            continue
        lock = open_to_lock(folder)
        if lock is None:
            continue
        if is_locked(lock):
            if not path.exists() and (folder / "old").exists():
                (folder / "old").rename(path)
            shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def is_ours(folder: Path, suffix: str) -> bool:
    """Whether `replacing` makes such a folder: tempfile's name, nothing else inside."""
    if re.fullmatch(r"[a-z0-9_]{8}", suffix) is None or not folder.is_dir():
        return False
    return {each.name for each in folder.iterdir()} <= {"new", "old"}
