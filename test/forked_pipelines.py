# pyright: basic
"""A format of lit's tests that starts no process, since `padc-opt` takes long to import."""

import os
import re
import shlex
import sys
import traceback
from collections.abc import Callable, Sequence
from tempfile import TemporaryFile

import filecheck.main
import lit.formats
import lit.Test
import lit.TestRunner

from padc.ir import make_context
from padc.passes import get_all_passes
from padc.tools import padc_opt

COMMANDS: dict[str, Callable[[], object]] = {
    "padc-opt": padc_opt.main,
    "filecheck": filecheck.main.main,
}


def import_all() -> None:
    """Import dialects and passes, which commands otherwise do when they use them."""
    context = make_context()
    for dialect in ("tcp", "mil", "torch", "arith", "linalg", "memref", "scf", "llvm"):
        context.load_registered_dialect(dialect)
    for load in get_all_passes().values():
        load()


class ForkedPipelines(lit.formats.ShTest):
    """
    Runs lines that only pipe `COMMANDS` into each other, each in a fork of lit's worker.

    lit's shell runs the tests that have other lines.
    """

    def execute(self, test, litConfig):
        lines = lit.TestRunner.parseIntegratedTestScript(test)
        if isinstance(lines, lit.Test.Result):
            return lines
        directory, base = lit.TestRunner.getTempPaths(test)
        substitutions = lit.TestRunner.getDefaultSubstitutions(test, directory, base)
        script = lit.TestRunner.applySubstitutions(lines, substitutions)
        # lit puts "%dbg(RUN: at line 1)" before each line.
        script = [
            re.sub(lit.TestRunner.kPdbgRegex, r"\2", line).strip() for line in script
        ]
        pipelines = [pipeline(line) for line in script]
        if any(command[0] not in COMMANDS for each in pipelines for command in each):
            return super().execute(test, litConfig)
        for line, commands in zip(script, pipelines, strict=True):
            if failure := run(commands):
                return lit.Test.Result(lit.Test.FAIL, f"RUN: {line}\n{failure}\n")
        return lit.Test.Result(lit.Test.PASS, "")


def pipeline(line: str) -> list[list[str]]:
    """The words of each command; other operators than "|" make a command of their own."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    commands: list[list[str]] = [[]]
    for word in lexer:
        if word[0] in lexer.punctuation_chars:
            commands += [[]] if word == "|" else [[word], []]
        else:
            commands[-1].append(word)
    return [command or [""] for command in commands]


def run(commands: Sequence[Sequence[str]]) -> str:
    """What the commands of a pipeline that fail print, and their exit codes."""
    failures = []
    with TemporaryFile() as empty:
        given = empty
        for command in commands:
            output, errors = TemporaryFile(), TemporaryFile()
            code = fork(command, [given.fileno(), output.fileno(), errors.fileno()])
            if code:
                errors.seek(0)
                message = errors.read().decode(errors="replace")
                failures.append(f"{shlex.join(command)}: exit code {code}\n{message}")
            output.seek(0)
            given = output
    return "\n".join(failures)


def fork(command: Sequence[str], files: Sequence[int]) -> int:
    """Run a command with these standard files; returns its exit code."""
    if child := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    code = 1
    try:
        for number, file in enumerate(files):
            os.dup2(file, number)
        sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")
        sys.argv = list(command)
        code = COMMANDS[command[0]]()
    except SystemExit as exit:
        code = exit.code
    except BaseException:
        traceback.print_exc()
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:  # or the child would go on as lit's worker
            os._exit(code if isinstance(code, int) else int(code is not None))
