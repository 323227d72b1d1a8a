"""The lines of the user's Python that nodes, and errors of PyTorch, come from."""

from __future__ import annotations

import functools
import os
import re
import traceback

import torch
from torch.fx import Node
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


def error_location(error: Exception) -> SourceLocation | None:
    """The innermost line of a traceback in a file that is not PyTorch's or padc's."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if not frame.filename.startswith((TORCH_FOLDER, PADC_FOLDER, "<")):
            return SourceLocation(frame.filename, frame.lineno or 0)
    return None
