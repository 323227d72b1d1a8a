"""The hash of padc's own code and tables, on which everything it compiles depends."""

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


SUFFIXES = (".py", ".txt")
"""Of Python files, and of the package's tables: ATen schemas and Core ML ops."""


def source_files() -> list[Path]:
    """All Python files and tables of padc."""
    root = Path(__file__).parents[1]
    # In a checkout the subpackages are links, which rglob does not follow.
    folders = [path.resolve() for path in root.iterdir() if path.is_dir()]
    files = [*root.iterdir(), *(f for each in folders for f in each.rglob("*"))]
    return sorted(path for path in files if path.suffix in SUFFIXES)
