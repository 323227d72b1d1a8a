"""The versions of Core ML, which programs are made for."""

from padc.errors import UsageError

TARGETS = ("iOS15", "iOS16", "iOS17", "iOS18", "iOS26")
"""The versions of Core ML, oldest first."""

DEFAULT_TARGET = "iOS17"


def resolve_target(target: object) -> str:
    """
    One of `TARGETS`, by name or "newest", or as a `ct.target`.

    Raises `UsageError` for any other one.
    """
    name = str(getattr(target, "name", target))
    if name == "newest":
        return TARGETS[-1]
    if name not in TARGETS:
        raise UsageError(
            f"there is no target '{name}'",
            hint=f"choose one of {', '.join(TARGETS)} or newest",
        )
    return name
