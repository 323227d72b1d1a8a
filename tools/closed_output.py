"""Command lines whose output goes to a program that stops reading, such as `head`."""

import contextlib
import os
import sys
from collections.abc import Generator


@contextlib.contextmanager
def until_output_is_closed() -> Generator[None]:
    """End the block without an error once nobody reads standard output any more."""
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        # Python would complain when it closes standard output.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
