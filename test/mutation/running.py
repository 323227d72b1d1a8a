# pyright: basic
"""
Running the tests of an area on a copy of the repository, in a forked process.

PyTorch and other packages are loaded once, before the fork. The copy is imported in
each process again, with the mutant in it.
"""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
ROUNDTRIP = "padc-opt %s --print-op-generic | padc-opt | filecheck %s"  # of lit.cfg.py


def preload() -> None:
    """Import what takes long and is not mutated."""
    import coremltools  # noqa: F401
    import filecheck.matcher  # noqa: F401
    import hypothesis  # noqa: F401
    import llvmlite.binding  # noqa: F401
    import xdist.plugin  # noqa: F401
    import z3  # noqa: F401
    from xdsl.dialects import get_all_dialects

    for dialect in get_all_dialects().values():
        dialect()


def copy_repository(folder: Path) -> None:
    """Copy what git tracks."""
    listed = subprocess.check_output(["git", "-C", ROOT, "ls-files", "-z"], text=True)
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).exists() or (ROOT / name).is_symlink():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)


def in_fork(work: Callable[[], int], seconds: float, output: Path) -> int | None:
    """The exit code of `work` in a process of its own; None if it takes too long."""
    child = os.fork()
    if child == 0:
        code = 70
        try:
            os.setsid()
            written = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            for stream in (1, 2):
                os.dup2(written, stream)
            code = work()
        finally:
            os._exit(code)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def enter(folder: Path) -> None:
    """Let imports, and programs that tests start, find the copy in `folder`."""
    os.chdir(folder)
    sys.path.insert(0, str(folder / "src"))
    os.environ["PYTHONPATH"] = str(folder / "src")


def run_pytest(folder: Path, tests: Sequence[str], *plugins: object) -> int:
    enter(folder)
    options = ["-q", "-x", "-p", "no:cacheprovider", "--rootdir", str(folder)]
    return int(pytest.main([*options, *tests], plugins=list(plugins)))


def run_lit(folder: Path, paths: Sequence[str]) -> int:
    """Run the `RUN` lines of MLIR tests here, which takes a tenth of lit's time."""
    enter(folder)
    for path in paths:
        for file in sorted(Path(path).rglob("*.mlir")) or [Path(path)]:
            for line in re.findall("// RUN: (.*)", file.read_text()):
                line = line.replace("PADC_ROUNDTRIP", ROUNDTRIP)
                if not run_line(line.replace("%s", str(file))):
                    return 1
    return 0


def run_line(line: str) -> bool:
    """Run a pipe of padc-opt and filecheck; whether the latter succeeds."""
    from filecheck.matcher import Matcher
    from filecheck.options import parse_argv_options

    from padc.tools.padc_opt import main

    text = ""
    for command in line.split(" | "):
        name, *args = shlex.split(command)
        streams = sys.stdin, sys.stdout
        # padc-opt reads bytes, filecheck characters.
        sys.stdin = io.TextIOWrapper(io.BytesIO(text.encode()), "utf-8")
        sys.stdout = io.StringIO()
        try:
            if name == "filecheck":
                return Matcher.from_opts(parse_argv_options([name, *args])).run() == 0
            assert name == "padc-opt", line
            main(args)
            text = sys.stdout.getvalue()
        except SystemExit as error:
            if error.code:
                return False
            text = sys.stdout.getvalue()
        finally:
            sys.stdin, sys.stdout = streams
    raise AssertionError(f"{line} checks nothing")


@dataclass
class Coverage:
    """Which lines of the mutated files each test runs, and how long it takes."""

    files: set[str]
    record: Path
    tests: dict[str, dict[str, Any]] = field(default_factory=dict)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        lines: set[tuple[str, int]] = set()

        def local(frame: Any, event: str, arg: Any) -> Any:
            lines.add((frame.f_code.co_filename, frame.f_lineno))
            return local

        def calls(frame: Any, event: str, arg: Any) -> Any:
            return local if frame.f_code.co_filename in self.files else None

        start = time.perf_counter()
        sys.settrace(calls)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            seconds = time.perf_counter() - start
            self.tests[item.nodeid] = {"seconds": seconds, "lines": sorted(lines)}

    def pytest_sessionfinish(self) -> None:
        self.record.write_text(json.dumps(self.tests))
