"""The lines of the user's Python that nodes, and errors of PyTorch, come from."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import sysconfig
import traceback
from collections.abc import Generator
from typing import Any

import torch
from torch.fx import Node
from torch.fx.proxy import TracerBase
from xdsl.dialects.builtin import (
    CallSiteLoc,
    FileLineColLoc,
    IntAttr,
    LocationAttr,
    NameLoc,
    StringAttr,
    UnknownLoc,
)

from padc.errors import SourceLocation

TORCH_FOLDER = os.path.dirname(torch.__file__) + os.sep
PADC_FOLDER = os.path.dirname(__file__) + os.sep
STANDARD_LIBRARY = sysconfig.get_path("stdlib") + os.sep
INSTALLED = re.compile(r"[/\\]site-packages[/\\]([^/\\]+)")
FRAME = re.compile(r'^\s*File "(.+)", line (\d+)', re.MULTILINE)


def node_location(node: Node) -> LocationAttr:
    """The user's line that `node` comes from."""
    return stack_location(node.meta.get("stack_trace") or "")


def call_location(node: Node) -> LocationAttr:
    """The user's line that `node` comes from, called by its innermost module."""
    line, stack = node_location(node), node.meta.get("nn_module_stack")
    if not stack:
        return line
    path, _ = list(stack.values())[-1]
    return CallSiteLoc(line, NameLoc(StringAttr(path), UnknownLoc())) if path else line


@functools.lru_cache(maxsize=4096)
def stack_location(stack_trace: str) -> LocationAttr:
    """The innermost line of a printed stack trace in a file that is not PyTorch's."""
    for file, line in reversed(FRAME.findall(stack_trace)):
        if not file.startswith((TORCH_FOLDER, "<")):
            return FileLineColLoc(StringAttr(file), IntAttr(int(line)), IntAttr(0))
    return UnknownLoc()


@contextlib.contextmanager
def inner_lines() -> Generator[None]:
    """
    Let torch.export keep the lines of functions that `forward` calls.

    By itself it keeps those of functions that are named `forward`. Older versions of
    PyTorch do so here too.
    """
    name = "_filter_traceback_frames"
    original = TracerBase.__dict__.get(name)
    if original is None:
        yield
        return

    def filtered(self: Any, frames: traceback.StackSummary) -> traceback.StackSummary:
        return traceback.StackSummary.from_list(lines_of_user(frames))

    setattr(TracerBase, name, filtered)
    try:
        yield
    finally:
        setattr(TracerBase, name, original)


def lines_of_user(
    frames: traceback.StackSummary,
) -> list[traceback.FrameSummary]:
    """The frames from the first `forward` on, without those of other libraries."""
    forwards = [i for i, frame in enumerate(frames) if frame.name == "forward"]
    own = {None, *(package_of(frames[i].filename) for i in forwards)}
    return [
        frame
        for frame in frames[forwards[0] if forwards else len(frames) :]
        if not frame.filename.startswith((TORCH_FOLDER, PADC_FOLDER, "<"))
        and package_of(frame.filename) in own
    ]


def package_of(file: str) -> str | None:
    """The library that a file belongs to; None for the user's own files."""
    installed = INSTALLED.search(file)
    if installed is not None:
        return installed[1]
    return "python" if file.startswith(STANDARD_LIBRARY) else None


def error_location(error: Exception) -> SourceLocation | None:
    """The innermost line of a traceback in a file that is not PyTorch's or padc's."""
    return users_line(traceback.extract_tb(error.__traceback__))


def caller_location() -> SourceLocation | None:
    """The innermost line that is being run in such a file."""
    return users_line(traceback.extract_stack())


def users_line(frames: traceback.StackSummary) -> SourceLocation | None:
    for frame in reversed(frames):
        if not frame.filename.startswith((TORCH_FOLDER, PADC_FOLDER, "<")):
            return SourceLocation(frame.filename, frame.lineno or 0)
    return None
