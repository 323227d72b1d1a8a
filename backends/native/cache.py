"""
A folder of compiled programs, each under a hash of all that it was compiled from.

An entry is a file. Its name is the hash of all that the contents depend on, so a stale
entry has another name. Its first line is a digest of the name and the rest, so an entry
that is damaged or renamed is not read. The digest needs a key, which only the owner of
the folder can read, and a folder that others can write to is not used: machine code
that somebody else has put there is never run.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import hmac
import os
import re
import stat
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from padc.warn import warn

try:
    import fcntl
except ImportError:  # Windows has no such locks.
    fcntl = None

NAME = re.compile("[0-9a-f]{64}")
KEY, KEY_BYTES = "key", 32
"""The file with the key of the digests, and its size."""
TEMPORARY = ".writing-"
SECONDS_OF_WRITING = 600
"""The age of temporary files that are removed, where files cannot be locked."""
MOST_BYTES = 2**30
"""The size of all entries, above which the least recently read ones are removed."""


def folder() -> Path | None:
    """
    The folder of the entries; None if nothing is to be kept.

    That is `PADC_CACHE_DIR` if it is set, where an empty text means None; otherwise
    `padc` in the user's folder for caches.
    """
    chosen = os.environ.get("PADC_CACHE_DIR")
    if chosen is not None:
        return Path(chosen) if chosen else None
    try:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError:  # The user has no home.
        return None
    return Path(base) / "padc"


def key(parts: Sequence[str]) -> str:
    """The name of the entry that depends on these texts."""
    digest = hashlib.sha256()
    for part in parts:
        # With lengths, texts that only join to the same text have other hashes.
        digest.update(f"{len(part)}:".encode() + part.encode())
    return digest.hexdigest()


def usable_folder(*, create: bool = False) -> Path | None:
    """
    The folder if only the user can write to it; None if not.

    There is a warning if others can, unless it is to be created: who writes an entry
    has looked for it before.
    """
    where = folder()
    if where is None:
        return None
    try:
        if create:
            where.mkdir(mode=0o700, parents=True, exist_ok=True)
        state = where.stat()
    except OSError:
        return None
    if not stat.S_ISDIR(state.st_mode):
        return None
    if is_private(state, stat.S_IWGRP | stat.S_IWOTH):
        return where
    if not create:
        ways = f"chmod go-w {where}, or choose" if is_own(state) else "choose"
        warn(
            f"others can write to the cache {where}: machine code is neither read from "
            f"it nor kept there ({ways} another PADC_CACHE_DIR)"
        )
    return None


def is_private(state: os.stat_result, others: int) -> bool:
    """Whether a file is the user's own, and gives nobody the permissions `others`."""
    return os.name != "posix" or (is_own(state) and not state.st_mode & others)


def is_own(state: os.stat_result) -> bool:
    """Whether a file is the user's own."""
    return not hasattr(os, "getuid") or state.st_uid == os.getuid()


def open_file(path: Path) -> BinaryIO:
    """Open a file to read it. Raises OSError, also for a pipe, which has no end."""

    def without_waiting(name: str, flags: int) -> int:
        return os.open(name, flags | getattr(os, "O_NONBLOCK", 0))

    file = open(path, "rb", opener=without_waiting)
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return file
    file.close()
    raise OSError(errno.EINVAL, "not a file", str(path))


def secret(where: Path) -> bytes:
    """The key of the digests; the first call makes it. Raises OSError."""
    path = where / KEY
    with contextlib.suppress(FileNotFoundError), open_file(path) as file:
        state = os.fstat(file.fileno())
        key = file.read(KEY_BYTES + 1)
        if is_private(state, stat.S_IRWXG | stat.S_IRWXO) and len(key) == KEY_BYTES:
            return key
    key = os.urandom(KEY_BYTES)
    replace(path, key)
    return path.read_bytes()


def replace(path: Path, contents: bytes) -> None:
    """Write a file that only the user can read, in one step. Raises OSError."""
    handle, temporary = tempfile.mkstemp(prefix=TEMPORARY, dir=path.parent)
    try:
        with contextlib.ExitStack() as stack:
            if fcntl is not None:
                # The lock lasts until the copy is closed, which is after the move.
                stack.callback(os.close, os.dup(handle))
                fcntl.flock(handle, fcntl.LOCK_EX)
            with os.fdopen(handle, "wb") as file:
                file.write(contents)
            os.replace(temporary, path)
    except OSError:
        Path(temporary).unlink(missing_ok=True)
        raise


def is_abandoned(temporary: Path) -> bool:
    """Whether the writer of a temporary file was killed. Raises OSError."""
    if fcntl is None:
        return time.time() - temporary.stat().st_mtime > SECONDS_OF_WRITING
    with open_file(temporary) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def digest_of(key: bytes, name: str, contents: bytes) -> bytes:
    """The first line of an entry."""
    return hmac.digest(key, name.encode() + contents, "sha256").hex().encode()


def read(name: str) -> bytes | None:
    """The contents of an entry; None if it does not exist or is damaged."""
    where = usable_folder()
    if where is None:
        return None
    try:
        with open_file(where / name) as file:
            data = file.read()
        key = secret(where)
    except OSError:
        return None
    with contextlib.suppress(OSError):  # The file may belong to another user.
        os.utime(where / name)
    digest, _, contents = data.partition(b"\n")
    is_whole = hmac.compare_digest(digest, digest_of(key, name, contents))
    return contents if is_whole else None


def write(name: str, contents: bytes) -> None:
    """Write an entry; do nothing if the folder cannot be written to."""
    where = usable_folder(create=True)
    if where is None:
        return
    try:
        digest = digest_of(secret(where), name, contents)
        replace(where / name, digest + b"\n" + contents)
        prune(where, where / name)
    except OSError:
        return


def prune(where: Path, newest: Path) -> None:
    """
    Remove the least recently read entries, never `newest`, down to `MOST_BYTES`.

    What a writer that was killed left goes too.
    """
    for path in where.glob(f"{TEMPORARY}*"):
        with contextlib.suppress(OSError):  # Another process may have removed it.
            if is_abandoned(path):
                path.unlink()
    entries = [path for path in where.iterdir() if NAME.fullmatch(path.name)]
    states = {path: path.stat() for path in entries}
    excess = sum(state.st_size for state in states.values()) - MOST_BYTES
    for path in sorted(states, key=lambda path: states[path].st_mtime_ns):
        if excess <= 0:
            return
        if path != newest:
            path.unlink()
            excess -= states[path].st_size
