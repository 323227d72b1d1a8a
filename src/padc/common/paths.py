"""Paths that users give."""

import os
from pathlib import Path
from typing import Any, cast

from padc.errors import UsageError, shortened


def path_of(given: Any) -> Path:
    """`given` as a path; UsageError if no file can have it."""
    name = shortened(given).replace("\0", "\\0")
    if not isinstance(given, str | os.PathLike):
        raise UsageError(f"a path is a string or a pathlib.Path, not {name}")
    try:
        path = Path(cast(str, given))
        if "\0" in str(path):
            raise ValueError("it has a null character")
        path.exists()
    except (OSError, TypeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"{name} is no path: {reason}") from error
    return path
