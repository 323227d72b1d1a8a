"""
The errors that padc raises for input that it cannot work with.

Every message says what was expected, what came, the line of the user's Python, and what
to do. The command line exits with the class's `exit_code`.
"""

from __future__ import annotations

import linecache
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from xdsl.dialects.builtin import LocationAttr
    from xdsl.ir import Attribute, Operation
    from xdsl.utils.exceptions import PassFailedException
else:
    try:
        from xdsl.utils.exceptions import PassFailedException
    except ModuleNotFoundError:  # What runs packages does without xDSL.
        PassFailedException = Exception

__all__ = [
    "InvalidProgramError",
    "MissingEnvironmentError",
    "PadcError",
    "Problem",
    "SourceLocation",
    "UnsupportedError",
    "UsageError",
    "WrongResultError",
]


@dataclass(frozen=True)
class SourceLocation:
    """
    A line of the user's Python.

    Example:
        >>> import padc
        >>> from pathlib import Path
        >>> _ = Path("model.py").write_text("import torch\\nx = torch.ones(2)\\n")
        >>> location = padc.SourceLocation("model.py", 2)
        >>> location.text
        'x = torch.ones(2)'
        >>> str(location)
        'model.py:2: x = torch.ones(2)'
    """

    file: str
    """The path of the file, as Python has it."""
    line: int
    """The number of the line; the first is 1."""

    @staticmethod
    def of(location: LocationAttr | Attribute) -> SourceLocation | None:
        """
        The first file and line in an MLIR location.

        Args:
            location: A location of xDSL's builtin dialect, or any other attribute.

        Returns:
            The file and line; None if the location has none.

        Example:
            >>> from xdsl.dialects.builtin import FileLineColLoc, IntAttr, StringAttr
            >>> start = IntAttr(2), IntAttr(0)
            >>> location = FileLineColLoc(StringAttr("model.py"), *start)
            >>> padc.SourceLocation.of(location)
            SourceLocation(file='model.py', line=2)
        """
        from xdsl.dialects.builtin import (
            ArrayAttr,
            CallSiteLoc,
            FileLineColLoc,
            FusedLoc,
            NameLoc,
        )

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
        """The text of the line; "" if the file cannot be read."""
        return linecache.getline(self.file, self.line).strip()

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}"
        return f"{where}: {self.text}" if self.text else where


def origin(op: Operation) -> str:
    """The op that `op` was lowered from, if its location says so; else its own name."""
    from xdsl.dialects.builtin import NameLoc

    match op.location:
        case NameLoc(desc=name):
            return name.data
        case _:
            return op.name


def module_path(op: Operation) -> str | None:
    """The path of the model's module that calls `op`, as "layers.0.norm", if known."""
    from xdsl.dialects.builtin import CallSiteLoc, NameLoc

    location = op.location
    while isinstance(location, NameLoc):
        location = location.location
    match location:
        case CallSiteLoc(caller=NameLoc(desc=path)):
            return path.data
        case _:
            return None


def is_out_of_memory(error: Exception) -> bool:
    """Whether numpy or PyTorch ran out of memory; PyTorch has no class for this."""
    return isinstance(error, MemoryError) or "can't allocate memory" in str(error)


def first_line(error: Exception) -> str:
    """The first line of another library's error; its type if it has no message."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def shortened(value: object) -> str:
    """A value in a message: in one line, and cut if it is long."""
    try:
        text = " ".join(str(value).split())
    except ValueError:  # Python writes no integers of more than 4,300 digits.
        text = f"a {type(value).__name__} of very many digits"
    return text if len(text) <= 60 else f"{text[:56]} ..."


class PadcError(Exception):
    """
    The base of all errors that padc raises on purpose.

    Args:
        message: What was expected, and what came.
        location: The line of the user's Python that it is about.
        hint: What to do next.

    Example:
        >>> import padc
        >>> print(padc.PadcError("no input 'x'", hint="its inputs are 'y'"))
        no input 'x'
          hint: its inputs are 'y'
    """

    exit_code: ClassVar[int] = 70
    """The code with which the command line exits."""

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
    """
    A converted program does not compute what the model computes.

    Example:
        >>> import padc
        >>> padc.WrongResultError.exit_code
        1
    """

    exit_code = 1


class UsageError(PadcError):
    """
    An argument, option or path cannot be used.

    Example:
        >>> import padc, torch
        >>> try:
        ...     padc.convert(torch.nn.ReLU())
        ... except padc.UsageError as error:
        ...     print(error.message)
        a module needs example_inputs to be traced with
    """

    exit_code = 2


@dataclass(frozen=True)
class Problem:
    """
    One part of a program that cannot be converted.

    Example:
        >>> import padc
        >>> print(padc.Problem("aten.foo of float32[3]", hint="write it as x * 2"))
        aten.foo of float32[3]
          hint: write it as x * 2
    """

    message: str
    """The op with its shapes and dtypes, and why it cannot be converted."""
    location: SourceLocation | None = None
    """The line of the user's Python that calls the op, if that is known."""
    hint: str | None = None
    """What to do next."""

    def __str__(self) -> str:
        return str(PadcError(self.message, location=self.location, hint=self.hint))


class UnsupportedError(PadcError, PassFailedException):
    """
    Parts of the program cannot be converted; `problems` lists all of them.

    Args:
        problems: The parts, at least one.

    Example:
        >>> import padc, torch
        >>> try:
        ...     padc.convert(torch.nn.ReLU(), (torch.zeros(3, dtype=torch.float64),))
        ... except padc.UnsupportedError as error:
        ...     len(error.problems)  # the input and the output
        2
    """

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
    Why one op cannot be converted, and what to do about it.

    Walks over a program catch it, add the location, and raise one `UnsupportedError`
    for all ops.
    """

    def __init__(self, message: str, hint: str | None = None):
        super().__init__(message)
        self.message = message
        self.hint = hint


class InvalidProgramError(PadcError):
    """
    A file is damaged, or the IR of a module does not verify.

    Example:
        >>> import padc, pathlib
        >>> pathlib.Path("damaged.mlpackage").mkdir()
        >>> _ = pathlib.Path("damaged.mlpackage", "Manifest.json").write_text("[")
        >>> try:
        ...     padc.coreml.load("damaged.mlpackage")
        ... except padc.InvalidProgramError as error:
        ...     error.exit_code
        4
    """

    exit_code = 4


class MissingEnvironmentError(PadcError):
    """
    A Python package that is needed is not installed.

    Example:
        >>> import padc
        >>> padc.MissingEnvironmentError.exit_code
        5
    """

    exit_code = 5


def resolve(what: str, name: str, choices: Sequence[str]) -> str:
    """`name`; UsageError unless it is one of `choices`."""
    if name not in choices:
        raise UsageError(
            f"there is no {what} '{name}'", hint=f"choose one of {', '.join(choices)}"
        )
    return name
