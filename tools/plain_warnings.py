"""Warnings of padc on the command line: without a line of padc's own source."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from typing import TextIO

from padc.warn import PadcWarning


@contextmanager
def plain_warnings() -> Generator[None]:
    """Print warnings that padc gives as it prints errors; leave others as they are."""
    with warnings.catch_warnings():
        show = warnings.showwarning

        def shown(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if category is PadcWarning:
                print(f"padc: warning: {message}", file=file or sys.stderr)
            else:
                show(message, category, filename, lineno, file, line)

        warnings.showwarning = shown
        yield
