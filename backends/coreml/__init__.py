"""The Core ML backend: emission of `.mlpackage` and an evaluator that runs one."""

import logging
from collections.abc import Generator
from contextlib import contextmanager

from padc.errors import InvalidProgramError, MissingEnvironmentError
from padc.log_levels import log_level
from padc.versions import require

LOCATIONS = "padc.locations"
"""Key of a package's metadata: JSON of `{output of an op: "file:line"}`."""
BUFFERS = "padc.buffers"
"""Key of a package's metadata: JSON of the buffers that the program changes."""
FEATURES = "padc.features"
"""Key of a package's metadata: JSON of the tensors of images and labels."""

IMAGE_ORIGIN = "padc.image"
"""What an op between pixels and the model's tensors comes from, in its scope."""


def metadata_key(key: str, function: str | None) -> str:
    """The key for one function, in a package that has several."""
    return key if function is None else f"{key}.{function}"


@contextmanager
def reading_metadata(key: str) -> Generator[None]:
    """Raise InvalidProgramError for what an entry of the wrong form raises."""
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


@contextmanager
def quiet() -> Generator[None]:
    """Keep coremltools' log to errors, in an import of it or a call."""
    require("coreml")
    try:
        with log_level("coremltools", logging.ERROR):
            yield
    except ModuleNotFoundError as error:
        missing = str(error.name).partition(".")[0]
        raise MissingEnvironmentError(
            f"the Core ML backend needs the package {missing}",
            hint="pip install 'padc[coreml]'",
        ) from error
