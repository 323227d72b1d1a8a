"""The backends of padc, and the table of their targets."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xdsl.utils.target import Target


def get_all_targets() -> dict[str, Callable[[], type[Target]]]:
    """
    Functions that import the targets which padc adds to xDSL's, by name.

    Importing coremltools takes seconds, so a target is imported when it is used.
    """

    def get_mil() -> type[Target]:
        from padc.backends.coreml.target import MILTarget

        return MILTarget

    return {"mil": get_mil}
