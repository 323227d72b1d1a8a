"""Command lines whose output cannot be written: to a full disk, or to `head`."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
from collections.abc import Generator
from typing import TYPE_CHECKING, TextIO

from padc.errors import UsageError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class Output(io.FileIO):
    """Standard output; what cannot be written to it is a UsageError."""

    def write(self, data: ReadableBuffer, /) -> int | None:
        try:
            return super().write(data)
        except OSError as error:
            # Python would complain when it writes the rest, or closes the file.
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())
            if error.errno == errno.EPIPE:
                raise
            raise UsageError(
                f"cannot write to standard output: {error.strerror}"
            ) from error


@contextlib.contextmanager
def until_output_is_closed() -> Generator[None]:
    """
    End the block without an error once nobody reads standard output any more.

    Raises UsageError if the output cannot be written for another reason.
    """
    with contextlib.ExitStack() as stack:
        if sys.stdout is None:  # pyright: ignore[reportUnnecessaryComparison]
            # It was closed before the start: nothing is written, as in Python itself.
            stream: TextIO = stack.enter_context(open(os.devnull, "w"))
        else:
            stream = checked_output(sys.stdout)
        stack.enter_context(contextlib.suppress(BrokenPipeError))
        stack.enter_context(contextlib.redirect_stdout(stream))
        try:
            yield
        finally:
            stream.flush()


def checked_output(stream: TextIO) -> TextIO:
    """Standard output as an `Output`; as it is if it is no file."""
    buffer = getattr(stream, "buffer", None)
    raw = getattr(buffer, "raw", buffer)
    if not isinstance(raw, io.FileIO):
        return stream
    stream.flush()
    return io.TextIOWrapper(
        io.BufferedWriter(Output(raw.fileno(), "w", closefd=False)),
        stream.encoding,
        stream.errors,
        line_buffering=bool(stream.line_buffering),
        write_through=raw is buffer,
    )
