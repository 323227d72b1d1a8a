"""The Core ML backend: emission of `.mlpackage` and an evaluator that runs one."""

import logging
from collections.abc import Generator
from contextlib import contextmanager

from padc.errors import MissingEnvironmentError, UsageError
from padc.ir.mil import TARGETS


@contextmanager
def quiet() -> Generator[None]:
    """Keep coremltools' log to errors, in an import of it or a call."""
    logger = logging.getLogger("coremltools")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    except ModuleNotFoundError as error:
        raise MissingEnvironmentError(
            f"the Core ML backend needs the package {error.name}",
            hint="pip install 'padc[coreml]'",
        ) from error
    finally:
        logger.setLevel(level)


def resolve_target(name: str) -> str:
    """One of `TARGETS` for its name or "newest"; `UsageError` for another name."""
    if name == "newest":
        return TARGETS[-1]
    if name not in TARGETS:
        raise UsageError(
            f"there is no target '{name}'",
            hint=f"choose one of {', '.join(TARGETS)} or newest",
        )
    return name
