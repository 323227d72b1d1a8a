"""The levels of Python's loggers during calls of libraries."""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def log_level(name: str, level: int) -> Generator[None]:
    """
    Let the logger `name` log from `level` on.

    Nested calls change nothing, since each change of a level visits all loggers.
    """
    logger = logging.getLogger(name)
    before = logger.level
    if before == level:
        yield
        return
    logger.setLevel(level)
    try:
        yield
    finally:
        logger.setLevel(before)
