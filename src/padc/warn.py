"""Warnings, which Python shows at the user's line that calls padc."""

from __future__ import annotations

import contextlib
import os
import sys
import types
import warnings

PADC_FOLDER = os.path.dirname(__file__) + os.sep
"""The folder of padc's files."""
PASSED_OVER = ("coremltools", "torch", "xdsl")
"""The packages through which the user's code calls padc."""


class PadcWarning(UserWarning):
    """
    A model is converted or compiled, but not quite as it was asked for.

    Example:
        >>> import padc, warnings
        >>> warnings.filterwarnings("error", category=padc.PadcWarning)
        >>> warnings.filterwarnings("default", category=padc.PadcWarning)
    """


def warn(message: str) -> None:
    """Give a `PadcWarning` at the last line before padc was called."""
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame.f_back is not None and is_passed_over(frame):
        frame = frame.f_back
    warnings.warn_explicit(
        message,
        PadcWarning,
        frame.f_code.co_filename,
        frame.f_lineno,
        registry=frame.f_globals.setdefault("__warningregistry__", {}),
    )


def is_passed_over(frame: types.FrameType) -> bool:
    file, name = frame.f_code.co_filename, frame.f_globals.get("__name__", "")
    return (
        file.startswith(PADC_FOLDER)
        or file == contextlib.__file__
        or name.partition(".")[0] in PASSED_OVER
    )
