"""
A folder of compiled programs, each under what it was made from.

An entry is a file whose name is the hash of all that its contents depend on, and
whose first line is the hash of its name and the rest: one that is stale has another
name, one that is damaged, or another's, is not read.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

import padc

NAME = re.compile("[0-9a-f]{64}")
MOST_BYTES = 2**30
"""What entries take together, before those that were not read for longest go."""


def folder() -> Path | None:
    """Where entries are: `PADC_CACHE_DIR`, if that is not empty, or a usual place."""
    chosen = os.environ.get("PADC_CACHE_DIR")
    if chosen is not None:
        return Path(chosen) if chosen else None
    try:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError:  # There is no home.
        return None
    return Path(base) / "padc"


@functools.cache
def source_hash() -> str:
    """The hash of padc's own code."""
    digest = hashlib.sha256()
    for path in source_files():
        digest.update(path.read_bytes())
    return digest.hexdigest()


def source_files() -> list[Path]:
    """The Python files that padc consists of."""
    assert padc.__file__ is not None
    root = Path(padc.__file__).parent
    # The subpackages may be links, into which rglob does not go.
    folders = [path.resolve() for path in root.iterdir() if path.is_dir()]
    files = [*root.glob("*.py"), *(f for each in folders for f in each.rglob("*.py"))]
    return sorted(files)


def key(parts: Sequence[str]) -> str:
    """The name of the entry for what these texts describe."""
    digest = hashlib.sha256(source_hash().encode())
    for part in parts:
        digest.update(b"\0" + part.encode())
    return digest.hexdigest()


def checksum_of(name: str, contents: bytes) -> bytes:
    return hashlib.sha256(name.encode() + contents).hexdigest().encode()


def read(name: str) -> bytes | None:
    """An entry; None where there is none, or not whole."""
    where = folder()
    if where is None:
        return None
    try:
        data = (where / name).read_bytes()
    except OSError:
        return None
    with contextlib.suppress(OSError):  # It may be another user's.
        os.utime(where / name)
    checksum, _, contents = data.partition(b"\n")
    return contents if checksum == checksum_of(name, contents) else None


def write(name: str, contents: bytes) -> None:
    """Keep an entry, if the folder can be written to."""
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
    """Remove entries, all but `newest`, until the others fit in `MOST_BYTES`."""
    entries = [path for path in where.iterdir() if NAME.fullmatch(path.name)]
    states = {path: path.stat() for path in entries}
    excess = sum(state.st_size for state in states.values()) - MOST_BYTES
    for path in sorted(states, key=lambda path: states[path].st_mtime_ns):
        if excess <= 0:
            return
        if path != newest:
            path.unlink()
            excess -= states[path].st_size
