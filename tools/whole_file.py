"""Writing files atomically."""

import contextlib
import os
from collections.abc import Generator
from pathlib import Path


@contextlib.contextmanager
def whole_file(path: str | Path) -> Generator[str]:
    """
    The name of a new file, which replaces `path` if the block raises nothing.

    If the block raises, `path` stays as it was. Raises OSError if `path` cannot be
    replaced.
    """
    new = f"{path}.{os.getpid()}.tmp"
    try:
        yield new
        os.replace(new, path)
    except OSError as error:
        if error.filename != new:
            raise
        # The user knows this file by the path that it was to have.
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        Path(new).unlink(missing_ok=True)
