"""The entries that padc writes into a package's metadata, and reads from it."""

from collections.abc import Generator
from contextlib import contextmanager

from padc.errors import InvalidProgramError

LOCATIONS = "padc.locations"
"""JSON of `{output of an op: "file:line"}`."""
BUFFERS = "padc.buffers"
"""JSON of the buffers that the program changes."""
FEATURES = "padc.features"
"""JSON of the tensors of images and labels."""


def metadata_key(key: str, function: str | None) -> str:
    """The key for one function, in a package that has several."""
    return key if function is None else f"{key}.{function}"


@contextmanager
def reading_metadata(key: str) -> Generator[None]:
    """Turn exceptions about an entry of the wrong form into InvalidProgramError."""
    try:
        yield
    except (
        AttributeError,
        LookupError,
        TypeError,
        ValueError,
        RecursionError,
        OverflowError,
    ) as error:
        raise InvalidProgramError(f"the metadata {key} is damaged: {error}") from error
