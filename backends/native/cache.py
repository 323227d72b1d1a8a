"""
A folder of compiled programs, each under a hash of all that it was compiled from.

An entry is a file. Its name is the hash of all that the contents depend on, so a stale
entry has another name. Its first line is the hash of the name and the rest, so an entry
that is damaged or renamed is not read.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

NAME = re.compile("[0-9a-f]{64}")
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


def checksum_of(name: str, contents: bytes) -> bytes:
    """The first line of an entry."""
    return hashlib.sha256(name.encode() + contents).hexdigest().encode()


def read(name: str) -> bytes | None:
    """The contents of an entry; None if it does not exist or is damaged."""
    where = folder()
    if where is None:
        return None
    try:
        data = (where / name).read_bytes()
    except OSError:
        return None
    with contextlib.suppress(OSError):  # The file may belong to another user.
        os.utime(where / name)
    checksum, _, contents = data.partition(b"\n")
    return contents if checksum == checksum_of(name, contents) else None


def write(name: str, contents: bytes) -> None:
    """Write an entry; do nothing if the folder cannot be written to."""
    where = folder()
    if where is None:
        return
    checksum = checksum_of(name, contents)
    try:
        where.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=where)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(checksum + b"\n" + contents)
            os.replace(temporary, where / name)
        except OSError:
            os.unlink(temporary)
        prune(where, where / name)
    except OSError:
        return


def prune(where: Path, newest: Path) -> None:
    """Remove the least recently read entries, never `newest`, down to `MOST_BYTES`."""
    entries = [path for path in where.iterdir() if NAME.fullmatch(path.name)]
    states = {path: path.stat() for path in entries}
    excess = sum(state.st_size for state in states.values()) - MOST_BYTES
    for path in sorted(states, key=lambda path: states[path].st_mtime_ns):
        if excess <= 0:
            return
        if path != newest:
            path.unlink()
            excess -= states[path].st_size
