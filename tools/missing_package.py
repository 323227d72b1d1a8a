"""The error for a package that a command imports, and that is not installed."""

from __future__ import annotations

from padc.errors import MissingEnvironmentError


def missing_package(
    error: ModuleNotFoundError, extra: str | None
) -> MissingEnvironmentError:
    """The error that says what to install; the command needs padc's extra `extra`."""
    package = (error.name or str(error)).partition(".")[0]
    extras = {"torch": extra, "coremltools": "coreml", "llvmlite": "native"}
    found = extras.get(package)
    return MissingEnvironmentError(
        f"this needs the package {package}",
        hint=f"pip install 'padc[{found}]'" if found else "install it",
    )
