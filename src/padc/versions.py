"""Which versions of other packages padc works with, and which are installed."""

from __future__ import annotations

import functools
import platform
import re
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version

from padc.errors import MissingEnvironmentError

PACKAGES = ("torch", "coremltools", "xdsl", "llvmlite", "numpy", "protobuf")

SUPPORTED: Mapping[str, Mapping[str, str]] = {
    "torch": {"torch": ">=2.8,<2.16"},
    "coreml": {"torch": ">=2.8,<2.16", "coremltools": ">=9.0,<9.1", "numpy": "<2.4"},
    "native": {"torch": ">=2.8,<2.16", "llvmlite": ">=0.50,<0.51"},
}
"""The packages that each extra of padc needs, as pyproject.toml has it."""


def versions_text() -> str:
    """The text of `--version`: padc and what it runs on, one per line."""
    names = ("padc", *PACKAGES)
    lines = [f"{name} {installed(name) or '(not installed)'}" for name in names]
    lines.insert(1, f"Python {platform.python_version()}")
    return "\n".join(lines)


def installed(package: str) -> str | None:
    """The version of an installed package, without importing the package."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


@functools.cache
def require(extra: str, wanted_extra: str | None = None) -> None:
    """
    Raise MissingEnvironmentError unless what `extra` needs is installed.

    The hint is to install `wanted_extra`, if what the user called needs more later.
    """
    hint = f"pip install 'padc[{wanted_extra or extra}]'"
    for package, wanted in SUPPORTED[extra].items():
        found = installed(package)
        if found is None:
            raise MissingEnvironmentError(
                f"this needs the package {package}{wanted}", hint=hint
            )
        if not is_within(found, wanted):
            raise MissingEnvironmentError(
                f"this needs {package}{wanted}, and {package} {found} is installed",
                hint=hint,
            )


def is_within(found: str, wanted: str) -> bool:
    """Whether the version `found` is in a range such as `>=2.8,<2.16`."""
    return all(
        numbers(found) < numbers(bound)
        if bound.startswith("<")
        else numbers(found) >= numbers(bound)
        for bound in wanted.split(",")
    )


def numbers(text: str) -> tuple[int, ...]:
    """The first two numbers of a version or a bound: (2, 13) of `2.13.0+cpu`."""
    major, minor, *_ = (*re.findall(r"\d+", text), "0")
    return int(major), int(minor)
