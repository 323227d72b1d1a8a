"""Writing files atomically."""

import contextlib
import os
import re
import secrets
from collections.abc import Generator
from pathlib import Path

from padc.common.locks import is_locked, locked, open_to_lock


@contextlib.contextmanager
def whole_file(path: str | Path) -> Generator[str]:
    """
    The name of a new file, which replaces `path` if the block raises nothing.

    If the block raises, `path` stays as it was. What writers of `path` that were
    killed left is removed. A device or a pipe is written to as it is. Raises OSError
    if `path` cannot be replaced, or what is written has no place on the disk.
    """
    new, lock = str(path), None
    try:
        if not Path(path).exists() or Path(path).is_file():
            new, lock = new_file(Path(os.path.realpath(path)))
        yield new
        if lock is not None:
            os.replace(new, os.path.realpath(path))
    except OSError as error:
        if error.filename not in (None, new):
            raise
        # The user knows this file by the path that it was to have.
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        if lock is not None:
            Path(new).unlink(missing_ok=True)
            os.close(lock)


def new_file(path: Path) -> tuple[str, int]:
    """The name of a file next to `path`, and a descriptor, which holds its lock."""
    new = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        with locked(path.parent):
            clear(path)
            # Unlike tempfile's, the file has the permissions that new files have.
            lock = os.open(new, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666)
            is_locked(lock)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    return str(new), lock


def clear(path: Path) -> None:
    """Remove the files of writers of `path` that were killed."""
    name = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]{{16}}\.tmp")
    for file in path.parent.iterdir():
        if not name.fullmatch(file.name) or (lock := open_to_lock(file)) is None:
            continue
        if is_locked(lock):
            with contextlib.suppress(OSError):
                file.unlink()
        os.close(lock)
