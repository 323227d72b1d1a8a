"""What a target of the fuzzer is."""

from __future__ import annotations

import abc
from random import Random
from typing import ClassVar

from padc.errors import InvalidProgramError, UnsupportedError, UsageError


class Refused(Exception):
    """A command line ended with an exit code that `padc --help` explains."""


class Crash(Exception):
    """A command line ended with a traceback, which is the message."""


class Target(abc.ABC):
    """
    Code that reads files, and a generator of damaged ones.

    A case is the bytes of one file. It holds all that `run` needs, so that a find can
    be replayed when the generator, its seeds and PyTorch have changed.
    """

    suffix: ClassVar[str]
    """The ending of the files of its finds."""
    errors: ClassVar[tuple[type[BaseException], ...]] = (
        UsageError, InvalidProgramError, UnsupportedError, Refused,
    )  # fmt: skip
    """The errors with which damaged files may be refused: those at which padc is not."""

    seconds: ClassVar[float] = 10
    """The CPU time limit of a case."""
    may_need_memory: ClassVar[bool] = False
    """Whether a case may be refused because there is too little memory."""

    @abc.abstractmethod
    def prepare(self) -> None:
        """Make the files that are damaged; replays do not need them."""

    @abc.abstractmethod
    def case(self, rng: Random) -> bytes:
        """A damaged file."""

    @abc.abstractmethod
    def run(self, case: bytes) -> None:
        """Read a file, and compute what a user would; raises what comes of it."""
