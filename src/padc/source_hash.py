"""The hash of padc's own code, on which everything that it compiles depends."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path


@functools.cache
def source_hash() -> str:
    """The hash of all files that `source_files` lists."""
    digest = hashlib.sha256()
    for path in source_files():
        digest.update(path.read_bytes())
    return digest.hexdigest()


def source_files() -> list[Path]:
    """All Python files of padc."""
    root = Path(__file__).parent
    # In a checkout the subpackages are links, which rglob does not follow.
    folders = [path.resolve() for path in root.iterdir() if path.is_dir()]
    files = [*root.glob("*.py"), *(f for each in folders for f in each.rglob("*.py"))]
    return sorted(files)
