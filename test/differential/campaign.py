# pyright: basic
"""
What comes of the programs of some seeds.

The programs of a chunk of seeds are run in one process, which a crash ends, and a
program that takes longer than its deadline, too. Then each seed of the chunk is run
again in a process of its own.
"""

from __future__ import annotations

import faulthandler
import gc
import itertools
import logging
import multiprocessing
import signal
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from functools import partial
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from typing import Any, TypeAlias, TypeVar

import torch
from differential.paths import PartlyError, SameError, problem
from differential.program import REFUSALS, Program
from differential.programs import drawn
from differential.shrinking import shrunk
from differential.states import with_fitting_states
from differential.tracing import SpecializedError

from padc.errors import Problem, UnsupportedError

DEADLINE = 60.0
"""The most seconds of a program on a path; more is taken for a hang."""
SHORT_DEADLINE = 10.0
"""The most seconds of a smaller program, where the whole one passes `DEADLINE`."""

Work: TypeAlias = tuple[range, str, tuple[str, ...]]
"""Seeds, the kind of their programs, and the paths that run them."""
Outcome: TypeAlias = tuple[int, str, str, str]
"""A seed, a path, and what `outcome` returns."""
Check: TypeAlias = Callable[[Program, str], str | None]
"""`problem`, in this process or in one of its own."""
T = TypeVar("T")


class EndedError(Exception):
    """A process ended, or was ended at its deadline, before it had a result."""


def outcome(program: Program, path: str, check: Check) -> tuple[str, str]:
    """
    `right`, `partly`, `same`, `refused` or `wrong`, and why.

    For `wrong`, that is the smallest program that is.
    """

    def is_wrong(program: Program) -> bool:
        try:
            for run in range(len(program.runs)):
                program.values(run)
        except REFUSALS:
            return False  # A simpler input is no index.
        if with_fitting_states(program).states != program.states:
            return False
        try:
            return check(program, path) is not None
        except (UnsupportedError, SpecializedError, PartlyError, SameError):
            return False
        finally:
            gc.collect()  # Shrinking a network compiles hundreds.

    try:
        text = check(program, path)
    except UnsupportedError as error:
        return "refused", error.problems[0].message
    except PartlyError as error:
        return "partly", str(error)
    except SameError as error:
        return "same", str(error)
    if text is None:
        return "right", ""
    found = shrunk(program, is_wrong)
    return "wrong", f"{check(found, path)}\n{found.source()}"


def in_time(program: Program, path: str) -> str | None:
    """`problem`; this process ends if it takes too long, even in machine code."""
    signal.setitimer(signal.ITIMER_REAL, DEADLINE)
    try:
        return problem(program, path)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def outcomes(work: Work) -> list[Outcome]:
    """What comes of each program on each path."""
    seeds, kind, paths = work
    found = [
        (seed, path, *outcome(program, path, in_time))
        for seed in seeds
        if (program := drawn(seed, kind)).calls
        for path in paths
    ]
    # IR is full of cycles, and the collector is off: see `prepare`.
    gc.collect()
    return found


def outcomes_apart(work: Work) -> list[Outcome]:
    """`outcomes`, where each program is run in a process of its own."""
    seeds, kind, paths = work
    found: list[Outcome] = []
    for seed in seeds:
        try:
            apart(partial(drawn_and_run, seed, kind), DEADLINE)
        except EndedError as error:
            found.append((seed, "eager mode", "wrong", str(error)))
            continue
        if (program := drawn(seed, kind)).calls:
            for path in paths:
                seconds = iter([DEADLINE])
                check = partial(problem_apart, deadlines=seconds)
                found.append((seed, path, *outcome(program, path, check)))
    return found


def drawn_and_run(seed: int, kind: str) -> None:
    program = drawn(seed, kind)
    for run in range(len(program.runs)):
        program.values(run)


def problem_apart(
    program: Program, path: str, deadlines: Iterator[float]
) -> str | None:
    """`problem` in a process of its own, whose end is a problem as well."""

    def answer() -> tuple[str, str | None]:
        try:
            return "found", problem(program, path)
        except UnsupportedError as error:
            return "refused", error.problems[0].message
        except SpecializedError as error:
            return "specialized", str(error)
        except PartlyError as error:
            return "partly", str(error)
        except SameError as error:
            return "same", str(error)

    try:
        kind, text = apart(answer, next(deadlines, SHORT_DEADLINE))
    except EndedError as error:
        return str(error)
    if kind == "refused":
        raise UnsupportedError([Problem(str(text))])
    if kind == "specialized":
        raise SpecializedError(text)
    if kind == "partly":
        raise PartlyError(text)
    if kind == "same":
        raise SameError(text)
    return text


def apart(function: Callable[[], T], seconds: float) -> T:
    """
    What `function` returns in a fork of this process.

    Raises EndedError if it ends the process, or takes longer than `seconds`.
    """

    def send() -> None:
        faulthandler.disable()
        # It ends by itself if this process is gone.
        faulthandler.dump_traceback_later(2 * seconds + 10, exit=True)
        sending.send(function())

    fork = multiprocessing.get_context("fork")
    receiving, sending = fork.Pipe(duplex=False)
    process = fork.Process(target=send, daemon=True)
    with receiving:
        with sending:
            process.start()
        try:
            if receiving.poll(seconds):
                return receiving.recv()
            raise EndedError(f"no result after {seconds:.0f} s")
        except EOFError:
            process.join()
            raise EndedError(f"the process ends: {reason(process)}") from None
        finally:
            process.kill()
            process.join()


def reason(process: BaseProcess) -> str:
    code = process.exitcode
    if code is None or code >= 0:
        return f"exit code {code}"
    return signal.Signals(-code).name


def results(
    work: Sequence[Work], jobs: int, context: BaseContext
) -> Generator[tuple[range, list[Outcome]]]:
    """
    Each chunk of seeds, once, with its outcomes, in any order.

    Programs that end their process or do not end have outcomes as well.
    """
    pending = list(work)
    while pending:
        with Workers(jobs, context) as pool:
            futures = {pool.submit(outcomes, item): item for item in pending}
            pending = []
            for future in as_completed(futures):
                seeds, *_ = item = futures[future]
                try:
                    yield seeds, future.result()
                except BrokenProcessPool:
                    pending.append(item)
        # Chunks are begun in order: one of the first of these ended its process.
        pending.sort(key=lambda item: item[0].start)
        suspects, pending = pending[:jobs], pending[jobs:]
        for item in suspects:
            seeds, *_ = item
            with Workers(1, context) as pool:
                try:
                    yield seeds, pool.submit(outcomes_apart, item).result()
                except BrokenProcessPool:
                    text = "shrinking one of these programs ends the process"
                    yield seeds, [(seeds.start, "eager mode", "wrong", text)]


class Workers(ProcessPoolExecutor):
    """Processes that run programs; if the campaign is stopped, they are, too."""

    def __init__(self, jobs: int, context: BaseContext):
        super().__init__(jobs, mp_context=context, initializer=prepare)

    def __exit__(self, kind: Any, *details: Any) -> bool | None:
        if kind is not None:
            for process in multiprocessing.active_children():
                process.kill()
            self.shutdown(wait=False, cancel_futures=True)
        return super().__exit__(kind, *details)


def prepare() -> None:
    """Set up a process that runs programs."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with suppress(AttributeError, ValueError):
        faulthandler.enable()
        faulthandler.register(signal.SIGALRM, chain=True)  # See `in_time`.
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    logging.disable(logging.ERROR)
    # As padc does during a compilation: IR is full of cycles.
    gc.collect()
    gc.freeze()
    gc.disable()


def ranges(seeds: set[int]) -> str:
    """Seeds as text: "0 to 39, 60 to 79"."""
    parts: list[str] = []
    for _, group in itertools.groupby(
        enumerate(sorted(seeds)), lambda pair: pair[1] - pair[0]
    ):
        (_, first), *rest = group
        parts.append(f"{first} to {rest[-1][1]}" if rest else str(first))
    return ", ".join(parts) or "none"
