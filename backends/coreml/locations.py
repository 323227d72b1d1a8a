"""
The file names in the lines of Python that a package records, `padc.locations`.

A package says nothing about the folders of the machine that it was built on, unless
the user asks for that.
"""

import sys
from pathlib import Path, PureWindowsPath
from typing import Literal, TypeAlias, get_args

from padc.errors import resolve

LocationsPolicy: TypeAlias = Literal["relative", "absolute", "off"]
"""
How a package records the line of Python that each op comes from.

"relative": with the file's name in its project or library; "absolute": with its full
path; "off": not at all.
"""

DEFAULT_LOCATIONS: LocationsPolicy = "relative"

LIBRARIES = ("site-packages", "dist-packages")
"""The folders that Python packages are installed in."""

PROJECT_FILES = ("pyproject.toml", "setup.py", ".git")
"""Each marks the folder of a project."""


def resolve_locations(name: str) -> str:
    """`name`; UsageError unless it is a policy for locations."""
    return resolve("policy for locations", name, get_args(LocationsPolicy))


def relative_name(file: str) -> str:
    """
    A file's name as Python packages and projects know it, without the folders above.

    - An installed package's file: its path below `site-packages`.
    - The file of another module that is imported: its path in the nearest folder above
      that is a project; outside of projects, below the entry of `sys.path` that it is
      found by.
    - Otherwise, as in a program that was exported before: its last part, whatever the
      folders of this machine are.

    Names that are not absolute paths stay as they are.
    """
    if not Path(file).is_absolute():
        windows = PureWindowsPath(file)
        return windows.name if windows.is_absolute() else file
    path = Path(file)
    for index in reversed(range(len(path.parts) - 1)):
        if path.parts[index] in LIBRARIES:
            return Path(*path.parts[index + 1 :]).as_posix()
    if not is_imported(file):
        return path.name
    for folder in path.parents:
        if any((folder / name).exists() for name in PROJECT_FILES):
            return path.relative_to(folder).as_posix()
    entries = [Path(each).absolute() for each in sys.path]
    found = [each for each in entries if path.is_relative_to(each)]
    folder = max(found, key=lambda each: len(each.parts), default=path.parent)
    return path.relative_to(folder).as_posix()


modules_of_files: dict[str, str] = {}
"""The modules that were found for files: a process imports thousands."""


def is_imported(file: str) -> bool:
    """Whether a file is that of a module that is imported now."""
    known = sys.modules.get(modules_of_files.get(file, ""))
    if getattr(known, "__file__", None) == file:
        return True
    for name, module in [*sys.modules.items()]:
        if getattr(module, "__file__", None) == file:
            modules_of_files[file] = name
            return True
    return False
