"""The Core ML backend: emission of `.mlpackage` and an evaluator that runs one."""

import logging
from collections.abc import Generator
from contextlib import contextmanager

from padc.errors import MissingEnvironmentError
from padc.log_levels import log_level
from padc.versions import require

IMAGE_ORIGIN = "padc.image"
"""The origin that ops between pixels and the model's tensors have in their scope."""


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
