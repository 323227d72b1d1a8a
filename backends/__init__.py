"""Backends of padc, and the table that registers their targets."""

from collections.abc import Callable

from xdsl.utils.target import Target


def get_all_targets() -> dict[str, Callable[[], type[Target]]]:
    """
    The targets that padc adds to those of xDSL, by name.

    Each is imported when asked for: coremltools alone takes seconds to import.
    """

    def get_mil() -> type[Target]:
        from padc.backends.coreml.target import MILTarget

        return MILTarget

    return {"mil": get_mil}
