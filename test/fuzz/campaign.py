"""
Cases in children of this process, with bounds on time and memory.

A child is a fork, so it starts at once with all that was imported. It runs a batch of
cases, and says what came of each. If it dies, the case after the last one that it told
of is a find, and another child goes on after it.
"""

from __future__ import annotations

import faulthandler
import json
import logging
import os
import re
import resource
import signal
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from random import Random
from typing import IO, NoReturn

import torch
from fuzz.target import Target

BATCH = 250
"""The cases of a child: more would pile up what it does not let go of."""
WAITING = 3
"""The wall-clock limit of a case, as a multiple of its CPU time limit."""
MEMORY = 2**31
"""The bytes that cases may take in addition to those of Python, PyTorch and seeds."""
OUT_OF_MEMORY = re.compile("MemoryError|can't allocate memory|std::bad_alloc")


@dataclass(frozen=True)
class Outcome:
    """What came of a case."""

    number: int
    kind: str
    """`accepted`, `refused` or `find`."""
    text: str = ""
    """The traceback of a find."""

    @property
    def signature(self) -> str:
        """The type of the exception, and where it was raised."""
        lines = self.text.strip().splitlines()
        frames = [line.strip() for line in lines if line.lstrip().startswith("File ")]
        # Those of faulthandler begin with the innermost one.
        where = frames[0 if "most recent call first" in self.text else -1 :][:1]
        return " ".join([lines[-1].partition(":")[0], *where])


def numbered(target: Target, name: str, seed: int, number: int) -> bytes:
    """The case of a number; the same one in each run."""
    return target.case(Random(f"{seed}/{name}/{number}"))


def campaign(
    target: Target, name: str, seed: int, numbers: range
) -> Iterator[tuple[Outcome, bytes | None]]:
    """What comes of the cases of these numbers; finds with their case."""

    def run(number: int) -> None:
        target.run(numbered(target, name, seed, number))

    at = numbers.start
    while at < numbers.stop:
        for outcome in forked(range(at, min(at + BATCH, numbers.stop)), run, target):
            at = outcome.number + 1
            is_find = outcome.kind == "find"
            yield outcome, numbered(target, name, seed, at - 1) if is_find else None


def replay(target: Target, cases: Sequence[bytes]) -> list[Outcome]:
    """What comes of these cases."""
    found: list[Outcome] = []
    while len(found) < len(cases):
        numbers = range(len(found), len(cases))
        found += forked(numbers, lambda number: target.run(cases[number]), target)
    return found


def forked(
    numbers: range, run: Callable[[int], None], target: Target
) -> Iterator[Outcome]:
    """What comes of `run` in a child, up to the number that ends it."""
    out, into = os.pipe()
    with tempfile.TemporaryFile("w+") as errors:
        sys.stdout.flush()
        sys.stderr.flush()
        child = os.fork()
        if not child:
            os.close(out)
            with os.fdopen(into, "w") as pipe:
                in_child(numbers, run, target, pipe, errors)
        os.close(into)
        at = numbers.start
        with os.fdopen(out) as pipe:
            for line in pipe:
                outcome = Outcome(**json.loads(line))
                at = outcome.number + 1
                yield outcome
        _, status = os.waitpid(child, 0)
        if at < numbers.stop:
            errors.seek(0)
            yield Outcome(at, "find", f"{errors.read()}\n{ended(status)}")


def ended(status: int) -> str:
    """How a child ended that did not run all of its cases."""
    if os.WIFSIGNALED(status):
        return f"signal {signal.Signals(os.WTERMSIG(status)).name}"
    return f"exit code {os.waitstatus_to_exitcode(status)}"


def in_child(
    numbers: range,
    run: Callable[[int], None],
    target: Target,
    pipe: IO[str],
    errors: IO[str],
) -> NoReturn:
    """Run the cases, write an outcome of each to `pipe`, and exit."""
    try:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(errors.fileno(), 2)
        torch.set_num_threads(1)
        warnings.simplefilter("ignore")
        logging.disable(logging.ERROR)
        limit = bytes_of_process() + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        faulthandler.enable(errors)
        # Both end the process, too, while Python itself waits for other code.
        faulthandler.register(signal.SIGPROF, errors, chain=True)
        for number in numbers:
            signal.setitimer(signal.ITIMER_PROF, target.seconds)
            waiting = WAITING * target.seconds
            faulthandler.dump_traceback_later(waiting, exit=True, file=errors)
            pipe.write(json.dumps(asdict(outcome_of(number, run, target))) + "\n")
            pipe.flush()
        signal.setitimer(signal.ITIMER_PROF, 0)
        faulthandler.cancel_dump_traceback_later()
    except BaseException:
        traceback.print_exc(file=errors)
        errors.flush()
        os._exit(1)
    os._exit(0)


def bytes_of_process() -> int:
    """The address space that this process has."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")


def outcome_of(number: int, run: Callable[[int], None], target: Target) -> Outcome:
    """What comes of one case."""
    try:
        run(number)
    except target.errors as error:
        # One that says that the file is damaged must not hide that memory ran out.
        text = "".join(traceback.format_exception(error))
        if OUT_OF_MEMORY.search(text) and not target.may_need_memory:
            return Outcome(number, "find", text + "\nout of memory")
        return Outcome(number, "refused")
    except BaseException as error:
        return Outcome(number, "find", "".join(traceback.format_exception(error)))
    return Outcome(number, "accepted")
