# pyright: basic
"""A process that tries the mutants of one area, one after the other."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from mutation.areas import Area
from mutation.mutants import Mutant
from mutation.running import (
    Coverage,
    copy_repository,
    in_fork,
    preload,
    run_lit,
    run_pytest,
)

PASSED, FAILED, NOTHING_RUN = 0, 1, 5
SURVIVES, NOTICED, TOO_LONG = "survives", "is noticed", "takes too long"
ENDED = "ends the tests"
OUTCOMES = {
    PASSED: SURVIVES,
    NOTHING_RUN: SURVIVES,
    FAILED: NOTICED,
    None: TOO_LONG,
}
"""What an exit code of the tests says of a mutant; `ENDED` for others."""


class Worker:
    """A copy of the repository, in which one process tries mutants of an area."""

    def __init__(self, area: Area):
        self.area = area
        self.temporary = tempfile.TemporaryDirectory(prefix="padc-mutation-")
        self.folder = Path(self.temporary.name).resolve()
        self.output = self.folder / "output.txt"
        self.tests: dict[str, Any] = {}
        preload()
        copy_repository(self.folder)
        self.measure()

    def measure(self) -> None:
        """Run all tests on the original: they pass, and tell which lines they run."""
        record = self.folder / "coverage.json"
        files = {self.imported(name) for name in self.area.files}
        start = time.perf_counter()
        coverage = Coverage(files, record)
        if self.area.tests:
            tests = partial(run_pytest, self.folder, self.area.tests, coverage)
            self.expect_pass(tests, 1800)
            self.tests = json.loads(record.read_text())
        self.expect_pass(partial(run_lit, self.folder, self.area.lit), 600)
        self.limit = 20 + 3 * (time.perf_counter() - start)

    def expect_pass(self, work: Callable[[], int], seconds: float) -> None:
        if in_fork(work, seconds, self.output) != PASSED:
            text = self.output.read_text()
            raise AssertionError(f"tests fail without any mutant:\n{text}")

    def outcome(self, file: str, mutant: Mutant) -> str:
        """What comes of the tests with a mutant in place of `file`."""
        path = self.folder / file
        original = path.read_bytes()
        for compiled in path.parent.glob(f"__pycache__/{path.stem}.*.pyc"):
            compiled.unlink()
        path.write_text(mutant.source)
        try:
            code = self.code(self.imported(file), mutant)
        finally:
            path.write_bytes(original)
        return OUTCOMES.get(code, ENDED)

    def imported(self, file: str) -> str:
        """The path by which Python knows a file: folders of src/padc are links."""
        return str(self.folder / "src/padc" / file.removeprefix("src/padc/"))

    def code(self, file: str, mutant: Mutant) -> int | None:
        """The exit code of the tests; None if they take too long."""
        tests = self.tests_of(file, mutant)

        def work() -> int:
            if self.area.lit and (code := run_lit(self.folder, self.area.lit)):
                return code
            return run_pytest(self.folder, tests) if tests else PASSED

        return in_fork(work, self.limit, self.output)

    def tests_of(self, file: str, mutant: Mutant) -> list[str]:
        """The tests that run lines of the mutant, the quickest first."""
        wanted = {(file, line) for line in mutant.lines or ()}
        tests = [
            (test["seconds"], name)
            for name, test in self.tests.items()
            if not wanted or wanted & set(map(tuple, test["lines"]))
        ]
        return [name for _, name in sorted(tests)]


worker: Worker


def start(area: Area) -> None:
    global worker
    sys.dont_write_bytecode = False
    worker = Worker(area)
    sys.dont_write_bytecode = True


def outcome(work: tuple[str, Mutant]) -> str:
    return worker.outcome(*work)
