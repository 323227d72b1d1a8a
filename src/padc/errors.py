"""
What padc tells a user who gave it something it cannot work with.

Every error says what was expected, what came, where in the user's own Python,
and the way out. The command line turns the class into an exit code.
"""

from __future__ import annotations

import linecache
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from xdsl.dialects.builtin import (
    ArrayAttr,
    CallSiteLoc,
    FileLineColLoc,
    FusedLoc,
    LocationAttr,
    NameLoc,
)
from xdsl.ir import Attribute, Operation
from xdsl.utils.exceptions import PassFailedException


@dataclass(frozen=True)
class SourceLocation:
    """A line of the user's Python."""

    file: str
    line: int

    @staticmethod
    def of(location: LocationAttr | Attribute) -> SourceLocation | None:
        """The first file and line in an MLIR location; None where it has none."""
        match location:
            case FileLineColLoc():
                return SourceLocation(location.filename.data, location.line.data)
            case NameLoc():
                return SourceLocation.of(location.location)
            case CallSiteLoc():
                return SourceLocation.of(location.callee)
            case FusedLoc(locations=ArrayAttr() as locations):
                inner = (SourceLocation.of(part) for part in locations)
                return next((part for part in inner if part is not None), None)
            case _:
                return None

    @property
    def text(self) -> str:
        """The line itself, or "" where the file cannot be read."""
        return linecache.getline(self.file, self.line).strip()

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}"
        return f"{where}: {self.text}" if self.text else where


def origin(op: Operation) -> str:
    """What an op was lowered from, "aten.pad", where its location says; or its name."""
    match op.location:
        case NameLoc(desc=name):
            return name.data
        case _:
            return op.name


def first_line(error: Exception) -> str:
    """The first line of another library's error; where it says nothing, its type."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


class PadcError(Exception):
    """Base of the errors that padc raises on purpose."""

    exit_code: ClassVar[int] = 70

    def __init__(
        self,
        message: str,
        *,
        location: SourceLocation | None = None,
        hint: str | None = None,
    ):
        self.message = message
        self.location = location
        self.hint = hint
        lines = [message]
        if location is not None:
            lines.append(f"  at {location}")
        if hint is not None:
            lines.append(f"  hint: {hint}")
        super().__init__("\n".join(lines))


class WrongResultError(PadcError):
    """A converted program does not compute what the model computes."""

    exit_code = 1


class UsageError(PadcError):
    """An argument, option or path that cannot be used."""

    exit_code = 2


@dataclass(frozen=True)
class Problem:
    """One thing in a program that cannot be converted."""

    message: str
    """What it is: op, shapes, dtypes and the offending value."""
    location: SourceLocation | None = None
    hint: str | None = None

    def __str__(self) -> str:
        return str(PadcError(self.message, location=self.location, hint=self.hint))


class UnsupportedError(PadcError, PassFailedException):
    """The program has parts that cannot be converted; `problems` lists them all."""

    exit_code = 3

    def __init__(self, problems: Sequence[Problem]):
        assert problems
        self.problems = tuple(problems)
        if len(problems) == 1:
            (only,) = problems
            super().__init__(only.message, location=only.location, hint=only.hint)
            return
        listed = "\n".join(f"- {problem}" for problem in problems)
        super().__init__(f"{len(problems)} unsupported parts:\n{listed}")
        self.location, self.hint = problems[0].location, problems[0].hint

    def __reduce__(self) -> tuple[Any, ...]:
        return UnsupportedError, (self.problems,)


class Obstacle(Exception):
    """
    Why one thing cannot be converted, and the way out.

    Whoever walks a program catches it, adds where it was, and raises them all as one
    `UnsupportedError`.
    """

    def __init__(self, message: str, hint: str | None = None):
        super().__init__(message)
        self.message = message
        self.hint = hint


class InvalidProgramError(PadcError):
    """A file or module that is damaged, or whose IR does not verify."""

    exit_code = 4


class MissingEnvironmentError(PadcError):
    """A package that this command needs is not installed."""

    exit_code = 5


def resolve(what: str, name: str, choices: Sequence[str]) -> str:
    """`name`, which is one of `choices`; `UsageError` for another."""
    if name not in choices:
        raise UsageError(
            f"there is no {what} '{name}'", hint=f"choose one of {', '.join(choices)}"
        )
    return name
