"""Integer options of passes: which values they take."""

from __future__ import annotations

from collections.abc import Collection

from xdsl.passes import ModulePass

from padc.errors import UsageError

VECTOR_BYTES = (16, 32, 64)
"""The bytes of the vectors of CPUs."""


def check_option(
    owner: ModulePass, name: str, allowed: Collection[int | None], expected: str
) -> None:
    """UsageError unless the option `name` of a pass is one of `allowed`."""
    value = getattr(owner, name.replace("-", "_"))
    if value not in allowed:
        raise UsageError(f"{owner.name} {name} is {value}", hint=f"give {expected}")


def check_vector_bytes(owner: ModulePass) -> None:
    """UsageError unless the vectors of a pass are those of some CPU."""
    check_option(owner, "vector-bytes", VECTOR_BYTES, "16, 32 or 64")
