# pyright: basic
"""MLIR text of all levels: changes of its tokens and lines, through the passes."""

from __future__ import annotations

import contextlib
import io
import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from random import Random
from unittest.mock import patch

from fuzz.changes import FLOATS, TEXTS, changed_integer
from fuzz.seed_texts import spec, texts, ways
from fuzz.target import Crash, Refused, Target

from padc.passes import PASSES
from padc.tools import padc as padc_command
from padc.tools import padc_opt
from padc.tools.instrumentation import PASSES_KEY

INTEGER = re.compile(r"(?<![%\w.])-?\d+(?!\.)|(?<=[x<])\d+(?=x)")
PARTS = {
    "value": re.compile(r"%\w+"),
    "op": re.compile(
        r"\b(?:tcp|mil|aten|torch|linalg|tensor|memref|vector|arith|math|func|cf|scf|llvm)"
        r"\.[\w.]+"
    ),
    "element": re.compile(r"(?<=[x<, :(])(?:[su]?i\d+|f16|bf16|f32|f64|index|none)\b"),
    "type": re.compile(r"!?[\w.]*(?:tensor|memref|list)<[^<>]*>"),
    "size": re.compile(r"(?<=[<\[,x ])(?:\?|\d+)(?=[x,\]])"),
    "string": re.compile(r'"[^"\n]*"'),
    "word": re.compile(r"(?<![%!@.\w])[a-z]\w+(?![\w.])"),
    "array": re.compile(r"\[[^\[\]\n]*\]"),
    "attributes": re.compile(r"\{[^{}\n]*\}"),
    "float": re.compile(r"-?\d+\.\d+(?:[eE][+-]?\d+)?"),
    "token": re.compile(r"[%@!#]?\w+|[^\w\s]"),
}
"""What is exchanged for others of its kind."""
TOKEN = re.compile(
    r'//[^\n]*|"(?:\\.|[^"\\\n])*"|->|::|-?\d+\.\d*(?:[eE][+-]?\d+)?'
    r"|[%@!#^]?[\w.$]+(?:-\w+)*|\S"
)
"""A token of MLIR, about: one that is cut in two is another fault to find."""
SPACES = (" ", "\t", "\n", " \n\n ", " //\n", " // x\n ", ' // "\n', " // >]})\n ")
"""What separates tokens and means nothing."""


class MlirText(Target):
    """
    What `padc-opt` does with a text.

    A case is a reproducer: a line with the passes, and the text.
    """

    suffix = ".mlir.txt"

    def prepare(self) -> None:
        self.seeds = texts()
        self.pipelines = [spec(way) for way in ways()]
        self.passes = [name for names in PASSES.values() for name in names]

    def case(self, rng: Random) -> bytes:
        text, passes = rng.choice(self.seeds)
        other, _ = rng.choice(self.seeds)
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            text = changed(text, other, rng)
        if rng.random() < 0.2:
            passes = rng.choice([*self.pipelines, *self.passes])
        return f"{PASSES_KEY}{passes}\n{text}\n".encode("utf-8", "surrogatepass")

    def run(self, case: bytes) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "case.mlir")
            path.write_bytes(case)
            run_main(padc_opt.main, ["--run-reproducer", str(path)])


class MlirModels(MlirText):
    """
    What `padc convert` does with a text.

    A case is the text.
    """

    def prepare(self) -> None:
        super().prepare()
        first = {way.partition(",")[0] for way in self.pipelines}
        self.seeds = [
            (text, passes)
            for text, passes in self.seeds
            if passes.partition(",")[0] in first
        ]
        # Imports coremltools, which each child would do again.
        with contextlib.suppress(Refused):
            self.run(self.seeds[0][0].encode())

    def case(self, rng: Random) -> bytes:
        return super().case(rng).partition(b"\n")[2]

    def run(self, case: bytes) -> None:
        os.environ["PADC_DEBUG"] = "1"
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "case.mlir")
            path.write_bytes(case)
            run_main(padc_command.main, self.arguments(path))

    def arguments(self, path: Path) -> list[str]:
        """The command line."""
        return ["convert", str(path), "-o", str(path.with_name("out.mlpackage"))]


class MlirRuns(MlirModels):
    """
    What `padc run` does with a text.

    A case is the text. Its tensors may be of any size.
    """

    may_need_memory = True

    def arguments(self, path: Path) -> list[str]:
        return ["run", str(path), "--inputs", "random:0"]


DOCUMENTED = range(1, 6)
"""The exit codes of `padc --help` and `padc-opt --help`."""


def run_main(main, arguments: Sequence[str]) -> None:
    """Run a command line; raises Refused for a documented exit code, Crash for others."""
    output, errors = io.StringIO(), io.StringIO()
    code: object = 0
    stdin = patch("sys.stdin", io.TextIOWrapper(io.BytesIO()))
    with stdin, contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        try:
            main(arguments)
        except SystemExit as error:
            code = error.code
    if code not in (None, 0, *DOCUMENTED):
        raise Crash(errors.getvalue())
    if code:
        raise Refused(errors.getvalue())


def changed(text: str, other: str, rng: Random) -> str:
    """A change of one token, one line, the space between tokens, or another's line."""
    lines = text.splitlines() or [""]
    at, to = rng.randrange(len(lines)), rng.randrange(len(lines))
    match rng.randrange(14):
        case 0:
            del lines[at]
        case 1:
            lines.insert(to, lines[at])
        case 2:
            lines[at], lines[to] = lines[to], lines[at]
        case 3:
            lines.insert(to, rng.choice(other.splitlines()))
        case 4 | 5 | 6:
            return changed_number(text, rng)
        case 7 | 8:
            return spaced(text, rng)
        case _:
            return changed_part(text, other, rng)
    return "\n".join(lines)


def changed_number(text: str, rng: Random) -> str:
    """Another integer or float."""
    found = list(INTEGER.finditer(text))
    floats = list(PARTS["float"].finditer(text))
    if floats and (not found or rng.random() < 0.2):
        return replaced(text, rng.choice(floats), repr(rng.choice(FLOATS)))
    if not found:
        return text
    match = rng.choice(found)
    new = str(changed_integer(int(match[0]), rng))
    if rng.random() < 0.3:
        # A size stands in many types.
        return re.sub(rf"(?<=[x<]){re.escape(match[0])}(?=[x>])", new, text)
    return replaced(text, match, new)


def spaced(text: str, rng: Random) -> str:
    """Spaces, lines and comments between tokens: few of them, or many."""
    share = rng.random() ** 3

    def after_space(token: re.Match[str]) -> str:
        return (rng.choice(SPACES) if rng.random() < share else "") + token[0]

    return TOKEN.sub(after_space, text)


def changed_part(text: str, other: str, rng: Random) -> str:
    """A part exchanged for one of its kind, left out or repeated."""
    kind = rng.choice(list(PARTS))
    found = list(PARTS[kind].finditer(text))
    if not found:
        return text
    part = rng.choice(found)
    here = [each[0] for each in found]
    elsewhere = PARTS[kind].findall(other)
    match rng.randrange(8):
        case 0:
            new = ""
        case 1:
            new = f"{part[0]}{rng.choice(['', ' ', ', '])}{part[0]}"
        case 2 if kind == "string":
            new = f'"{rng.choice(TEXTS)}"'
        case 2 if kind == "size":
            new = rng.choice(["?", "0", "1", "-1"])
        case 2 | 3 if elsewhere:
            new = rng.choice(elsewhere)
        case _:
            new = rng.choice(here)
    if kind in ("element", "type") and rng.random() < 0.7:
        # One alone seldom verifies.
        return text.replace(part[0], new)
    return replaced(text, part, new)


def replaced(text: str, match: re.Match[str], new: str) -> str:
    return text[: match.start()] + new + text[match.end() :]
